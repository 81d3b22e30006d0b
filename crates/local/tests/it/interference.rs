//! Other programs change files concurrently, without a lock. Their changes are never lost.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::{TestMemory, tree};
use memory_tool_core::{Batch, Node, OpenOptions, Store, StoreError, StoreExt};
use memory_tool_local::LocalStore;
use memory_tool_test_fixtures::{by_tier, path};

const ROUNDS: usize = 20;
/// The limit on additional rounds if no round hits the moment.
const MAX_ROUNDS: usize = 1_000;

/// How long to wait for the store to write. On a busy machine, the moment can be missed.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Runs `act` on another thread as soon as the store writes new contents. Returns `None` if that was not observed.
fn while_it_writes<T: Send + 'static>(
    memory: &TestMemory,
    act: impl FnOnce() -> T + Send + 'static,
) -> std::thread::JoinHandle<Option<T>> {
    let staging: PathBuf = memory.base().join(".memory-tool/staging");
    std::thread::spawn(move || {
        let start = Instant::now();
        while start.elapsed() < MAX_WAIT {
            if fs::read_dir(&staging).unwrap().next().is_some() {
                return Some(act());
            }
        }
        None
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c2_a_file_created_by_another_program_is_not_overwritten() {
    let memory = TestMemory::new().await;
    let target = memory.on_disk("/memories/notes.txt");
    let (mut rounds, mut refused) = (0, 0);
    while rounds < ROUNDS || refused == 0 {
        assert!(rounds < MAX_ROUNDS, "the other program was never first");
        rounds += 1;
        let made = while_it_writes(&memory, {
            let target = target.clone();
            move || File::create_new(target).and_then(|mut file| file.write_all(b"theirs")).is_ok()
        });
        let reply = memory.create("/memories/notes.txt", &"x".repeat(2_000_000)).await;
        if made.join().unwrap() == Some(true) {
            assert_eq!(reply, "Error: File /memories/notes.txt already exists");
            assert_eq!(fs::read(&target).unwrap(), b"theirs");
            refused += 1;
        }
        fs::remove_file(&target).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x3_a_save_during_an_edit_is_not_overwritten() {
    let memory = TestMemory::new().await;
    let target = memory.on_disk("/memories/notes.txt");
    let (mut rounds, mut saves, mut kept) = (0, 0, 0);
    while rounds < ROUNDS || saves == 0 {
        assert!(rounds < MAX_ROUNDS, "no write of the store was observed");
        rounds += 1;
        fs::write(&target, "x".repeat(2_000_000)).unwrap();
        let saved = while_it_writes(&memory, {
            let (target, beside) = (target.clone(), memory.outside().join("saved"));
            move || {
                fs::write(&beside, "theirs").unwrap();
                fs::rename(beside, target).unwrap();
            }
        });
        memory.insert("/memories/notes.txt", "ours").await;
        saves += usize::from(saved.join().unwrap().is_some());
        kept += usize::from(fs::read_to_string(&target).unwrap().contains("theirs"));
    }
    // A save between the last check and the rename cannot be detected.
    assert!(kept > saves / 2, "{} of {saves} saves were lost", saves - kept);
}

#[tokio::test]
async fn x1_a_batch_onto_an_unlisted_entry_changes_nothing() {
    let memory = TestMemory::new().await;
    let store = memory.tool.store();
    memory.create("/memories/a", "old").await;
    fs::create_dir(memory.on_disk("/memories/d")).unwrap();
    symlink("/nowhere", memory.on_disk("/memories/d/link")).unwrap();
    let before = tree(&memory.base().join("memories"));
    let write = Batch::new().write(path("/memories/new"), "new");
    for batch in
        [write.clone().write(path("/memories/d"), "new"), write.rename(path("/memories/a"), path("/memories/d"))]
    {
        let refused = store.apply(batch).await.unwrap_err();
        assert!(
            matches!(&refused, StoreError::AlreadyExists { path } if path.as_str() == "/memories/d"),
            "{refused:?}"
        );
        assert_eq!(tree(&memory.base().join("memories")), before);
        assert_eq!(tree(&memory.base().join(".memory-tool/staging")), []);
    }
}

#[tokio::test]
async fn p4_listing_a_link_is_refused() {
    let memory = TestMemory::new().await;
    symlink("/etc", memory.on_disk("/memories/link")).unwrap();
    for link in ["/memories/link", "/memories/link/x"] {
        let refused = memory.tool.store().list(&path(link)).await.unwrap_err();
        assert!(matches!(refused, StoreError::SymbolicLink { .. }), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flickering_file_breaks_no_view() {
    let memory = TestMemory::new().await;
    memory.create("/memories/keep/a", "k").await;
    let stop = Arc::new(AtomicBool::new(false));
    let flicker = std::thread::spawn({
        let (stop, directory) = (Arc::clone(&stop), memory.on_disk("/memories/x"));
        move || {
            while !stop.load(Ordering::Relaxed) {
                fs::create_dir(&directory).unwrap();
                fs::write(directory.join("f"), "1").unwrap();
                fs::remove_dir_all(&directory).unwrap();
            }
        }
    });
    for _ in 0..by_tier(100, 2_000) {
        for path in ["/memories", "/memories/x", "/memories/x/f"] {
            let view = memory.view(path).await;
            let missing = format!("The path {path} does not exist. Please provide a valid path.");
            assert!(view.starts_with("Here're ") || view.starts_with("Here's ") || view == missing, "{view}");
        }
    }
    stop.store(true, Ordering::Relaxed);
    flicker.join().unwrap();
}

#[tokio::test]
async fn the_maximum_timeout_does_not_overflow() {
    let memory = TestMemory::new().await;
    let store =
        LocalStore::builder(memory.base()).options(OpenOptions::new().timeout(Duration::MAX)).open().await.unwrap();
    assert_eq!(store.read(&path("/memories/a")).await.unwrap(), Node::Absent);
}

#[test]
fn waiting_readers_do_not_occupy_the_blocking_threads() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).max_blocking_threads(8).enable_time().build().unwrap();
    runtime.block_on(async {
        let memory = TestMemory::new().await;
        memory.create("/memories/a", "k").await;
        let held = File::open(memory.base().join(".memory-tool/lock")).unwrap();
        held.lock().unwrap();
        let reads: Vec<_> = (0..20)
            .map(|_| {
                let store = memory.tool.store().clone();
                tokio::spawn(async move { store.read(&path("/memories/a")).await })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let unrelated = tokio::task::spawn_blocking(|| "done");
        assert_eq!(tokio::time::timeout(Duration::from_secs(20), unrelated).await.unwrap().unwrap(), "done");
        assert!(reads.iter().all(|read| !read.is_finished()));
        held.unlock().unwrap();
        for read in reads {
            assert!(matches!(read.await.unwrap().unwrap(), Node::File(_)));
        }
    });
}
