//! Concurrent writers through separate instances of one store.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Fault, FaultyStore, content, contents, key, open, path, ring, write};
use async_trait::async_trait;
use memory_tool_core::{
    Batch, Engine, ErrorKind, InMemoryStore, MemoryTool, Node, OpenOptions, Precondition, ReadOptions, Store,
    StoreError, StoreExt, StorePath,
};
use memory_tool_encrypted::{EncryptedStore, RekeyProgress};
use serde_json::json;
use tokio::time::Instant;

/// A directory is renamed back and forth while its files are edited. No edit is lost, and no file is duplicated.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn edits_in_a_directory_survive_concurrent_renames() {
    const ROUNDS: usize = 150;
    let inner = Arc::new(InMemoryStore::new());
    write(&open(&inner, ring(1)).await, "/memories/here/log", "").await;
    let either = |name: &str| [format!("/memories/here/{name}"), format!("/memories/there/{name}")];

    let mover = Engine::new(open(&inner, ring(1)).await);
    let moving = tokio::spawn(async move {
        for round in 0..ROUNDS {
            let mut ends = ["/memories/here", "/memories/there"];
            ends.rotate_left(round % 2);
            mover.call(json!({"command": "rename", "old_path": ends[0], "new_path": ends[1]})).await.unwrap();
        }
    });
    let editor = Engine::new(open(&inner, ring(1)).await);
    let logs = either("log");
    let editing = tokio::spawn(async move {
        let mut kept = 0;
        while kept < ROUNDS {
            for log in &logs {
                let insert =
                    json!({"command": "insert", "path": log, "insert_line": 0, "insert_text": format!("{kept}.")});
                kept += usize::from(editor.call(insert).await.is_ok());
            }
        }
        kept
    });
    // A third writer uses a file outside the directory.
    let outside = open(&inner, ring(1)).await;
    let writing_outside = tokio::spawn(async move {
        for round in 0..ROUNDS {
            write(&outside, "/memories/stays", format!("{round}")).await;
            assert_eq!(content(&outside, &path("/memories/stays")).await, format!("{round}").into_bytes());
            let listed = outside.list(&StorePath::memories()).await.unwrap();
            assert_eq!(listed.len(), 2, "{listed:?}");
        }
    });
    moving.await.unwrap();
    let kept = editing.await.unwrap();
    writing_outside.await.unwrap();
    let files = contents(&open(&inner, ring(1)).await).await;
    let log: Vec<_> = files.iter().filter(|(file, _)| file.file_name() == Some("log")).collect();
    let [(_, text)] = log[..] else { panic!("{files:?}") };
    assert_eq!(std::str::from_utf8(text).unwrap().lines().filter(|line| !line.is_empty()).count(), kept);
}

/// An edit of a file writes its ciphertext only, and a rename of a directory writes the index only.
#[tokio::test]
async fn only_changed_objects_are_written() {
    let inner = Arc::new(InMemoryStore::new());
    let store = open(&inner, ring(1)).await;
    write(&store, "/memories/a/one", "one").await;
    write(&store, "/memories/a/two", "two").await;
    let changed_by = async |batch: Batch| {
        let before = contents(&*inner).await;
        store.apply(batch).await.unwrap();
        let after = contents(&*inner).await;
        let changed = after.iter().filter(|(place, bytes)| before.get(*place) != Some(*bytes));
        let (indices, files): (Vec<_>, Vec<_>) = changed.partition(|(place, _)| place.as_str().contains("index"));
        (indices.len(), files.len())
    };
    assert_eq!(changed_by(Batch::new().write(path("/memories/a/one"), b"edited".to_vec())).await, (0, 1));
    assert_eq!(changed_by(Batch::new().rename(path("/memories/a"), path("/memories/b"))).await, (2, 0));
    assert_eq!(changed_by(Batch::new().write(path("/memories/c"), Vec::new())).await, (2, 1));
    assert_eq!(changed_by(Batch::new().remove(path("/memories/b/one"))).await, (2, 0));
}

/// A write whose outcome the inner store does not know.
#[tokio::test]
async fn an_unknown_outcome_is_reported_as_unknown() {
    let inner = Arc::new(InMemoryStore::new());
    write(&open(&inner, ring(1)).await, "/memories/a", "one").await;
    let counting = Arc::new(FaultyStore::new(&inner, usize::MAX, Fault::FailsAfter));
    drop(EncryptedStore::open(Arc::clone(&counting), ring(1)).await.unwrap());
    let opening = counting.calls.load(Ordering::SeqCst);
    let faulty = Arc::new(FaultyStore::new(&inner, opening, Fault::FailsAfter));
    let store = EncryptedStore::open(faulty, ring(1)).await.unwrap();
    let error = store.apply(Batch::new().write(path("/memories/a"), b"two".to_vec())).await.unwrap_err();
    assert!(matches!(error, StoreError::Failure { kind: ErrorKind::OutcomeUnknown, .. }), "{error:?}");
    assert_eq!(content(&store, &path("/memories/a")).await, b"two");
}

/// A store in which another writer replaces the index after each read of it.
#[derive(Debug)]
struct ChangingStore(Arc<InMemoryStore>);

#[async_trait]
impl Store for ChangingStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        let found = self.0.read_opts(path, options).await?;
        if let Node::File(file) = &found
            && path.as_str().ends_with("index-1")
        {
            self.0.apply(Batch::new().write(path.clone(), file.content.clone())).await?;
        }
        Ok(found)
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.0.apply(batch).await
    }
}

#[tokio::test]
async fn operations_that_always_conflict_fail_as_busy() {
    let inner = Arc::new(InMemoryStore::new());
    write(&open(&inner, ring(1)).await, "/memories/a", "text").await;
    let options = OpenOptions::new().timeout(Duration::from_millis(50));
    let builder = EncryptedStore::builder(ChangingStore(Arc::clone(&inner)), ring(1)).options(options);
    let store = builder.open().await.unwrap();
    let builder = EncryptedStore::builder(ChangingStore(Arc::clone(&inner)), ring(2).with(key(1))).options(options);
    let rekeying = builder.open().await.unwrap();
    let file = path("/memories/a");
    for error in [
        store.read(&file).await.unwrap_err(),
        store.list(&StorePath::memories()).await.unwrap_err(),
        store.apply(Batch::new().write(file.clone(), b"other".to_vec())).await.unwrap_err(),
        rekeying.rekey(drop::<RekeyProgress>).await.unwrap_err(),
    ] {
        assert!(matches!(error, StoreError::Failure { kind: ErrorKind::Busy, .. }), "{error:?}");
    }
    assert_eq!(content(&open(&inner, ring(1)).await, &file).await, b"text");
}

/// A store with a steady writer: it replaces the index before the first reads of a file, and before each that is based
/// on an index of some milliseconds ago.
#[derive(Debug)]
struct SteadilyWrittenStore {
    inner: Arc<InMemoryStore>,
    /// How many more reads of a file conflict even with a new index.
    conflicts: AtomicUsize,
    index_read: Mutex<Instant>,
}

impl SteadilyWrittenStore {
    const INTERVAL: Duration = Duration::from_millis(2);

    async fn replace_index(&self) -> Result<(), StoreError> {
        let index = path("/memories/index-1");
        let content = content(&*self.inner, &index).await;
        self.inner.apply(Batch::new().write(index, content)).await
    }
}

#[async_trait]
impl Store for SteadilyWrittenStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        if path.as_str().contains("index") {
            *self.index_read.lock().unwrap() = Instant::now();
        } else {
            let conflicts = self.conflicts.load(Ordering::SeqCst);
            self.conflicts.store(conflicts.saturating_sub(1), Ordering::SeqCst);
            let is_outdated = self.index_read.lock().unwrap().elapsed() >= Self::INTERVAL;
            if conflicts > 0 || is_outdated {
                self.replace_index().await?;
            }
        }
        self.inner.read_opts(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.inner.apply(batch).await
    }
}

/// After a wait, a read takes a new snapshot, because an earlier one is outdated.
#[tokio::test(start_paused = true)]
async fn a_steady_writer_does_not_starve_reads() {
    let inner = Arc::new(InMemoryStore::new());
    write(&open(&inner, ring(1)).await, "/memories/a", "text").await;
    let steady = Arc::new(SteadilyWrittenStore {
        inner,
        conflicts: AtomicUsize::new(0),
        index_read: Mutex::new(Instant::now()),
    });
    let options = OpenOptions::new().timeout(Duration::from_secs(2));
    let store = EncryptedStore::builder(Arc::clone(&steady), ring(1)).options(options).open().await.unwrap();
    for _ in 0..10 {
        steady.conflicts.store(6, Ordering::SeqCst);
        assert_eq!(content(&store, &path("/memories/a")).await, b"text");
    }
}

/// Calls are expensive if the inner store is remote.
#[tokio::test]
async fn operations_make_the_minimum_number_of_calls() {
    let counting = Arc::new(FaultyStore::new(&Arc::new(InMemoryStore::new()), usize::MAX, Fault::FailsBefore));
    let store = EncryptedStore::open(Arc::clone(&counting), ring(1)).await.unwrap();
    write(&store, "/memories/a/file", "text").await;
    let calls = || counting.calls.swap(0, Ordering::SeqCst);
    calls();
    write(&store, "/memories/a/other", "text").await;
    assert_eq!(calls(), 2, "creating a file reads the index and writes one batch");
    store.read("/memories/a/file").await.unwrap();
    assert_eq!(calls(), 2, "after a write by this store, a read reads the index and the file");
    store.read("/memories/a/file").await.unwrap();
    assert_eq!(calls(), 1, "a read reads the file only");
    write(&store, "/memories/a/file", "edited").await;
    assert_eq!(calls(), 1, "an edit writes the file only");
    store.list(&path("/memories/a")).await.unwrap();
    assert_eq!(calls(), 1, "a listing lists the objects");
    let options = ReadOptions::new().require(path("/memories/none"), Precondition::Absent);
    store.read_opts(&path("/memories/a/file"), options).await.unwrap();
    assert_eq!(calls(), 1, "a read includes its preconditions");
    store.apply(Batch::new().rename(path("/memories/a"), path("/memories/b"))).await.unwrap();
    assert_eq!(calls(), 1, "a rename writes the index only");
}
