//! Untrusted stores: a copy, a clone, an archive, or another user's directory. Nothing outside the base is read, moved,
//! written or created.

use std::error::Error as _;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::support::{leave_unfinished, make_pipe, tree};
use memory_tool_core::{
    Batch, ErrorKind, Node, OpenError, OpenMode, OpenOptions, Problem, ReadOptions, Store, StoreError, StoreExt,
    StorePath,
};
use memory_tool_local::LocalStore;
use memory_tool_test_fixtures::path;
use tempfile::TempDir;

/// A valid temporary name.
const STAGED: &str = "0123456789abcdef";
const OTHER: &str = "fedcba9876543210";
/// A valid step of a journal.
const RENAME: &str = r#"{"rename":{"from":"/memories/a","to":"/memories/b"}}"#;
/// More bytes than the RAM or the disk can hold.
const HUGE: u64 = 1 << 40;

/// A step of a journal that writes a new file.
fn write(path: &str, staged: &str) -> String {
    let undo = r#""undo":{"kept":"5123456789abcdef","written":[]}"#;
    format!(r#"{{"write":{{"path":"{path}","staged":"{staged}","replaces":null,{undo}}}}}"#)
}

fn remove(path: &str, removed: &str) -> String {
    format!(r#"{{"remove":{{"path":"{path}","removed":"{removed}"}}}}"#)
}

/// A handcrafted base, next to a directory that is off limits.
struct HostileStore(TempDir);

impl HostileStore {
    fn new() -> Self {
        let hostile = Self(TempDir::new().unwrap());
        for directory in ["base/memories", "base/.memory-tool/staging", "base/.memory-tool/conflicts", "outside"] {
            fs::create_dir_all(hostile.0.path().join(directory)).unwrap();
        }
        hostile.write("outside/id_rsa", "the private key");
        hostile
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn base(&self) -> PathBuf {
        self.path("base")
    }

    fn private(&self, name: &str) -> PathBuf {
        self.path("base/.memory-tool").join(name)
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn journal(&self, steps: &str) {
        fs::write(self.private("journal"), format!(r#"{{"format":1,"steps":[{steps}]}}"#)).unwrap();
        leave_unfinished(&self.base());
    }

    async fn open(&self) -> Result<LocalStore, OpenError> {
        LocalStore::open(self.base()).await
    }

    /// Checks that reads and writes fail as damaged and change no file.
    async fn refuses(&self, what: &str) {
        // Opening a store may create directories; the lock files are created here.
        let store = self.open().await.unwrap();
        fs::File::create(self.private("lock")).unwrap();
        fs::File::create(self.private("turnstile")).unwrap();
        leave_unfinished(&self.base());
        let files = || {
            let mut files = tree(self.0.path());
            files.retain(|(path, _)| !path.ends_with("sequence")); // gets the view of the process
            files
        };
        let before = files();
        let read = store.list(&StorePath::memories()).await.map(|_| ());
        let written = store.apply(Batch::new().write(path("/memories/new"), "new")).await;
        for result in [read, written] {
            let is_damaged = matches!(&result, Err(StoreError::Failure { kind: ErrorKind::Damaged, .. }));
            assert!(is_damaged, "{what}: {result:?}");
        }
        assert_eq!(files(), before, "{what}");
    }
}

#[tokio::test]
async fn a_journal_cannot_move_files_into_the_memory() {
    for link in ["../../../outside", "/ABSOLUTE"] {
        let hostile = HostileStore::new();
        let target = if link.starts_with('/') { hostile.path("outside") } else { link.into() };
        symlink(target, hostile.private("staging/d")).unwrap();
        symlink("../../memories", hostile.private("conflicts/d")).unwrap();
        hostile.journal(&write("/memories/x", "d/id_rsa"));
        hostile.refuses(link).await;
    }
}

#[tokio::test]
async fn a_journal_cannot_move_files_out_of_the_store() {
    let hostile = HostileStore::new();
    hostile.write("base/.memory-tool/staging/d/.profile", "theirs");
    symlink("../../../outside", hostile.private("conflicts/d")).unwrap();
    symlink("/", hostile.path("base/memories/y")).unwrap(); // makes the step impossible, so its contents are set aside
    hostile.journal(&write("/memories/y", "d/.profile"));
    hostile.refuses("staged").await;
    hostile.journal(&remove("/memories/y", "../conflicts/d/y"));
    hostile.refuses("removed").await;
}

#[tokio::test]
async fn an_invalid_journal_is_damaged() {
    let hostile = HostileStore::new();
    hostile.write("base/memories/a", "a");
    for name in
        ["", ".", "..", "/", "journal", "../journal", "/etc/passwd", "0123456789ABCDEF", "0123456789abcde\\u0000"]
    {
        for step in [write("/memories/x", name), remove("/memories/a", name)] {
            hostile.journal(&step);
            hostile.refuses(&step).await;
        }
    }
    for steps in [
        format!("{},{}", remove("/memories/a", STAGED), remove("/memories/a/b", OTHER)), // overlapping paths
        format!("{},{}", write("/memories/x", STAGED), remove("/memories/a", STAGED)),   // the same temporary name
        write("/memories", STAGED),
        write("/memories/../x", STAGED),
        write("/memories/x", STAGED).replace(r#""replaces""#, r#""more":1,"replaces""#),
        // Steps that cannot be undone.
        r#"{"write":{"path":"/memories/x","staged":"0123456789abcdef","replaces":null,"undo":null}}"#.to_owned(),
        r#"{"remove":{"path":"/memories/a","removed":null}}"#.to_owned(),
        r#"{"rename":{"from":"/memories","to":"/memories/x"}}"#.to_owned(),
        r#"{"rename":{"from":"/memories/a","to":"/memories/a/b"}}"#.to_owned(),
        r#"{"link":{"from":"/memories/a","to":"/memories/b"}}"#.to_owned(),
    ] {
        hostile.journal(&steps);
        hostile.refuses(&steps).await;
    }
}

#[tokio::test]
async fn only_regular_staged_files_are_moved_into_place() {
    let hostile = HostileStore::new();
    hostile.write("base/memories/a", "a");
    let staged = hostile.private("staging").join(STAGED);
    // The first step is possible, but is not executed because the second is invalid.
    hostile.journal(&format!("{RENAME},{}", write("/memories/x", STAGED)));
    symlink(hostile.path("outside/id_rsa"), &staged).unwrap();
    hostile.refuses("a link").await;
    fs::remove_file(&staged).unwrap();
    fs::hard_link(hostile.path("outside/id_rsa"), &staged).unwrap();
    hostile.refuses("a hard link").await;
    fs::remove_file(&staged).unwrap();
    make_pipe(&staged);
    hostile.refuses("a pipe").await;
    fs::remove_file(&staged).unwrap();
    fs::create_dir(&staged).unwrap();
    hostile.refuses("a directory").await;
    fs::remove_dir(&staged).unwrap();
    fs::write(&staged, "staged").unwrap();
    let store = hostile.open().await.unwrap();
    assert_eq!(store.list(&StorePath::memories()).await.unwrap().len(), 2, "a staged file is moved into place");
}

#[tokio::test]
async fn contents_are_set_aside_only_in_a_real_directory() {
    let hostile = HostileStore::new();
    hostile.write(&format!("base/.memory-tool/staging/{STAGED}"), "theirs");
    hostile.write(&format!("base/.memory-tool/staging/{OTHER}"), "removed");
    // The write is impossible, so the removal is undone. A file is in its place.
    symlink("/", hostile.path("base/memories/y")).unwrap();
    hostile.write("base/memories/a", "a");
    hostile.journal(&format!("{},{}", remove("/memories/a", OTHER), write("/memories/y", STAGED)));
    fs::remove_dir(hostile.private("conflicts")).unwrap();
    symlink("../../outside", hostile.private("conflicts")).unwrap();
    let store = hostile.open().await.unwrap();
    let refused = store.apply(Batch::new().write(path("/memories/b"), "b")).await;
    assert!(matches!(refused, Err(StoreError::Failure { kind: ErrorKind::Other, .. })), "{refused:?}");
    assert_eq!(tree(&hostile.path("outside")).len(), 1);
    assert!(hostile.private("staging").join(OTHER).exists(), "the removed file is kept");
    fs::remove_file(hostile.private("conflicts")).unwrap();
    store.apply(Batch::new().write(path("/memories/b"), "b")).await.unwrap();
    assert_eq!(fs::read(hostile.private("conflicts").join(OTHER)).unwrap(), b"removed");
}

/// A link would be read as a part of the memory.
#[tokio::test]
async fn only_regular_kept_files_are_put_back() {
    let hostile = HostileStore::new();
    hostile.write(&format!("base/.memory-tool/staging/{STAGED}"), "new");
    symlink(hostile.path("outside/id_rsa"), hostile.private("staging/5123456789abcdef")).unwrap();
    hostile.journal(&write("/memories/x", STAGED));
    hostile.refuses("a kept link").await;
}

#[tokio::test]
async fn contents_that_were_set_aside_are_reported() {
    let hostile = HostileStore::new();
    hostile.write(&format!("base/.memory-tool/conflicts/{STAGED}"), "text");
    for options in [OpenOptions::new(), OpenOptions::new().read_only()] {
        let store = LocalStore::builder(hostile.base()).options(options).open().await.unwrap();
        let problems = store.verify(|_| {}).await.unwrap().problems;
        assert_eq!(problems.len(), 1);
        let expected = format!("`.memory-tool/conflicts/{STAGED}` contains text that an interrupted change");
        assert!(problems[0].message.starts_with(&expected), "{problems:?}");
    }
}

#[tokio::test]
async fn an_oversized_or_special_journal_is_not_read() {
    let hostile = HostileStore::new();
    File::create(hostile.private("journal")).unwrap().set_len(HUGE).unwrap();
    let start = Instant::now();
    let store = hostile.open().await.unwrap();
    let error = store.list(&StorePath::memories()).await.unwrap_err();
    assert!(matches!(error, StoreError::Failure { kind: ErrorKind::Damaged, .. }), "{error:?}");
    fs::remove_file(hostile.private("journal")).unwrap();
    make_pipe(&hostile.private("journal"));
    assert!(store.list(&StorePath::memories()).await.is_err());
    fs::remove_file(hostile.private("journal")).unwrap();
    symlink("../../outside/id_rsa", hostile.private("journal")).unwrap();
    assert!(store.list(&StorePath::memories()).await.is_err());
    assert!(start.elapsed() < Duration::from_secs(20));
}

/// Other files are neither locked nor changed.
#[tokio::test]
async fn only_regular_files_are_locked_and_none_is_written() {
    for name in ["lock", "turnstile"] {
        let hostile = HostileStore::new();
        fs::set_permissions(hostile.path("outside/id_rsa"), Permissions::from_mode(0o640)).unwrap();
        let before = fs::metadata(hostile.path("outside/id_rsa")).unwrap();
        for kind in ["link", "pipe", "directory"] {
            let store = hostile.open().await.unwrap();
            let ours = hostile.private(name);
            match kind {
                "link" => symlink("../../outside/id_rsa", &ours).unwrap(),
                "pipe" => make_pipe(&ours),
                _ => fs::create_dir(&ours).unwrap(),
            }
            for read_only in [false, true] {
                let mode = if read_only { OpenMode::ReadOnly } else { OpenMode::Create };
                let store =
                    LocalStore::builder(hostile.base()).options(OpenOptions::new().mode(mode)).open().await.unwrap();
                assert!(store.list(&StorePath::memories()).await.is_err(), "{name} as a {kind}");
            }
            let written = store.apply(Batch::new().write(path("/memories/a"), "a")).await;
            assert!(matches!(written, Err(StoreError::Failure { .. })), "{name} as a {kind}: {written:?}");
            if kind == "directory" { fs::remove_dir(&ours).unwrap() } else { fs::remove_file(&ours).unwrap() }
        }
        // As in a backup made with hard links.
        let store = hostile.open().await.unwrap();
        fs::hard_link(hostile.path("outside/id_rsa"), hostile.private(name)).unwrap();
        store.apply(Batch::new().write(path("/memories/a"), "a")).await.unwrap();
        assert_eq!(store.list(&StorePath::memories()).await.unwrap().len(), 1);
        let after = fs::metadata(hostile.path("outside/id_rsa")).unwrap();
        assert_eq!((after.mode(), after.modified().unwrap()), (before.mode(), before.modified().unwrap()));
        assert_eq!(fs::read(hostile.path("outside/id_rsa")).unwrap(), b"the private key");
    }
}

#[tokio::test]
async fn the_sequence_never_overwrites_a_foreign_file() {
    for kind in ["hard link", "link", "pipe", "huge"] {
        let hostile = HostileStore::new();
        hostile.write("outside/id_rsa", "8 bytes.");
        let before = tree(&hostile.path("outside"));
        let sequence = hostile.private("sequence");
        let store = hostile.open().await.unwrap();
        match kind {
            "hard link" => fs::hard_link(hostile.path("outside/id_rsa"), &sequence).unwrap(),
            "link" => symlink("../../outside/id_rsa", &sequence).unwrap(),
            "pipe" => make_pipe(&sequence),
            _ => File::create(&sequence).unwrap().set_len(HUGE).unwrap(),
        }
        for name in ["a", "b"] {
            store.apply(Batch::new().write(path(&format!("/memories/{name}")), "x")).await.unwrap();
            assert_eq!(store.read_to_string(&format!("/memories/{name}")).await.unwrap(), "x", "{kind}");
        }
        assert_eq!(tree(&hostile.path("outside")), before, "{kind}");
        let found = fs::symlink_metadata(&sequence).unwrap();
        assert!(found.is_file() && found.nlink() == 1 && found.len() == 16, "{kind}");
    }
}

#[tokio::test]
async fn a_directory_instead_of_the_sequence_blocks_changes() {
    let hostile = HostileStore::new();
    let store = hostile.open().await.unwrap();
    fs::create_dir(hostile.private("sequence")).unwrap();
    let batch = Batch::new().write(path("/memories/a"), "a");
    assert!(matches!(store.apply(batch.clone()).await, Err(StoreError::Failure { .. })));
    fs::remove_dir(hostile.private("sequence")).unwrap();
    store.apply(batch).await.unwrap();
}

#[tokio::test]
async fn only_regular_files_are_records() {
    let record: StorePath = "/records/a".parse().unwrap();
    for kind in ["link", "pipe", "huge"] {
        let hostile = HostileStore::new();
        fs::create_dir(hostile.private("records")).unwrap();
        let file = hostile.private("records/a");
        match kind {
            "link" => symlink("../../../outside/id_rsa", &file).unwrap(),
            "pipe" => make_pipe(&file),
            _ => File::create(&file).unwrap().set_len(HUGE).unwrap(),
        }
        let outside = tree(&hostile.path("outside"));
        let store = hostile.open().await.unwrap();
        let read_only =
            LocalStore::builder(hostile.base()).options(OpenOptions::new().read_only()).open().await.unwrap();
        let is_expected = |error: &StoreError| match kind {
            "link" => matches!(error, StoreError::SymbolicLink { path } if *path == record),
            "pipe" => matches!(error, StoreError::NotARegularFile { path } if *path == record),
            _ => matches!(error, StoreError::Failure { kind: ErrorKind::Full, .. }),
        };
        for store in [&store, &read_only] {
            let refused = store.read_opts(&record, ReadOptions::new()).await.unwrap_err();
            assert!(is_expected(&refused), "{kind}: {refused:?}");
            let problems = store.verify(|_| {}).await.unwrap().problems.len();
            assert_eq!(problems, usize::from(kind == "huge"), "{kind}: links and pipes are no records");
        }
        for batch in [Batch::new(), Batch::new().write(path("/memories/a"), "a")] {
            let written = store.apply(batch.write(&record, "new")).await;
            if kind == "huge" {
                written.unwrap();
                let read = store.read_opts(&record, ReadOptions::new()).await.unwrap();
                assert_eq!(read.into_file().unwrap().content, b"new");
            } else {
                assert!(is_expected(&written.unwrap_err()), "{kind}");
                assert_eq!(store.list("/memories").await.unwrap(), [], "no file is written");
            }
        }
        assert_eq!(tree(&hostile.path("outside")), outside, "{kind}");
    }
}

#[tokio::test]
async fn records_writable_by_others_are_refused() {
    let hostile = HostileStore::new();
    let name: StorePath = "/records/a".parse().unwrap();
    let store = hostile.open().await.unwrap();
    let write = || Batch::new().write(name.clone(), "record");
    store.apply(write()).await.unwrap();
    fs::set_permissions(hostile.private("records"), Permissions::from_mode(0o777)).unwrap();
    for refused in [store.read_opts(&name, ReadOptions::new()).await.map(|_| ()), store.apply(write()).await] {
        assert!(matches!(refused, Err(StoreError::Failure { kind: ErrorKind::AccessDenied, .. })), "{refused:?}");
    }
    let trusting = LocalStore::builder(hostile.base()).trust_other_users().open().await.unwrap();
    assert!(trusting.read_opts(&name, ReadOptions::new()).await.unwrap().into_file().is_some());
}

/// The file of the batch may already be in place, so its record is retried.
#[tokio::test]
async fn a_committed_record_waits_until_others_cannot_write_records() {
    let hostile = HostileStore::new();
    let name: StorePath = "/records/a".parse().unwrap();
    hostile.write("base/memories/a", "a");
    let store = hostile.open().await.unwrap();
    store.apply(Batch::new().write(name.clone(), "old")).await.unwrap();
    let old = store.read_opts(&name, ReadOptions::new()).await.unwrap().into_file().unwrap().version;
    hostile.write(&format!("base/.memory-tool/staging/{STAGED}"), "new");
    fs::set_permissions(hostile.private("records"), Permissions::from_mode(0o777)).unwrap();
    let write = write("/records/a", STAGED).replace("null", &format!("{:?}", old.as_bytes()));
    hostile.journal(&format!("{RENAME},{write}"));
    let refused = store.apply(Batch::new().write(path("/memories/c"), "c")).await.unwrap_err();
    assert!(Problem::of(&refused).message.contains("run `chmod go-w` on it"), "{refused:?}");
    fs::set_permissions(hostile.private("records"), Permissions::from_mode(0o700)).unwrap();
    assert_eq!(store.list("/memories").await.unwrap()[0].path, path("/memories/b"));
    assert_eq!(store.read_opts(&name, ReadOptions::new()).await.unwrap().into_file().unwrap().content, b"new");
}

#[tokio::test]
async fn a_journal_cannot_name_an_invalid_record() {
    let hostile = HostileStore::new();
    hostile.write(&format!("base/.memory-tool/staging/{STAGED}"), "theirs");
    for name in ["", ".", "..", "../lock", "/etc/passwd", "a/../../b", "A", "a\\u0000"] {
        for step in [write(&format!("/records/{name}"), STAGED), remove(&format!("/records/{name}"), STAGED)] {
            hostile.journal(&step);
            hostile.refuses(&step).await;
        }
    }
    hostile.journal(&format!("{},{}", remove("/records/a", STAGED), remove("/records/a", OTHER)));
    hostile.refuses("one record twice").await;
    fs::remove_file(hostile.private("staging").join(STAGED)).unwrap();
    fs::hard_link(hostile.path("outside/id_rsa"), hostile.private("staging").join(STAGED)).unwrap();
    hostile.journal(&write("/records/a", STAGED));
    hostile.refuses("a hard link").await;
}

#[tokio::test]
async fn a_store_writable_by_others_is_refused() {
    for name in ["", "memories", ".memory-tool", ".memory-tool/staging"] {
        let hostile = HostileStore::new();
        hostile.write("base/memories/a", "a");
        let directory = hostile.path("base").join(name);
        let store = hostile.open().await.unwrap();
        for mode in [0o720, 0o770, 0o702, 0o777, 0o775] {
            fs::set_permissions(&directory, Permissions::from_mode(mode)).unwrap();
            let error = hostile.open().await.unwrap_err();
            let cause = error.source().unwrap().to_string();
            assert!(cause.contains(&format!("(mode {mode:o})")) && cause.contains("run `chmod go-w` on it"), "{cause}");
            assert!(cause.contains("trust_other_users"), "{cause}");
            assert!(!error.is_not_found());
            let read = store.read(&path("/memories/a")).await.map(|_| ());
            let written = store.apply(Batch::new().write(path("/memories/b"), "b")).await;
            for refused in [read, written] {
                let is_refused = matches!(refused, Err(StoreError::Failure { kind: ErrorKind::AccessDenied, .. }));
                assert!(is_refused || refused.is_ok() && name.ends_with("staging"), "{name}: {refused:?}");
            }
            LocalStore::builder(hostile.base()).trust_other_users().open().await.unwrap();
            let read_only =
                LocalStore::builder(hostile.base()).options(OpenOptions::new().read_only()).open().await.unwrap();
            assert!(matches!(read_only.read(&path("/memories/a")).await.unwrap(), Node::File(_)));
        }
        for mode in [0o700, 0o750, 0o755] {
            fs::set_permissions(&directory, Permissions::from_mode(mode)).unwrap();
            hostile.open().await.unwrap();
        }
        // In a sticky directory, others can add files, but not replace those of this user.
        fs::set_permissions(&directory, Permissions::from_mode(0o1777)).unwrap();
        assert_eq!(hostile.open().await.is_ok(), name.is_empty(), "{name}");
    }
}

/// As when another user gives access to it while it is in use.
#[tokio::test]
async fn an_open_store_that_others_can_write_to_is_refused_within_a_second() {
    for name in ["", "memories", ".memory-tool"] {
        let hostile = HostileStore::new();
        let store = hostile.open().await.unwrap();
        store.apply(Batch::new().write(path("/memories/a"), "ours")).await.unwrap();
        fs::set_permissions(hostile.path("base").join(name), Permissions::from_mode(0o777)).unwrap();
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        fs::write(hostile.path("base/memories/a"), "theirs").unwrap();
        let refused = store.read(&path("/memories/a")).await;
        assert!(matches!(refused, Err(StoreError::Failure { kind: ErrorKind::AccessDenied, .. })), "{refused:?}");
    }
}
