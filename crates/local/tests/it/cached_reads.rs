//! Reads without a lock give what reads under the lock give.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use crate::support::{TestMemory, leave_unfinished, make_pipe};
use memory_tool_core::{Batch, Node, Precondition, ReadOptions, Store, StoreError, StorePath};
use memory_tool_local::LocalStore;
use memory_tool_test_fixtures::{path, record};
use tokio::task::spawn_blocking;

/// A read under the lock: a precondition that always holds, on a name that is only checked there.
async fn read_locked(store: &LocalStore, read: &StorePath) -> Result<Node, StoreError> {
    let absent = path("/memories/.nfs0000000000000000");
    store.read_opts(read, ReadOptions::new().require(absent, Precondition::Absent)).await
}

#[tokio::test]
async fn cached_reads_agree_with_locked_reads() {
    let memory = TestMemory::new().await;
    let store = memory.tool.store();
    let outside = memory.outside();
    fs::write(outside.join("secret"), "secret").unwrap();
    for (file, length) in [("empty", 0), ("a/b/c/small", 12), ("page", 4096), ("bound", 65_536), ("large", 65_537)] {
        store.apply(Batch::new().write(path(&format!("/memories/{file}")), vec![b'x'; length])).await.unwrap();
    }
    fs::write(memory.on_disk("/memories/edited-by-a-person"), "text").unwrap();
    fs::hard_link(outside.join("secret"), memory.on_disk("/memories/hard-link")).unwrap();
    symlink(outside.join("secret"), memory.on_disk("/memories/link")).unwrap();
    symlink(&outside, memory.on_disk("/memories/linked")).unwrap();
    symlink("a", memory.on_disk("/memories/inner-link")).unwrap();
    let page = path("/memories/page");
    for name in [
        "empty",
        "a/b/c/small",
        "page",
        "bound",
        "large",
        "edited-by-a-person",
        "hard-link",
        "link",
        "linked/secret",
        "inner-link/b/c/small",
        "missing",
        "a",
        "a/b/missing",
        "page/under-a-file",
    ] {
        let path = path(&format!("/memories/{name}"));
        for _ in 0..3 {
            let (cached, locked) = (store.read_opts(&path, ReadOptions::new()).await, read_locked(store, &path).await);
            assert_eq!(format!("{cached:?}"), format!("{locked:?}"), "{name}");
        }
        let absent = ReadOptions::new().require(path.clone(), Precondition::Absent);
        let is_absent = read_locked(store, &path).await.is_ok_and(|node| node == Node::Absent);
        let read = store.read_opts(&page, absent).await;
        assert_eq!(read.is_ok(), is_absent, "{name}: {read:?}");
    }
    for name in ["missing", "directory/missing"] {
        let record = record(name);
        for _ in 0..3 {
            assert_eq!(store.read_opts(&record, ReadOptions::new()).await.unwrap(), Node::Absent);
        }
        store.apply(Batch::new().write(record.clone(), "text")).await.unwrap();
        assert!(matches!(store.read_opts(&record, ReadOptions::new()).await.unwrap(), Node::File(_)), "{name}");
    }
}

/// A proposal reads each file while it changes nothing.
#[test]
fn a_read_without_a_record_needs_no_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let memory = TestMemory::new().await;
        let store = memory.tool.store();
        let other = LocalStore::open(memory.base()).await.unwrap();
        let (file, index) = (path("/memories/a"), record("proposals/a/index"));
        store.apply(Batch::new().write(file.clone(), "text")).await.unwrap();
        let options = || ReadOptions::new().require(index.clone(), Precondition::Absent);
        for read in [&file, &index] {
            read_locked(store, &file).await.unwrap(); // allows reads without a lock
            store.read_opts(read, options()).await.unwrap(); // so that the names are cached
            let (release, released) = mpsc::channel::<()>();
            let occupied = spawn_blocking(move || released.recv());
            let reading = tokio::time::timeout(Duration::from_millis(20), store.read_opts(read, options())).await;
            drop(release);
            let _ = occupied.await.unwrap();
            assert_eq!(reading.expect("a read in place").unwrap() == Node::Absent, *read == index);
        }
        other.apply(Batch::new().write(index.clone(), "index")).await.unwrap();
        let refused = store.read_opts(&file, options()).await;
        assert!(matches!(&refused, Err(StoreError::AlreadyExists { path }) if *path == index), "{refused:?}");
    });
}

/// An encrypted memory reads each file under the version of its index.
#[test]
fn a_read_under_versions_needs_no_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let memory = TestMemory::new().await;
        let store = memory.tool.store();
        let other = LocalStore::open(memory.base()).await.unwrap();
        let (file, index) = (path("/memories/a"), path("/memories/index"));
        for change in [store, &other] {
            let batch = Batch::new().write(file.clone(), "text").write(index.clone(), "index");
            store.apply(batch).await.unwrap();
            let found = store.read_opts(&index, ReadOptions::new()).await.unwrap().into_file().unwrap();
            let options = || ReadOptions::new().require(index.clone(), Precondition::Version(found.version.clone()));
            read_locked(store, &file).await.unwrap(); // allows reads without a lock

            let (release, released) = mpsc::channel::<()>();
            let occupied = spawn_blocking(move || released.recv());
            let reading = tokio::time::timeout(Duration::from_millis(20), store.read_opts(&file, options())).await;
            drop(release);
            let _ = occupied.await.unwrap();
            let content = reading.expect("a read in place").unwrap().into_file().unwrap().content;
            assert_eq!(content, b"text");

            change.apply(Batch::new().write(index.clone(), "other")).await.unwrap(); // as long, at the same time
            let refused = store.read_opts(&file, options()).await;
            assert!(matches!(&refused, Err(StoreError::VersionMismatch { path }) if *path == index), "{refused:?}");
        }
    });
}

/// `[X3]`: the file contains `a` whenever its directory is named `a`. A lookup that is interrupted by a rename must not
/// return the contents that the file has under the other name.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn x3_a_rename_during_a_lookup_misleads_no_reader() {
    let memory = TestMemory::new().await;
    let store = memory.tool.store().clone();
    let file = path("/memories/a/b/c/file");
    store.apply(Batch::new().write(file.clone(), "a")).await.unwrap();
    let is_done = Arc::new(AtomicBool::new(false));
    let base = memory.base();
    let reads = Arc::new([const { AtomicUsize::new(0) }; 3]);
    let readers: Vec<_> = (0..reads.len())
        .map(|reader| {
            let (is_done, reads, base, file) = (Arc::clone(&is_done), Arc::clone(&reads), base.clone(), file.clone());
            tokio::spawn(async move {
                let store = LocalStore::open(base).await.unwrap(); // like another process
                while !is_done.load(Ordering::Relaxed) {
                    match store.read_opts(&file, ReadOptions::new()).await.unwrap() {
                        Node::File(found) => assert_eq!(found.content, b"a"),
                        found => assert_eq!(found, Node::Absent),
                    }
                    reads[reader].fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    // On a busy machine, a reader may read little during many rounds.
    let must_go_on = || {
        let are_reading = readers.iter().all(|reader| !reader.is_finished());
        are_reading && reads.iter().any(|reads| reads.load(Ordering::Relaxed) <= 100)
    };
    let mut rounds = 0;
    while rounds < 100 || must_go_on() {
        rounds += 1;
        let (a, z) = (path("/memories/a"), path("/memories/z"));
        let renamed = path("/memories/z/b/c/file");
        store.apply(Batch::new().rename(a.clone(), z.clone())).await.unwrap();
        store.apply(Batch::new().write(renamed.clone(), "z")).await.unwrap();
        store.apply(Batch::new().write(renamed, "a")).await.unwrap();
        store.apply(Batch::new().rename(z, a)).await.unwrap();
    }
    is_done.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.await.unwrap();
    }
}

/// A killed process leaves an odd number. Its change may be visible in part.
#[tokio::test]
async fn an_unfinished_change_disables_cached_reads() {
    let memory = TestMemory::new().await;
    memory.create("/memories/a", "old").await;
    let reader = LocalStore::open(memory.base()).await.unwrap();
    for _ in 0..2 {
        reader.read_opts(&path("/memories/a"), ReadOptions::new()).await.unwrap();
    }
    let journal = r#"{"format":1,"steps":[{"rename":{"from":"/memories/a","to":"/memories/b"}}]}"#;
    fs::write(memory.base().join(".memory-tool/journal"), journal).unwrap();
    leave_unfinished(&memory.base());
    assert_eq!(reader.read_opts(&path("/memories/a"), ReadOptions::new()).await.unwrap(), Node::Absent);
    assert!(matches!(reader.read_opts(&path("/memories/b"), ReadOptions::new()).await.unwrap(), Node::File(_)));
}

/// The version must belong to the contents, however quickly a person edits.
#[tokio::test]
async fn an_edit_by_a_person_changes_the_version() {
    let memory = TestMemory::new().await;
    memory.create("/memories/a", "0").await;
    let store = memory.tool.store();
    let mut versions = Vec::new();
    for number in 0..200_u32 {
        fs::write(memory.on_disk("/memories/a"), format!("{number:03}")).unwrap(); // in place, always of this size
        if number == 100 {
            tokio::time::sleep(Duration::from_millis(3_100)).await; // from now on the version is cached
        }
        let Node::File(file) = store.read_opts(&path("/memories/a"), ReadOptions::new()).await.unwrap() else {
            panic!()
        };
        assert_eq!(file.content, format!("{number:03}").as_bytes());
        assert!(!versions.contains(&file.version), "{number}");
        versions.push(file.version.clone());
        let next = Batch::new().require(path("/memories/a"), Precondition::Version(file.version));
        store.apply(next).await.unwrap();
    }
}

/// `[P4]`: opening a pipe would release the program that waits at its other end.
#[tokio::test]
async fn p4_a_pipe_that_replaces_a_file_is_not_opened() {
    let memory = TestMemory::new().await;
    memory.create("/memories/a", "a").await;
    let on_disk = memory.on_disk("/memories/a");
    for _ in 0..2 {
        assert!(memory.view("/memories/a").await.ends_with("\ta"));
    }
    fs::remove_file(&on_disk).unwrap();
    make_pipe(&on_disk);
    let writer = std::thread::spawn({
        let on_disk = on_disk.clone();
        move || fs::File::options().write(true).open(on_disk).map(drop)
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(memory.view("/memories/a").await.starts_with("Error"));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!writer.is_finished());
    drop(fs::File::open(on_disk).unwrap()); // releases the thread
    writer.join().unwrap().unwrap();
}

/// A backup made with hard links must not be written, and every process must count in the same file.
#[tokio::test]
async fn a_replaced_sequence_is_noticed_by_other_processes() {
    let memory = TestMemory::new().await;
    memory.create("/memories/a", "a").await;
    let sequence = memory.base().join(".memory-tool/sequence");
    let backup = memory.outside().join("backup");
    fs::hard_link(&sequence, &backup).unwrap();
    let before = fs::read(&backup).unwrap();
    let other = LocalStore::open(memory.base()).await.unwrap();
    other.apply(Batch::new().write(path("/memories/b"), "b")).await.unwrap();
    let replaced = fs::read(&sequence).unwrap();
    memory.create("/memories/c", "c").await;
    assert_ne!(fs::read(&sequence).unwrap(), replaced);
    assert_eq!(fs::read(&backup).unwrap(), before);
}
