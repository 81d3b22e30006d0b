//! Full and read-only disks, and unexpected mounts: each is a clear error and loses no data.
//!
//! The tests mount small file systems, which needs root on Linux. Without root they are ignored.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use libtest_mimic::Trial;
use memory_tool_core::{
    Batch, Engine, ErrorKind, MemoryTool, Node, OpenOptions, Store, StoreError, StoreExt as _, StorePath,
};
use memory_tool_local::{LocalStore, LocalStoreBuilder};
use memory_tool_test_fixtures::faults::{self, Mount, block_on};
use serde_json::json;

pub(crate) fn trials() -> Vec<Trial> {
    let can_mount = Mount::new("size=64k").is_some();
    let trial = |name: &str, test: fn()| {
        faults::trial(&format!("mounts::{name}"), can_mount, "the right to mount a file system", test)
    };
    let can_serve = can_mount && faults::can_trace() && Command::new("bindfs").arg("--version").output().is_ok();
    let served = |name: &str, test: fn()| {
        faults::trial(&format!("mounts::{name}"), can_serve, "bindfs, strace and the right to mount", test)
    };
    vec![
        served("each_write_on_a_served_file_system_is_flushed", each_write_on_a_served_file_system_is_flushed),
        served("a_recovery_on_a_served_file_system_flushes", a_recovery_on_a_served_file_system_flushes),
        served("a_recovery_on_a_served_file_system_passes_others", a_recovery_on_a_served_file_system_passes_others),
        served("another_view_of_a_directory_in_use_is_noticed", another_view_of_a_directory_in_use_is_noticed),
        served("a_removed_file_that_is_open_is_not_listed", a_removed_file_that_is_open_is_not_listed),
        trial("plain_files_on_a_read_only_disk_can_be_read", plain_files_on_a_read_only_disk_can_be_read),
        trial("a_store_of_another_user_can_only_be_read", a_store_of_another_user_can_only_be_read),
        trial("a_separate_mount_of_memories_is_refused", a_separate_mount_of_memories_is_refused),
        trial("a_mount_among_the_files_blocks_only_itself", a_mount_among_the_files_blocks_only_itself),
        trial("a_directory_with_a_mount_is_not_deleted", a_directory_with_a_mount_is_not_deleted),
        trial("a_full_disk_can_be_cleared", a_full_disk_can_be_cleared),
        trial("a_mounted_file_blocks_only_itself", a_mounted_file_blocks_only_itself),
        trial("a_mounted_directory_is_not_renamed", a_mounted_directory_is_not_renamed),
        trial("directories_of_an_image_are_renamed", directories_of_an_image_are_renamed),
        trial("directories_of_an_image_are_deleted", directories_of_an_image_are_deleted),
        trial("an_image_is_cleared", an_image_is_cleared),
        trial("a_directory_of_an_image_with_a_link_is_refused", a_directory_of_an_image_with_a_link_is_refused),
    ]
}

/// The reply or error that the model reads.
fn call(tool: &impl MemoryTool, input: serde_json::Value) -> String {
    match block_on(tool.call(input)) {
        Ok(reply) => reply.to_string(),
        Err(error) => error.to_string(),
    }
}

fn base(mount: &Mount) -> PathBuf {
    mount.path().join("base")
}

fn open(base: &Path) -> Result<Engine<LocalStore>, String> {
    open_as(LocalStore::builder(base))
}

fn open_as(options: LocalStoreBuilder) -> Result<Engine<LocalStore>, String> {
    let store = block_on(options.open());
    store.map(Engine::new).map_err(|error| std::error::Error::source(&error).unwrap().to_string())
}

/// A directory copied by hand, without `.memory-tool`, which cannot be created there.
fn plain_files_on_a_read_only_disk_can_be_read() {
    let mount = Mount::new("size=256k").unwrap();
    std::fs::create_dir_all(base(&mount).join("memories")).unwrap();
    std::fs::write(base(&mount).join("memories/a.txt"), "a").unwrap();
    mount.remount("ro");
    assert!(open(&base(&mount)).unwrap_err().contains("Read-only"));
    let tool = open_as(LocalStore::builder(base(&mount)).options(OpenOptions::new().read_only())).unwrap();
    let view = call(&tool, json!({"command": "view", "path": "/memories/a.txt"}));
    assert!(view.ends_with("     1\ta"), "{view}");
    let create = json!({"command": "create", "path": "/memories/b.txt", "file_text": "b"});
    assert_eq!(call(&tool, create), "Error: The memory storage refused access. Nothing was changed.");
}

fn chown(owner: &str, path: &Path) {
    assert!(Command::new("chown").arg(owner).arg(path).status().unwrap().success());
}

fn a_store_of_another_user_can_only_be_read() {
    let mount = Mount::new("size=256k").unwrap();
    let tool = open(&base(&mount)).unwrap();
    let create = json!({"command": "create", "path": "/memories/a.txt", "file_text": "a"});
    assert!(call(&tool, create).starts_with("File created"));
    let view = json!({"command": "view", "path": "/memories/a.txt"});
    for name in ["", "memories", ".memory-tool", ".memory-tool/staging"] {
        let directory = base(&mount).join(name);
        chown("12345", &directory);
        let error = open(&base(&mount)).unwrap_err();
        assert!(error.contains("belongs to user 12345, but this process runs as user 0"), "{error}");
        assert!(error.contains("`chown -R 0` on the directory"), "{error}");
        std::thread::sleep(Duration::from_millis(1_100)); // an open store checks once a second
        let create = json!({"command": "create", "path": "/memories/b.txt", "file_text": "b"});
        assert_eq!(call(&tool, create), "Error: The memory storage refused access. Nothing was changed.");
        let before = crate::support::tree(&base(&mount));
        let reader = open_as(LocalStore::builder(base(&mount)).options(OpenOptions::new().read_only())).unwrap();
        assert!(call(&reader, view.clone()).ends_with("     1\ta"));
        assert_eq!(crate::support::tree(&base(&mount)), before);
        let trusting = open_as(LocalStore::builder(base(&mount)).trust_other_users()).unwrap();
        assert!(call(&trusting, view.clone()).ends_with("     1\ta"));
        chown("0", &directory);
    }
    assert!(open(&base(&mount)).is_ok());
}

fn a_separate_mount_of_memories_is_refused() {
    let mount = Mount::new("size=256k").unwrap();
    let memories = base(&mount).join("memories");
    std::fs::create_dir_all(&memories).unwrap();
    let bind = || Command::new("mount").arg("--bind").arg(&memories).arg(&memories).status().unwrap().success();
    // The first opening finds no `.memory-tool`.
    for must_exist in [true, false] {
        for mounted in [Mount::mount(&memories, "size=64k"), bind()] {
            assert!(mounted);
            let options = if must_exist { OpenOptions::new().must_exist() } else { OpenOptions::new() };
            let opened = open_as(LocalStore::builder(base(&mount)).options(options));
            Command::new("umount").arg(&memories).status().unwrap();
            let error = opened.unwrap_err();
            assert!(error.contains("`memories` is a separate mount"), "{error}");
            assert_eq!(base(&mount).join(".memory-tool").exists(), !must_exist);
        }
    }
    assert!(open(&base(&mount)).is_ok());
}

/// The batch is refused before the commit. Its journal would block the whole store.
fn a_mount_among_the_files_blocks_only_itself() {
    let mount = Mount::new("size=256k").unwrap();
    let tool = open(&base(&mount)).unwrap();
    call(&tool, json!({"command": "create", "path": "/memories/a", "file_text": "old"}));
    let foreign = base(&mount).join("memories/m");
    std::fs::create_dir(&foreign).unwrap();
    assert!(Mount::mount(&foreign, "size=64k"));
    let path = |text: &str| text.parse::<StorePath>().unwrap();
    let batch = Batch::new().write(path("/memories/a"), "new");
    let batch = batch.write(path("/memories/m/b"), "new");
    let refused = block_on(tool.store().apply(batch)).unwrap_err();
    assert!(matches!(refused, StoreError::Failure { kind: ErrorKind::Other, .. }), "{refused:?}");
    assert!(call(&tool, json!({"command": "view", "path": "/memories/a"})).ends_with("\told"));
    let create = json!({"command": "create", "path": "/memories/c", "file_text": "c"});
    assert!(call(&tool, create).starts_with("File created"));
    Command::new("umount").arg(&foreign).status().unwrap();
}

/// A mount cannot be removed, so the directory with it stays too.
fn a_directory_with_a_mount_is_not_deleted() {
    let mount = Mount::new("size=256k").unwrap();
    let tool = open(&base(&mount)).unwrap();
    for path in ["/memories/d/a", "/memories/d/e/b"] {
        call(&tool, json!({"command": "create", "path": path, "file_text": "kept"}));
    }
    let (directory, file) = (base(&mount).join("memories/d/m"), base(&mount).join("memories/d/f"));
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(&file, "").unwrap();
    let mount_at = |target: &Path| {
        if target.is_dir() {
            return Mount::mount(target, "size=64k") && std::fs::write(target.join("theirs"), "kept").is_ok();
        }
        let source = base(&mount).join("memories/d/a");
        Command::new("mount").arg("--bind").arg(source).arg(target).status().unwrap().success()
    };
    for target in [&directory, &file] {
        assert!(mount_at(target));
        let before = crate::support::tree(&base(&mount).join("memories/d"));
        let both = Batch::new().remove("/memories/d".parse::<StorePath>().unwrap());
        let both = both.write("/memories/new".parse::<StorePath>().unwrap(), "new");
        let refused = [
            call(&tool, json!({"command": "delete", "path": "/memories/d"})),
            block_on(tool.clear_all_memory()).unwrap_err().to_string(),
            block_on(tool.store().apply(both)).unwrap_err().to_string(),
        ];
        let after = crate::support::tree(&base(&mount).join("memories/d"));
        Command::new("umount").arg(target).status().unwrap();
        assert_eq!(refused[..2], ["Error: The memory storage refused access. Nothing was changed."; 2]);
        assert_eq!(refused[2], "checking what is removed failed");
        assert_eq!(after, before);
        assert_eq!(crate::support::tree(&base(&mount).join(".memory-tool/staging")), []);
    }
    assert!(call(&tool, json!({"command": "delete", "path": "/memories/d"})).starts_with("Successfully deleted"));
    assert_eq!(crate::support::tree(&base(&mount).join("memories")), []);
}

/// Clearing takes effect at once. A later error must not report that nothing was changed.
fn a_full_disk_can_be_cleared() {
    let mount = Mount::new("nr_inodes=9").unwrap(); // the root, the directories of the store, and one file
    let tool = open(&base(&mount)).unwrap();
    let create = json!({"command": "create", "path": "/memories/a", "file_text": "a"});
    assert!(call(&tool, create.clone()).starts_with("File created"));
    let fill = |number: usize| std::fs::write(base(&mount).join(format!("memories/{number}")), "x").is_ok();
    assert!((0..9).any(|number| !fill(number)), "the disk is not full");
    assert_eq!(block_on(tool.clear_all_memory()).unwrap().to_string(), "All memory cleared");
    assert!(call(&tool, json!({"command": "view", "path": "/memories"})).ends_with("\n0B\t/memories"));
    assert!(call(&tool, create).starts_with("File created"));
}

fn path(text: &str) -> StorePath {
    text.parse().unwrap()
}

/// A batch as a history makes it.
fn with_record(batch: Batch) -> Batch {
    batch.write(path("/records/history/entry"), "entry")
}

fn umount(target: &Path) {
    assert!(Command::new("umount").arg(target).status().unwrap().success());
}

/// As with `docker -v ./profile.md:/data/memories/profile.md` and `subPath` of Kubernetes.
fn a_mounted_file_blocks_only_itself() {
    const REFUSED: &str = "is a separate mount, so it cannot be edited, renamed or deleted here.";
    let mount = Mount::new("size=256k").unwrap();
    let tool = open(&base(&mount)).unwrap();
    for name in ["/memories/profile.md", "/memories/other.md"] {
        call(&tool, json!({"command": "create", "path": name, "file_text": "old"}));
    }
    let source = mount.path().join("source");
    std::fs::write(&source, "mounted").unwrap();
    let target = base(&mount).join("memories/profile.md");
    assert!(Command::new("mount").arg("--bind").args([&source, &target]).status().unwrap().success());
    let profile = || path("/memories/profile.md");
    let other = || path("/memories/other.md");
    let batches = [
        Batch::new().write(profile(), "new"),
        Batch::new().rename(profile(), path("/memories/new.md")),
        Batch::new().write(other(), "new").write(profile(), "new"),
        Batch::new().write(other(), "new").rename(profile(), path("/memories/new.md")),
    ];
    for batch in batches.clone().into_iter().chain(batches.map(with_record)) {
        let refused = block_on(tool.store().apply(batch)).unwrap_err();
        assert!(matches!(&refused, StoreError::Refused { reason, .. } if reason.ends_with(REFUSED)), "{refused:?}");
    }
    for batch in [Batch::new().remove(profile()), with_record(Batch::new().remove(profile()))] {
        block_on(tool.store().apply(batch)).unwrap_err();
    }
    assert!(call(&tool, json!({"command": "view", "path": profile().as_str()})).ends_with("\tmounted"));
    let edit = json!({"command": "insert", "path": other().as_str(), "insert_line": 0, "insert_text": "x"});
    assert!(call(&tool, edit).contains("has been edited"));
    assert_eq!(block_on(tool.store().verify(|_| {})).unwrap().problems, []);
    umount(&target);
}

fn a_mounted_directory_is_not_renamed() {
    let mount = Mount::new("size=256k").unwrap();
    let tool = open(&base(&mount)).unwrap();
    let target = base(&mount).join("memories/d");
    std::fs::create_dir(&target).unwrap();
    assert!(Mount::mount(&target, "size=64k"));
    std::fs::write(target.join("a"), "theirs").unwrap();
    let rename = || Batch::new().rename(path("/memories/d"), path("/memories/e"));
    for batch in [rename(), with_record(rename())] {
        let refused = block_on(tool.store().apply(batch)).unwrap_err();
        assert!(matches!(&refused, StoreError::Refused { policy: "mount", .. }), "{refused:?}");
    }
    assert_eq!(std::fs::read(target.join("a")).unwrap(), b"theirs");
    assert_eq!(block_on(tool.store().verify(|_| {})).unwrap().problems, []);
    umount(&target);
}

/// A container whose image contains a memory.
struct Container {
    mount: Mount,
    tool: Engine<LocalStore>,
}

impl Container {
    fn new() -> Self {
        let mount = Mount::new("size=2m").unwrap();
        let directory = |name: &str| mount.path().join(name);
        for name in ["upper", "work", "merged", "lower/base/memories/d/nested", "lower/base/memories/keep"] {
            std::fs::create_dir_all(directory(name)).unwrap();
        }
        for name in ["d/a", "d/nested/b", "keep/c"] {
            std::fs::write(directory("lower/base/memories").join(name), "image").unwrap();
        }
        let [lower, upper, work] = ["lower", "upper", "work"].map(directory).map(|path| path.display().to_string());
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work},redirect_dir=off");
        let mut command = Command::new("mount");
        command.args(["-t", "overlay", "overlay", "-o", &options]).arg(directory("merged"));
        assert!(command.status().unwrap().success());
        let tool = open(&directory("merged/base")).unwrap();
        Self { mount, tool }
    }

    fn files(&self) -> Vec<String> {
        let listed = block_on(self.tool.store().read(&StorePath::memories())).unwrap();
        let Node::Directory(listing) = listed else { panic!("{listed:?}") };
        let mut files: Vec<_> = listing.files.iter().map(|file| file.path.to_string()).collect();
        files.sort();
        files
    }

    fn check(&self, expected: &[&str]) {
        assert_eq!(self.files(), expected);
        assert_eq!(block_on(self.tool.store().verify(|_| {})).unwrap().problems, []);
        assert_eq!(crate::support::tree(&self.mount.path().join("merged/base/.memory-tool/staging")), []);
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.mount.path().join("merged")).status();
    }
}

fn directories_of_an_image_are_renamed() {
    for wrap in [std::convert::identity, with_record] {
        let container = Container::new();
        let batch = wrap(Batch::new().rename(path("/memories/d"), path("/memories/new/e")));
        block_on(container.tool.store().apply(batch)).unwrap();
        container.check(&["/memories/keep/c", "/memories/new/e/a", "/memories/new/e/nested/b"]);
        assert!(!container.mount.path().join("merged/base/memories/d").exists());
    }
}

fn directories_of_an_image_are_deleted() {
    for wrap in [std::convert::identity, with_record] {
        let container = Container::new();
        block_on(container.tool.store().apply(wrap(Batch::new().remove(path("/memories/d"))))).unwrap();
        container.check(&["/memories/keep/c"]);
        assert!(!container.mount.path().join("merged/base/memories/d").exists());
        let single_file = wrap(Batch::new().rename(path("/memories/keep"), path("/memories/kept")));
        block_on(container.tool.store().apply(single_file)).unwrap();
        container.check(&["/memories/kept/c"]);
        let create = json!({"command": "create", "path": "/memories/d", "file_text": "a file"});
        assert!(call(&container.tool, create).starts_with("File created"));
    }
}

fn an_image_is_cleared() {
    let container = Container::new();
    assert_eq!(block_on(container.tool.clear_all_memory()).unwrap().to_string(), "All memory cleared");
    container.check(&[]);
}

/// The link would stay.
fn a_directory_of_an_image_with_a_link_is_refused() {
    let container = Container::new();
    let directory = container.mount.path().join("merged/base/memories/d");
    std::os::unix::fs::symlink("a", directory.join("nested/link")).unwrap();
    let before = crate::support::tree(&directory);
    let refused = [
        call(&container.tool, json!({"command": "delete", "path": "/memories/d"})),
        call(&container.tool, json!({"command": "rename", "old_path": "/memories/d", "new_path": "/memories/e"})),
    ];
    for refused in refused {
        assert!(refused.contains("cannot be moved or deleted as a whole here"), "{refused}");
    }
    assert_eq!(crate::support::tree(&directory), before);
}

/// A directory that a program serves. The program writes the calls that it receives to a log.
struct Served {
    directory: tempfile::TempDir,
    server: std::process::Child,
}

impl Served {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["source", "served"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        let log = std::fs::File::create(directory.path().join("log")).unwrap();
        let mut command = Command::new("bindfs");
        command.arg("-d").args(["source", "served"]).current_dir(directory.path()).stderr(log);
        let served = Self { server: command.stdout(std::process::Stdio::null()).spawn().unwrap(), directory };
        let device = |name: &str| std::os::unix::fs::MetadataExt::dev(&served.path(name).metadata().unwrap());
        for _ in 0..1_000 {
            if device("served") != device("source") {
                return served;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("bindfs does not start");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The number of calls so far.
    fn calls(&self, name: &str) -> usize {
        let log = std::fs::read_to_string(self.path("log")).unwrap();
        log.lines().filter(|line| line.contains(&format!("opcode: {name} "))).count()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.path("served")).status();
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// The system does not pass `syncfs` on to the server.
fn each_write_on_a_served_file_system_is_flushed() {
    const WRITES: usize = 64;
    let served = Served::new();
    let store = block_on(LocalStore::open(served.path("served/base"))).unwrap();
    let before = served.calls("FSYNC");
    block_on(async {
        let writes = (0..WRITES).map(|number| {
            let store = store.clone();
            let batch = Batch::new().write(path(&format!("/memories/{number}")), "text");
            tokio::spawn(async move { store.apply(batch).await })
        });
        for write in writes.collect::<Vec<_>>() {
            write.await.unwrap().unwrap();
        }
    });
    let flushes = served.calls("FSYNC") - before;
    assert!(flushes >= WRITES, "{flushes} flushes of {WRITES} writes");
}

/// A process that ended may have left names that are not on the disk. `syncfs` would succeed without a flush.
fn a_recovery_on_a_served_file_system_flushes() {
    let served = Served::new();
    let base = served.path("served/base");
    let create = Batch::new().write(path("/memories/d/e/a"), "text");
    block_on(async { LocalStore::open(&base).await.unwrap().apply(create).await.unwrap() });
    crate::support::leave_unfinished(&base);
    let calls = crate::system_calls::calls_of_a_write(&base, "fsync,syncfs");
    let flushed = |name: &str| calls.lines().any(|call| call.contains(&format!("/{name}>)")));
    for directory in ["memories", "memories/d", "memories/d/e", ".memory-tool", ".memory-tool/staging"] {
        assert!(flushed(directory), "{directory}: {calls}");
    }
    assert!(!calls.contains("syncfs("), "{calls}");
}

/// Directories of another program may be deeper than the number of files that a process may open, or unreadable.
fn a_recovery_on_a_served_file_system_passes_others() {
    let served = Served::new();
    let set_mode = |place: &Path, mode| {
        std::fs::set_permissions(place, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    set_mode(&served.path(""), 0o755);
    chown(&crate::permissions::USER.to_string(), &served.path("source"));
    let (base, program) = (served.path("served/base"), served.path("program"));
    let writes = || crate::system_calls::writes_with_few_rights(&base, &program);
    assert!(writes());
    std::fs::create_dir_all(base.join("memories").join(["d"; 1_500].join("/"))).unwrap();
    crate::support::leave_unfinished(&base);
    assert!(writes());
    std::fs::create_dir(base.join("memories/private")).unwrap();
    set_mode(&base.join("memories/private"), 0o700);
    crate::support::leave_unfinished(&base);
    assert!(writes());
}

/// The server keeps it under another name until the other program closes it.
fn a_removed_file_that_is_open_is_not_listed() {
    let served = Served::new();
    let base = served.path("served/base");
    let tool = open(&base).unwrap();
    let create = |path: &str| call(&tool, json!({"command": "create", "path": path, "file_text": "secret"}));
    create("/memories/d/a");
    create("/memories/b");
    let held = ["d/a", "b"].map(|name| std::fs::File::open(base.join("memories").join(name)).unwrap());
    for path in ["/memories/d/a", "/memories/b"] {
        assert!(call(&tool, json!({"command": "delete", "path": path})).starts_with("Successfully deleted"));
    }
    let remnants = crate::support::tree(&base.join("memories"));
    assert!(remnants.iter().any(|(path, _)| path.to_string_lossy().contains(".fuse_hidden")), "{remnants:?}");
    assert!(call(&tool, json!({"command": "view", "path": "/memories"})).ends_with("\n0B\t/memories"));
    assert!(create("/memories/d").starts_with("File created"));
    create("/memories/e/f");
    let held_too = std::fs::File::open(base.join("memories/e/f")).unwrap();
    assert!(call(&tool, json!({"command": "delete", "path": "/memories/e"})).starts_with("Successfully deleted"));
    let problems = block_on(tool.store().verify(|_| {})).unwrap().problems;
    assert!(!problems.is_empty(), "the text is still on the disk");
    let advice = "another program has the removed file open: close it, and open the store again";
    assert!(problems.iter().all(|problem| problem.message.ends_with(advice)), "{problems:?}");
    drop((held, held_too));
    let reopened = open(&base).unwrap();
    assert_eq!(block_on(reopened.store().verify(|_| {})).unwrap().problems, []);
}

/// Locks at the source and through the server do not exclude each other.
fn another_view_of_a_directory_in_use_is_noticed() {
    let served = Served::new();
    let open = |name: &str, timeout: u64| {
        let options = OpenOptions::new().timeout(Duration::from_secs(timeout));
        block_on(LocalStore::builder(served.path(name)).options(options).open()).unwrap()
    };
    let write = |store: &LocalStore, text: &str| {
        block_on(store.apply(Batch::new().write(path("/memories/a"), text).write(path("/memories/b"), text)))
    };
    let (source, view) = (open("source/base", 1), open("served/base", 1));
    write(&source, "source").unwrap();
    for _ in 0..2 {
        let refused = write(&view, "view").unwrap_err();
        assert!(matches!(&refused, StoreError::Failure { kind: ErrorKind::Busy, .. }), "{refused:?}");
        let cause = std::error::Error::source(&refused).unwrap().to_string();
        assert!(cause.contains("let all programs use the same mount"), "{cause}");
        write(&source, "source again").unwrap();
    }
    write(&open("served/base", 10), "view").unwrap();
    assert!(write(&source, "source").is_err());
}
