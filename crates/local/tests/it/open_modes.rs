//! Only the mode `Create` lets opening and reading create files.

use std::error::Error as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::support::{leave_unfinished, tree, write};
use memory_tool_core::{
    Batch, ErrorKind, Node, OpenError, OpenMode, OpenOptions, Precondition, ReadOptions, Store, StoreError, StoreExt,
    StorePath,
};
use memory_tool_local::LocalStore;
use memory_tool_test_fixtures::{path, record};
use tempfile::TempDir;

async fn open(base: &Path, mode: OpenMode) -> Result<LocalStore, OpenError> {
    LocalStore::builder(base).options(OpenOptions::new().mode(mode)).open().await
}

#[tokio::test]
async fn a_missing_store_is_not_created() {
    let directory = TempDir::new().unwrap();
    fs::create_dir(directory.path().join("empty")).unwrap();
    fs::write(directory.path().join("file"), "").unwrap();
    let before = tree(directory.path());
    for mode in [OpenMode::Existing, OpenMode::ReadOnly] {
        for base in ["empty", "missing", "missing/below"] {
            let error = open(&directory.path().join(base), mode).await.unwrap_err();
            assert!(error.is_not_found(), "{base}: {:?}", error.source());
        }
        assert!(!open(&directory.path().join("file"), mode).await.unwrap_err().is_not_found());
    }
    assert_eq!(tree(directory.path()), before);
}

#[tokio::test]
async fn an_existing_store_is_opened_unchanged_and_writable() {
    let directory = TempDir::new().unwrap();
    fs::create_dir(directory.path().join("memories")).unwrap();
    let store = open(directory.path(), OpenMode::Existing).await.unwrap();
    assert_eq!(tree(directory.path()).len(), 1, "opening created something");
    store.apply(write("/memories/a")).await.unwrap();
    assert!(matches!(store.read(&path("/memories/a")).await.unwrap(), Node::File(_)));
    open(directory.path(), OpenMode::Existing).await.unwrap();
}

#[tokio::test]
async fn a_directory_of_plain_files_is_read_without_a_lock() {
    let directory = TempDir::new().unwrap();
    fs::create_dir_all(directory.path().join("memories/d")).unwrap();
    fs::write(directory.path().join("memories/d/a"), "text").unwrap();
    let before = tree(directory.path());
    let store = open(directory.path(), OpenMode::ReadOnly).await.unwrap();
    assert!(matches!(store.read(&path("/memories/d/a")).await.unwrap(), Node::File(file) if file.content == b"text"));
    assert_eq!(store.list(&StorePath::memories()).await.unwrap().len(), 1);
    assert_eq!(store.read_opts(&record("a/b"), ReadOptions::new()).await.unwrap(), Node::Absent);
    let unless_there = ReadOptions::new().require(path("/memories/d"), Precondition::Absent);
    let read = store.read_opts(&path("/memories/d/a"), unless_there).await;
    assert!(matches!(read, Err(StoreError::AlreadyExists { .. })), "{read:?}");
    assert_eq!(tree(directory.path()), before);
    fs::remove_dir_all(directory.path().join("memories")).unwrap();
    assert_eq!(store.list(&StorePath::memories()).await.unwrap(), []);
}

#[tokio::test]
async fn a_read_only_store_refuses_changes_and_sees_those_of_others() {
    let directory = TempDir::new().unwrap();
    let writer = LocalStore::open(directory.path()).await.unwrap();
    writer.apply(write("/memories/a").write(record("a/b"), "record")).await.unwrap();
    let reader = open(directory.path(), OpenMode::ReadOnly).await.unwrap();
    let before = tree(directory.path());
    let read = reader.read_opts(&record("a/b"), ReadOptions::new()).await.unwrap();
    assert_eq!(read.into_file().unwrap().content, b"record");
    for batch in [
        write("/memories/b"),
        Batch::new().write(record("a/b"), "new"),
        Batch::new().remove(record("a/b")),
        Batch::new().remove(path("/memories/a")),
        Batch::new().remove(StorePath::memories()),
        Batch::new().rename(path("/memories/a"), path("/memories/b")),
    ] {
        let refused = reader.apply(batch).await;
        assert!(matches!(refused, Err(StoreError::Failure { kind: ErrorKind::AccessDenied, .. })), "{refused:?}");
    }
    for (free, taken) in [(path("/memories/b"), path("/memories/a")), (record("other"), record("a/b"))] {
        reader.apply(Batch::new().require(free, Precondition::Absent)).await.unwrap();
        let required = Batch::new().require(taken, Precondition::Absent);
        assert!(matches!(reader.apply(required).await, Err(StoreError::AlreadyExists { .. })));
    }
    assert_eq!(tree(directory.path()), before);
    writer.apply(write("/memories/b")).await.unwrap();
    assert_eq!(reader.list(&StorePath::memories()).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_reader_waits_for_a_writer_and_readers_do_not_wait_for_each_other() {
    let directory = TempDir::new().unwrap();
    LocalStore::open(directory.path()).await.unwrap().apply(write("/memories/a")).await.unwrap();
    let lock = fs::File::open(directory.path().join(".memory-tool/lock")).unwrap();
    let options = LocalStore::builder(directory.path());
    let read_only = OpenOptions::new().read_only().timeout(Duration::from_millis(50));
    let reader = options.options(read_only).open().await.unwrap();
    lock.lock().unwrap();
    let busy = reader.list(&StorePath::memories()).await;
    assert!(matches!(busy, Err(StoreError::Failure { kind: ErrorKind::Busy, .. })), "{busy:?}");
    lock.unlock().unwrap();
    lock.lock_shared().unwrap();
    assert_eq!(reader.list(&StorePath::memories()).await.unwrap().len(), 1);
}

/// `[X1]`: a partial batch is never visible, even if the reader cannot complete it.
#[tokio::test]
async fn x1_a_read_only_store_never_shows_a_partial_batch() {
    let directory = TempDir::new().unwrap();
    let store = LocalStore::open(directory.path()).await.unwrap();
    store.apply(write("/memories/a")).await.unwrap();
    let journal = r#"{"format":1,"steps":[{"rename":{"from":"/memories/a","to":"/memories/b"}}]}"#;
    fs::write(directory.path().join(".memory-tool/journal"), journal).unwrap();
    leave_unfinished(directory.path());
    let before = tree(directory.path());
    let reader = open(directory.path(), OpenMode::ReadOnly).await.unwrap();
    for _ in 0..2 {
        let error = reader.read(&path("/memories/a")).await.unwrap_err();
        assert!(matches!(error, StoreError::Failure { kind: ErrorKind::Busy, .. }), "{error:?}");
        assert!(error.source().unwrap().to_string().contains("open the store for writing once"), "{error:?}");
        assert!(reader.list(&StorePath::memories()).await.is_err());
        assert!(reader.apply(Batch::new().require(path("/memories/a"), Precondition::Absent)).await.is_err());
    }
    assert_eq!(tree(directory.path()), before);
    assert!(matches!(store.read(&path("/memories/b")).await.unwrap(), Node::File(_)));
    assert!(matches!(reader.read(&path("/memories/b")).await.unwrap(), Node::File(_)));
}

#[tokio::test]
async fn a_read_only_store_reports_an_invalid_journal() {
    let directory = TempDir::new().unwrap();
    LocalStore::open(directory.path()).await.unwrap().apply(write("/memories/a")).await.unwrap();
    fs::write(directory.path().join(".memory-tool/journal"), r#"{"format":1,"steps":"none"}"#).unwrap();
    let reader = open(directory.path(), OpenMode::ReadOnly).await.unwrap();
    let damaged = reader.list(&StorePath::memories()).await;
    assert!(matches!(damaged, Err(StoreError::Failure { kind: ErrorKind::Damaged, .. })), "{damaged:?}");
}
