//! `[X3]`: several tasks and stores on one directory behave as if their commands ran one after another.

use std::collections::BTreeSet;
use std::future::Future as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::TestMemory;
use memory_tool_core::{
    Batch, Engine, Error, ErrorKind, MemoryTool, Node, OpenOptions, Precondition, ReadOptions, Store, StoreError,
    StoreExt,
};
use memory_tool_local::LocalStore;
use memory_tool_test_fixtures::{by_tier, path, record};
use serde_json::json;
use tempfile::TempDir;

async fn two_stores(memory: &TestMemory) -> [LocalStore; 2] {
    [LocalStore::open(memory.base()).await.unwrap(), LocalStore::open(memory.base()).await.unwrap()]
}

/// Not even if it is killed, because each file is in place as a whole at any instant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x1_other_programs_see_no_partial_file() {
    const SIZES: [usize; 2] = [1, 2_000_000];
    let memory = TestMemory::new().await;
    let names = ["/memories/a", "/memories/d/b"];
    let is_over = Arc::new(AtomicBool::new(false));
    let looking = std::thread::spawn({
        let (is_over, files) = (Arc::clone(&is_over), names.map(|name| memory.on_disk(name)));
        move || {
            let mut seen = BTreeSet::new();
            while !is_over.load(Ordering::Relaxed) {
                seen.extend(files.iter().filter_map(|file| Some(std::fs::metadata(file).ok()?.len() as usize)));
            }
            seen
        }
    });
    for round in 0..by_tier(40, 1_000) {
        let write = |batch: Batch, name: &&str| batch.write(path(name), vec![b'x'; SIZES[round % 2]]);
        let files = &names[..1 + round / 2 % 2]; // a batch of two has a journal
        memory.tool.store().apply(files.iter().fold(Batch::new(), write)).await.unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    assert_eq!(looking.join().unwrap(), BTreeSet::from(SIZES));
}

#[tokio::test]
async fn a_lock_that_is_never_released_is_an_error() {
    let memory = TestMemory::new().await;
    memory.create("/memories/a.txt", "a").await;
    let held = std::fs::File::open(memory.base().join(".memory-tool/lock")).unwrap();
    held.lock().unwrap();
    let store = LocalStore::builder(memory.base())
        .options(OpenOptions::new().timeout(Duration::from_millis(50)))
        .open()
        .await
        .unwrap();
    let tool = Engine::new(store);
    for input in [
        json!({"command": "view", "path": "/memories"}),
        json!({"command": "create", "path": "/memories/b.txt", "file_text": "b"}),
    ] {
        let error = tool.call(input).await.unwrap_err();
        assert!(matches!(error, Error::Storage { kind: ErrorKind::Busy, .. }), "{error:?}");
        assert_eq!(error.to_string(), "Error: The memory storage is busy. Nothing was changed. Try again.");
    }
    held.unlock().unwrap();
    assert!(memory.view("/memories").await.ends_with("\n1B\t/memories\n1B\t/memories/a.txt"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_do_not_starve_a_writer() {
    let memory = TestMemory::new().await;
    let held = std::fs::File::open(memory.base().join(".memory-tool/lock"));
    let held = held.or_else(|_| {
        std::fs::write(memory.base().join(".memory-tool/lock"), "")?;
        std::fs::File::open(memory.base().join(".memory-tool/lock"))
    });
    let held = held.unwrap();
    held.lock_shared().unwrap();
    let [writer, reader] = two_stores(&memory).await;
    let writing = tokio::spawn(async move { writer.apply(Batch::new().write(path("/memories/a"), "new")).await });
    let turnstile = memory.base().join(".memory-tool/turnstile");
    let is_writer_in_line = || {
        let turnstile = std::fs::File::open(&turnstile);
        turnstile.is_ok_and(|turnstile| matches!(turnstile.try_lock(), Err(std::fs::TryLockError::WouldBlock)))
    };
    while !is_writer_in_line() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // The writer waits for the reader that holds the lock. A new reader queues behind the writer, although it could
    // share the lock, so it reads the new contents.
    let reading = tokio::spawn(async move { reader.read(&path("/memories/a")).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!writing.is_finished() && !reading.is_finished());
    held.unlock().unwrap();
    writing.await.unwrap().unwrap();
    let Node::File(file) = reading.await.unwrap().unwrap() else { panic!("the reader overtook the writer") };
    assert_eq!(file.content, b"new");
}

/// The caller no longer waits for the change.
#[tokio::test]
async fn a_waiting_batch_whose_future_was_dropped_is_not_applied() {
    let memory = TestMemory::new().await;
    memory.create("/memories/a", "a").await;
    let store = memory.tool.store().clone();
    let held = std::fs::File::open(memory.base().join(".memory-tool/lock")).unwrap();
    held.lock().unwrap();
    let write = |name: &str| {
        let (store, batch) = (store.clone(), Batch::new().write(path(name), "text"));
        tokio::spawn(async move { store.apply(batch).await })
    };
    let first = write("/memories/first");
    tokio::time::sleep(Duration::from_millis(50)).await;
    let (dropped, kept) = (write("/memories/dropped"), write("/memories/kept"));
    tokio::time::sleep(Duration::from_millis(50)).await;
    dropped.abort();
    assert!(dropped.await.is_err());
    held.unlock().unwrap();
    first.await.unwrap().unwrap();
    kept.await.unwrap().unwrap();
    let files: Vec<_> = store.list("/memories").await.unwrap().into_iter().map(|file| file.path.to_string()).collect();
    assert_eq!(files, ["/memories/a", "/memories/first", "/memories/kept"]);
}

#[tokio::test]
async fn the_first_precondition_that_does_not_hold_is_the_error() {
    let memory = TestMemory::new().await;
    let (index, file) = (record("index"), path("/memories/a"));
    let store = memory.tool.store();
    store.apply(Batch::new().write(index.clone(), "1")).await.unwrap();
    let version = store.read_opts(&index, ReadOptions::new()).await.unwrap().into_file().unwrap().version;
    let other = LocalStore::open(memory.base()).await.unwrap();
    other.apply(Batch::new().write(index.clone(), "2").write(file.clone(), "2")).await.unwrap();
    let batch = Batch::new().require(index.clone(), Precondition::Version(version)).require(file, Precondition::Absent);
    let refused = store.apply(batch.write(index.clone(), "3")).await;
    assert!(matches!(&refused, Err(StoreError::VersionMismatch { path }) if *path == index), "{refused:?}");
}

/// Batches that wait together are applied together, but each has its own result.
#[tokio::test]
async fn batches_that_wait_together_have_their_own_results() {
    let memory = TestMemory::new().await;
    memory.create("/memories/a/file", "a").await;
    let store = memory.tool.store().clone();
    let held = std::fs::File::open(memory.base().join(".memory-tool/lock")).unwrap();
    held.lock().unwrap();
    let absent = |name: &str| Batch::new().require(path(name), Precondition::Absent).write(path(name), "text");
    let batches = [
        (absent("/memories/b/new"), "ok"),
        (absent("/memories/b/new"), "exists"),
        (absent("/memories/b/new/under"), "not a directory"),
        (Batch::new().remove(path("/memories/a")), "ok"),
        (Batch::new().remove(path("/memories/a")), "not found"),
        (absent("/memories/a/file"), "ok"),
        (Batch::new().rename(path("/memories/a"), path("/memories/c")), "ok"),
        (absent("/memories/a/file"), "ok"),
        (absent("/memories/c/file"), "exists"),
        (Batch::new().write(path("/memories/c/other"), "text").remove(path("/memories/b")), "ok"),
    ];
    let mut waiting = Vec::new();
    for (batch, expected) in batches {
        let store = store.clone();
        waiting.push((tokio::spawn(async move { store.apply(batch).await }), expected));
        tokio::task::yield_now().await; // so that they wait in this order
    }
    held.unlock().unwrap();
    for (number, (applied, expected)) in waiting.into_iter().enumerate() {
        let found = match applied.await.unwrap() {
            Ok(()) => "ok",
            Err(StoreError::AlreadyExists { .. }) => "exists",
            Err(StoreError::NotADirectory { .. }) => "not a directory",
            Err(StoreError::NotFound { .. }) => "not found",
            Err(error) => panic!("{error:?}"),
        };
        assert_eq!(found, expected, "batch {number}");
    }
    let files: Vec<_> = store.list("/memories").await.unwrap().into_iter().map(|file| file.path.to_string()).collect();
    assert_eq!(files, ["/memories/a/file", "/memories/c/file", "/memories/c/other"]);
}

/// Otherwise a repeated command would take effect twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_is_reported_as_busy_is_not_applied_later() {
    let memory = TestMemory::new().await;
    memory.create("/memories/a", "a").await;
    let options = OpenOptions::new().timeout(Duration::from_millis(50));
    let store = LocalStore::builder(memory.base()).options(options).open().await.unwrap();
    let held = std::fs::File::open(memory.base().join(".memory-tool/lock")).unwrap();
    held.lock().unwrap();
    let mut busy = std::pin::pin!(store.apply(Batch::new().write(path("/memories/busy"), "text")));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(busy.as_mut().poll(&mut context).is_pending());
    std::thread::sleep(Duration::from_millis(300)); // it fails now, but its task is not polled
    held.unlock().unwrap();
    store.apply(Batch::new().write(path("/memories/b"), "b")).await.unwrap();
    let error = busy.await.unwrap_err();
    assert!(matches!(error, StoreError::Failure { kind: ErrorKind::Busy, .. }), "{error:?}");
    assert!(!memory.on_disk("/memories/busy").exists());
}

/// Programs that start together open a new store: one must not disturb what another one tries on the file system.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_new_store_is_opened_several_times_at_once() {
    for _ in 0..200 {
        let directory = TempDir::new().unwrap();
        let opening: Vec<_> = (0..8).map(|_| tokio::spawn(LocalStore::open(directory.path().to_owned()))).collect();
        for opened in opening {
            opened.await.unwrap().unwrap();
        }
    }
}
