//! Reads on the calling thread: they are as current as others `[X3]`, and never wait.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use crate::support::{TestDirectory, name, path, read, write};
use memory_tool_core::{Batch, InMemoryStore, Node, Precondition, ReadOptions, Store, StoreError, StoreExt};
use memory_tool_sqlite::SqliteStore;
use tokio::runtime::{Builder, Runtime};
use tokio::task::spawn_blocking;

const FILE: &str = "/memories/d/file";
/// The size of a file that is read on another thread.
const LARGE: usize = 100_000;

/// A runtime with one thread for blocking work.
fn runtime() -> Runtime {
    Builder::new_current_thread().max_blocking_threads(1).enable_all().build().unwrap()
}

/// Reads a file while the only thread for blocking work is occupied. Returns `None` if the read needs that thread.
async fn read_in_place(store: &SqliteStore, at: &str) -> Option<Node> {
    in_place(store, at, ReadOptions::new()).await.map(Result::unwrap)
}

async fn in_place(store: &SqliteStore, at: &str, options: ReadOptions) -> Option<Result<Node, StoreError>> {
    let (release, released) = mpsc::channel::<()>();
    let occupied = spawn_blocking(move || released.recv());
    let reading = tokio::time::timeout(Duration::from_millis(20), store.read_opts(&path(at), options)).await;
    drop(release);
    let _ = occupied.await.unwrap();
    spawn_blocking(|| ()).await.unwrap(); // after the abandoned read
    reading.ok()
}

async fn is_read_in_place(store: &SqliteStore, at: &str) -> bool {
    read_in_place(store, at).await.is_some()
}

fn text(node: Option<Node>) -> Option<String> {
    String::from_utf8(node?.into_file()?.content).ok()
}

#[test]
fn a_repeated_read_needs_no_thread() {
    runtime().block_on(async {
        let (_directory, store) = TestDirectory::opened().await;
        write(&store, FILE, "text").await.unwrap();
        for at in [FILE, "/memories/d", "/memories", "/memories/absent"] {
            assert!(!is_read_in_place(&store, at).await, "{at} was never read");
            assert_eq!(read_in_place(&store, at).await.unwrap(), store.read(at).await.unwrap());
        }
        let other = store.memory(name("other"));
        assert!(!is_read_in_place(&other, FILE).await, "a path of another memory");
        assert_eq!(read_in_place(&other, FILE).await.unwrap(), Node::Absent);
    });
}

/// An encrypted memory reads each file under the version of its index, which can be large.
#[test]
fn a_repeated_read_under_preconditions_needs_no_thread() {
    const INDEX: &str = "/memories/index";
    runtime().block_on(async {
        let directory = TestDirectory::new();
        let (store, other) = (directory.open().await, directory.open().await);
        write(&store, FILE, "text").await.unwrap();
        for change in [&store, &other] {
            write(&store, INDEX, &"x".repeat(LARGE)).await.unwrap();
            let version = store.read(INDEX).await.unwrap().into_file().unwrap().version;
            let options = || {
                let unless_moved = ReadOptions::new().require(path("/memories/moved"), Precondition::Absent);
                unless_moved.require(path(INDEX), Precondition::Version(version.clone()))
            };
            store.read(FILE).await.unwrap();
            assert!(in_place(&store, FILE, options()).await.is_none(), "the preconditions were never checked");
            let found = in_place(&store, FILE, options()).await.expect("a read in place").unwrap();
            assert_eq!(text(Some(found)).unwrap(), "text");
            write(change, INDEX, "new").await.unwrap();
            let refused = store.read_opts(&path(FILE), options()).await;
            assert!(
                matches!(&refused, Err(StoreError::VersionMismatch { path }) if path.as_str() == INDEX),
                "{refused:?}"
            );
        }
    });
}

#[test]
fn a_large_file_is_read_on_another_thread() {
    runtime().block_on(async {
        let (_directory, store) = TestDirectory::opened().await;
        write(&store, FILE, &"x".repeat(LARGE)).await.unwrap();
        for _ in 0..2 {
            assert_eq!(read(&store, FILE).await.unwrap().len(), LARGE);
            assert!(!is_read_in_place(&store, FILE).await);
        }
        for number in 0..1_000 {
            write(&store, &format!("/memories/many/{number}"), "").await.unwrap();
        }
        assert_eq!(store.list("/memories/many").await.unwrap().len(), 1_000);
        assert!(!is_read_in_place(&store, "/memories/many").await, "a large directory");
    });
}

/// More files than a connection remembers.
#[test]
fn the_memory_for_remembered_files_is_limited() {
    runtime().block_on(async {
        let directory = TestDirectory::in_ram();
        let store = directory.open().await;
        let files: Vec<_> = (0..20).map(|number| format!("/memories/{number}")).collect();
        for file in &files {
            write(&store, file, &"x".repeat(50_000)).await.unwrap();
            store.read(file).await.unwrap();
        }
        let mut remembered = 0;
        for file in files.iter().rev() {
            remembered += usize::from(is_read_in_place(&store, file).await);
        }
        assert!((1..=10).contains(&remembered), "{remembered}");
    });
}

/// An edit reads a file, writes it, and is often followed by a view.
#[test]
fn a_file_that_was_read_and_written_is_read_in_place() {
    runtime().block_on(async {
        let (_directory, store) = TestDirectory::opened().await;
        write(&store, FILE, "old").await.unwrap();
        write(&store, "/memories/d/other", "other").await.unwrap();
        for file in [FILE, "/memories/d/other"] {
            store.read(file).await.unwrap();
        }
        write(&store, FILE, "new").await.unwrap();
        let Some(Node::File(file)) = read_in_place(&store, FILE).await else { panic!("not in place") };
        assert_eq!(file.content, b"new");
        let batch = Batch::new().require(path(FILE), Precondition::Version(file.version));
        store.apply(batch.write(path(FILE), "newer")).await.unwrap();
        assert_eq!(text(read_in_place(&store, FILE).await).unwrap(), "newer");
        assert_eq!(text(read_in_place(&store, "/memories/d/other").await).unwrap(), "other");
    });
}

#[tokio::test]
async fn a_change_of_another_connection_is_read_at_once() {
    let directory = TestDirectory::new();
    let (store, second) = (directory.open().await, directory.open().await);
    for file in [FILE, "/memories/d/other"] {
        write(&store, file, "").await.unwrap();
    }
    let other = directory.connection();
    for round in 0..50 {
        let content = format!("round {round}");
        match round % 3 {
            0 => write(&second, FILE, &content).await.unwrap(),
            1 => write(&store, FILE, &content).await.unwrap(),
            _ => {
                let update = "UPDATE content SET revision = revision + 1, bytes = CAST(?1 AS BLOB)";
                read(&store, "/memories/d/other").await.unwrap(); // so that it is remembered
                assert_eq!(other.execute(update, [&content]).unwrap(), 2);
                assert_eq!(read(&store, "/memories/d/other").await.unwrap(), content);
            }
        }
        for _ in 0..2 {
            assert_eq!(read(&store, FILE).await.unwrap(), content);
            assert_eq!(read(&second, FILE).await.unwrap(), content);
        }
    }
}

/// The status of the log only decides where a read runs, because a commit may not alter it.
#[test]
fn a_change_that_leaves_size_and_time_of_the_log_is_read() {
    runtime().block_on(async {
        let (directory, store) = TestDirectory::opened().await;
        write(&store, FILE, "old").await.unwrap();
        let other = directory.connection();
        other.query_row("PRAGMA wal_checkpoint(PASSIVE)", (), |_| Ok(())).unwrap(); // the next commit starts over
        assert_eq!(read(&store, FILE).await.unwrap(), "old");
        assert_eq!(text(read_in_place(&store, FILE).await).unwrap(), "old");
        let log = File::options().write(true).open(directory.path().join("memory.sqlite-wal")).unwrap();
        let before = log.metadata().unwrap();
        other.execute("UPDATE content SET revision = revision + 1, bytes = x'6e6577'", ()).unwrap();
        log.set_modified(before.modified().unwrap()).unwrap();
        let after = log.metadata().unwrap();
        assert_eq!((before.len(), before.modified().unwrap()), (after.len(), after.modified().unwrap()));
        assert_eq!(read_in_place(&store, FILE).await, None);
        assert_eq!(read(&store, FILE).await.unwrap(), "new");
    });
}

/// A changed log may mean that a check has to wait.
#[test]
fn a_read_leaves_the_thread_if_the_log_was_touched() {
    runtime().block_on(async {
        let (directory, store) = TestDirectory::opened().await;
        write(&store, FILE, "text").await.unwrap();
        assert_eq!(read(&store, FILE).await.unwrap(), "text");
        assert!(is_read_in_place(&store, FILE).await);
        let log = File::options().write(true).open(directory.path().join("memory.sqlite-wal")).unwrap();
        log.set_modified(log.metadata().unwrap().modified().unwrap() + Duration::from_secs(1)).unwrap();
        assert!(!is_read_in_place(&store, FILE).await);
        assert!(is_read_in_place(&store, FILE).await, "the other thread has checked it");
    });
}

#[test]
fn a_read_in_place_does_not_wait_for_a_lock() {
    runtime().block_on(async {
        let (directory, store) = TestDirectory::opened().await;
        write(&store, FILE, "text").await.unwrap();
        assert_eq!(read(&store, FILE).await.unwrap(), "text");
        let other = directory.connection();
        other.execute_batch("BEGIN EXCLUSIVE; UPDATE content SET revision = revision + 1").unwrap();
        assert_eq!(text(read_in_place(&store, FILE).await).unwrap(), "text");
        let writing = tokio::spawn({
            let store = store.clone();
            async move { write(&store, FILE, "new").await }
        });
        tokio::time::sleep(Duration::from_millis(200)).await; // without reads, which could take the connection first
        let reading = tokio::time::timeout(Duration::from_millis(20), store.read(FILE)).await;
        assert!(reading.is_err(), "the waiting writer has the connection that remembers the file");
        other.execute_batch("ROLLBACK").unwrap();
        writing.await.unwrap().unwrap();
        assert_eq!(read(&store, FILE).await.unwrap(), "new");
    });
}

/// Preconditions are checked against the current state.
#[tokio::test]
async fn a_precondition_is_checked_although_the_file_is_remembered() {
    let (_directory, store) = TestDirectory::opened().await;
    write(&store, FILE, "text").await.unwrap();
    let version = store.read(FILE).await.unwrap().into_file().unwrap().version;
    let if_unchanged = || ReadOptions::new().require(path(FILE), Precondition::Version(version.clone()));
    assert_eq!(text(store.read_opts(&path(FILE), if_unchanged()).await.ok()).unwrap(), "text");
    assert!(store.read_opts(&path(FILE), ReadOptions::new().require(path(FILE), Precondition::Absent)).await.is_err());
    write(&store, FILE, "text").await.unwrap();
    assert!(store.read_opts(&path(FILE), if_unchanged()).await.is_err());
}

/// After each random batch, all paths are read twice and compared with the store in RAM.
#[tokio::test]
async fn a_batch_leaves_no_outdated_node() {
    const PATHS: [&str; 10] = ["a", "a/b", "a/b/c", "a/b/d", "a/bc", "b", "b/c", "ab", "c/d/e", "c/d"];
    let directory = TestDirectory::in_ram();
    let (store, model) = (directory.open().await, InMemoryStore::new());
    let neighbour = store.memory(name("neighbour"));
    write(&neighbour, FILE, "neighbour").await.unwrap();
    let mut state = 19_u64;
    let mut random = |most: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % most
    };
    let paths = PATHS.map(|tail| path(&format!("/memories/{tail}")));
    for round in 0..400 {
        let mut batch = Batch::new();
        for _ in 0..if round % 50 == 49 { 20 } else { 1 + random(2) } {
            let (one, two) = (paths[random(paths.len())].clone(), paths[random(paths.len())].clone());
            batch = match random(6) {
                0..3 => batch.write(one, format!("{round}")),
                3 => batch.remove(one),
                _ => batch.rename(one, two),
            };
        }
        assert_eq!(store.apply(batch.clone()).await.is_ok(), model.apply(batch).await.is_ok(), "round {round}");
        for at in paths.iter().chain([&path("/memories")]) {
            for _ in 0..2 {
                let (found, expected) = (store.read(at).await.unwrap(), model.read(at).await.unwrap());
                assert_eq!(contents(found), contents(expected), "{at} in round {round}");
            }
        }
        assert_eq!(read(&neighbour, FILE).await.unwrap(), "neighbour");
    }
}

/// More changes than are compared with each remembered path.
#[tokio::test]
async fn a_large_batch_leaves_no_outdated_node() {
    let (_directory, store) = TestDirectory::opened().await;
    write(&store, FILE, "old").await.unwrap();
    assert_eq!(read(&store, FILE).await.unwrap(), "old");
    let batch = (0..100).fold(Batch::new(), |batch, number| batch.write(path(&format!("/memories/{number}")), ""));
    store.apply(batch.write(path(FILE), "new")).await.unwrap();
    assert_eq!(read(&store, FILE).await.unwrap(), "new");
}

/// The contents of a node, without versions and times.
fn contents(node: Node) -> (bool, Vec<u8>, Vec<(String, u64)>) {
    match node {
        Node::Absent => (false, Vec::new(), Vec::new()),
        Node::File(file) => (true, file.content, Vec::new()),
        Node::Directory(listing) => {
            let mut entries: Vec<_> = listing.files.iter().map(|entry| (entry.path.to_string(), entry.size)).collect();
            entries.sort();
            (true, Vec::new(), entries)
        }
    }
}

/// A counter that two stores increment. A read never returns less than the last acknowledged value.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_reads_never_go_back() {
    let directory = TestDirectory::in_ram();
    let stores = [directory.open().await, directory.open().await];
    write(&stores[0], FILE, "0").await.unwrap();
    let acknowledged = Arc::new(AtomicU64::new(0));
    let readers: Vec<_> = (0..8)
        .map(|number| {
            let (store, acknowledged) = (stores[number % 2].clone(), Arc::clone(&acknowledged));
            tokio::spawn(async move {
                let mut last = 0;
                while last < 300 {
                    let least = acknowledged.load(Ordering::SeqCst).max(last);
                    last = read(&store, FILE).await.unwrap().parse().unwrap();
                    assert!(last >= least, "{last} after {least}");
                }
            })
        })
        .collect();
    for number in 1..=300 {
        write(&stores[number as usize % 2], FILE, &number.to_string()).await.unwrap();
        acknowledged.store(number, Ordering::SeqCst);
        if number % 3 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await; // so that some reads are in place
        }
    }
    for reader in readers {
        reader.await.unwrap();
    }
}

/// Tasks that only read let others run: a timer keeps firing although many of them never pause.
#[tokio::test]
async fn readers_do_not_occupy_the_runtime() {
    const MOST_READS: usize = 100_000;
    let (_directory, store) = TestDirectory::opened().await;
    write(&store, FILE, "text").await.unwrap();
    read(&store, FILE).await.unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..50)
        .map(|_| {
            let (store, is_over) = (store.clone(), Arc::clone(&is_over));
            tokio::spawn(async move {
                let mut reads = 0;
                while reads < MOST_READS && !is_over.load(Ordering::Relaxed) {
                    store.read(FILE).await.unwrap();
                    reads += 1;
                }
                reads
            })
        })
        .collect();
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    is_over.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.await.unwrap() < MOST_READS, "the timer waits for a reader");
    }
}
