//! Several who write at once, through stores that share nothing but what is stored.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::{Faulty, Mishap, content, contents, key, open, path, ring, write};
use async_trait::async_trait;
use memory_tool_core::{
    Batch, Engine, FailureKind, InMemoryStore, MemoryPath, MemoryTool, Node, OpenOptions, Precondition, ReadOptions,
    RecordName, Store, StoreError, StoreExt, StoredFile,
};
use memory_tool_encrypted::{EncryptedStore, Padding, RekeyProgress};
use serde_json::json;

const WRITERS: usize = 8;
const INSERTS: usize = 50;

async fn opened(inner: &Arc<InMemoryStore>, padding: Padding) -> EncryptedStore {
    EncryptedStore::builder(Arc::clone(inner), ring(1)).padding(padding).open().await.unwrap()
}

/// With padding, each insert writes the index, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_400_inserts_400_are_kept() {
    for padding in [Padding::None, Padding::Padme] {
        let inner = Arc::new(InMemoryStore::new());
        let store = opened(&inner, padding).await;
        write(&store, "/memories/log", "").await;
        let mut writers = Vec::new();
        for writer in 0..WRITERS {
            let tool = Engine::new(opened(&inner, padding).await);
            writers.push(tokio::spawn(async move {
                for number in 0..INSERTS {
                    let line = format!("line {writer} {number}");
                    let insert =
                        json!({"command": "insert", "path": "/memories/log", "insert_line": 0, "insert_text": line});
                    tool.call(insert).await.unwrap();
                }
            }));
        }
        for writer in writers {
            writer.await.unwrap();
        }
        let text = content(&store, &path("/memories/log")).await;
        assert_eq!(
            std::str::from_utf8(&text).unwrap().lines().filter(|line| !line.is_empty()).count(),
            WRITERS * INSERTS
        );
    }
}

/// A directory goes back and forth while files in it are edited and made: each file is there once, whole, with all its edits.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_directory_that_moves_takes_its_edits_along() {
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
    // What stays in place is written and read meanwhile.
    let bystander = open(&inner, ring(1)).await;
    let standing_by = tokio::spawn(async move {
        for round in 0..ROUNDS {
            write(&bystander, "/memories/stays", format!("{round}")).await;
            assert_eq!(content(&bystander, &path("/memories/stays")).await, format!("{round}").into_bytes());
            let listed = bystander.list(&MemoryPath::root()).await.unwrap();
            assert_eq!(listed.len(), 2, "{listed:?}");
        }
    });
    moving.await.unwrap();
    let kept = editing.await.unwrap();
    standing_by.await.unwrap();
    let files = contents(&open(&inner, ring(1)).await).await;
    let log: Vec<_> = files.iter().filter(|(file, _)| file.file_name() == Some("log")).collect();
    let [(_, text)] = log[..] else { panic!("{files:?}") };
    assert_eq!(std::str::from_utf8(text).unwrap().lines().filter(|line| !line.is_empty()).count(), kept);
}

/// Two sessions with stale views of each other, one step each in turn: every answer is that of one store.
#[tokio::test]
async fn a_session_sees_at_once_what_another_did() {
    let inner = Arc::new(InMemoryStore::new());
    let (left, right) = (open(&inner, ring(1)).await, open(&inner, ring(1)).await);
    write(&left, "/memories/a/file", "one").await;
    assert_eq!(content(&right, &path("/memories/a/file")).await, b"one");
    let version = match left.read(&path("/memories/a/file")).await.unwrap() {
        Node::File(file) => file.version,
        other => panic!("{other:?}"),
    };
    right.apply(Batch::new().rename(path("/memories/a"), path("/memories/b"))).await.unwrap();
    assert_eq!(left.read(&path("/memories/a/file")).await.unwrap(), Node::Absent);
    assert_eq!(left.read(&path("/memories/a")).await.unwrap(), Node::Absent);
    // A rename keeps the version: an edit that began before it is lost neither way.
    let moved = path("/memories/b/file");
    let edit = |content: &str| {
        let batch = Batch::new().require(moved.clone(), Precondition::Version(version.clone()));
        batch.write(moved.clone(), content)
    };
    left.apply(edit("two")).await.unwrap();
    let refused = right.apply(edit("three")).await.unwrap_err();
    assert!(matches!(&refused, StoreError::VersionMismatch { path } if *path == moved), "{refused:?}");
    assert_eq!(content(&right, &moved).await, b"two");

    // What it knows would not allow this; what is there by now does.
    write(&left, "/memories/new", "new").await;
    right.apply(Batch::new().rename(path("/memories/new"), path("/memories/newer"))).await.unwrap();
    left.apply(Batch::new().remove(path("/memories/newer"))).await.unwrap();
    let create = Batch::new().require(path("/memories/newer"), Precondition::Absent);
    right.apply(create.write(path("/memories/newer"), b"again".to_vec())).await.unwrap();
    assert_eq!(content(&left, &path("/memories/newer")).await, b"again");
}

/// An edit of a file writes its ciphertext alone, and a rename of a directory the index alone.
#[tokio::test]
async fn what_is_written_is_what_changed() {
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

/// An answer that did not come is passed on as what it is.
#[tokio::test]
async fn an_unknown_outcome_stays_unknown() {
    let inner = Arc::new(InMemoryStore::new());
    write(&open(&inner, ring(1)).await, "/memories/a", "one").await;
    let counting = Arc::new(Faulty::new(&inner, usize::MAX, Mishap::FailsAfter));
    drop(EncryptedStore::open(Arc::clone(&counting), ring(1)).await.unwrap());
    let opening = counting.calls.load(Ordering::SeqCst);
    let faulty = Arc::new(Faulty::new(&inner, opening, Mishap::FailsAfter));
    let store = EncryptedStore::open(faulty, ring(1)).await.unwrap();
    let error = store.apply(Batch::new().write(path("/memories/a"), b"two".to_vec())).await.unwrap_err();
    assert!(matches!(error, StoreError::Failure { kind: FailureKind::OutcomeUnknown, .. }), "{error:?}");
    assert_eq!(content(&store, &path("/memories/a")).await, b"two");
}

/// A store in which somebody else writes the index between any two looks at it.
#[derive(Debug)]
struct Restless(Arc<InMemoryStore>);

#[async_trait]
impl Store for Restless {
    async fn read_opts(&self, path: &MemoryPath, options: ReadOptions) -> Result<Node, StoreError> {
        let found = self.0.read_opts(path, options).await?;
        if let Node::File(file) = &found
            && path.as_str().ends_with("index-1")
        {
            self.0.apply(Batch::new().write(path.clone(), file.content.clone())).await?;
        }
        Ok(found)
    }

    async fn read_record(&self, name: &RecordName) -> Result<Option<StoredFile>, StoreError> {
        self.0.read_record(name).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.0.apply(batch).await
    }
}

#[tokio::test]
async fn who_is_never_first_gives_up_after_a_while() {
    let inner = Arc::new(InMemoryStore::new());
    write(&open(&inner, ring(1)).await, "/memories/a", "text").await;
    let options = OpenOptions::new().timeout(Duration::from_millis(50));
    let builder = EncryptedStore::builder(Restless(Arc::clone(&inner)), ring(1)).options(options);
    let store = builder.open().await.unwrap();
    let builder = EncryptedStore::builder(Restless(Arc::clone(&inner)), ring(2).with(key(1))).options(options);
    let rekeying = builder.open().await.unwrap();
    let file = path("/memories/a");
    for error in [
        store.read(&file).await.unwrap_err(),
        store.list(&MemoryPath::root()).await.unwrap_err(),
        store.apply(Batch::new().write(file.clone(), b"other".to_vec())).await.unwrap_err(),
        rekeying.rekey(drop::<RekeyProgress>).await.unwrap_err(),
    ] {
        assert!(matches!(error, StoreError::Failure { kind: FailureKind::Busy, .. }), "{error:?}");
    }
    assert_eq!(content(&open(&inner, ring(1)).await, &file).await, b"text");
}

/// A store far away is asked no more than it must be.
#[tokio::test]
async fn an_operation_makes_few_calls() {
    let counting = Arc::new(Faulty::new(&Arc::new(InMemoryStore::new()), usize::MAX, Mishap::FailsBefore));
    let store = EncryptedStore::open(Arc::clone(&counting), ring(1)).await.unwrap();
    write(&store, "/memories/a/file", "text").await;
    let calls = || counting.calls.swap(0, Ordering::SeqCst);
    calls();
    write(&store, "/memories/a/other", "text").await;
    assert_eq!(calls(), 2, "a file is made: the index is read, and all is written");
    store.read("/memories/a/file").await.unwrap();
    assert_eq!(calls(), 2, "the index is read, then the file: the index was written by this store before");
    store.read("/memories/a/file").await.unwrap();
    assert_eq!(calls(), 1, "the file is read");
    write(&store, "/memories/a/file", "edited").await;
    assert_eq!(calls(), 1, "the file is written");
    store.list(&path("/memories/a")).await.unwrap();
    assert_eq!(calls(), 1, "the sizes are listed");
    let options = ReadOptions::new().require(path("/memories/none"), Precondition::Absent);
    store.read_opts(&path("/memories/a/file"), options).await.unwrap();
    assert_eq!(calls(), 1, "the file is read under the precondition");
    store.apply(Batch::new().rename(path("/memories/a"), path("/memories/b"))).await.unwrap();
    assert_eq!(calls(), 1, "the index is written");
}
