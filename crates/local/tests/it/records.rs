//! Records, their files, and read-only stores. Also the times in listings.

use std::fs;

use crate::support::leave_unfinished;
use memory_tool_core::{
    Batch, ErrorKind, OpenOptions, Precondition, ReadOptions, Store, StoreError, StoreExt, StorePath,
};
use memory_tool_local::LocalStore;
use memory_tool_test_fixtures::{path, record};
use tempfile::TempDir;

async fn content(store: &LocalStore, name: &StorePath) -> Option<Vec<u8>> {
    store.read_opts(name, ReadOptions::new()).await.unwrap().into_file().map(|record| record.content)
}

#[tokio::test]
async fn a_record_is_a_file_of_the_private_directory() {
    let directory = TempDir::new().unwrap();
    let store = LocalStore::open(directory.path()).await.unwrap();
    let names = ["a-b".to_owned(), "a/a".to_owned(), "a".repeat(255), format!("b{}", "/a".repeat(500))];
    let records = directory.path().join(".memory-tool/records");
    for name in &names {
        store.apply(Batch::new().write(record(name), name.as_str())).await.unwrap();
        assert_eq!(fs::read_to_string(records.join(name)).unwrap(), *name);
    }
    for name in &names {
        assert_eq!(content(&store, &record(name)).await.unwrap(), name.as_bytes());
        store.apply(Batch::new().remove(record(name))).await.unwrap();
        assert_eq!(content(&store, &record(name)).await, None);
    }
    assert_eq!(fs::read_dir(&records).unwrap().count(), 0);
    store.apply(Batch::new().write(record("a/b"), "").write(record("b"), "")).await.unwrap();
    store.apply(Batch::new().remove(StorePath::records())).await.unwrap();
    assert_eq!(fs::read_dir(&records).unwrap().count(), 0);
}

/// A batch without records must not create or look up their directory.
#[tokio::test]
async fn the_first_record_creates_the_directory() {
    let directory = TempDir::new().unwrap();
    let store = LocalStore::open(directory.path()).await.unwrap();
    store.write("/memories/a", "a").await.unwrap();
    assert_eq!(content(&store, &record("a")).await, None);
    let batch = Batch::new().require(record("a"), Precondition::Absent);
    store.apply(batch.write(path("/memories/b"), "b")).await.unwrap();
    assert!(!directory.path().join(".memory-tool/records").exists());
}

#[tokio::test]
async fn verify_reads_records_and_files_and_reports_a_journal() {
    let directory = TempDir::new().unwrap();
    let store = LocalStore::open(directory.path()).await.unwrap();
    let batch = Batch::new().write(path("/memories/a"), "text").write(record("a"), "record");
    store.apply(batch).await.unwrap();
    let report = store.verify(|_| {}).await.unwrap();
    assert_eq!((report.files, report.bytes, report.problems.len()), (1, 4, 0));

    let read_only = LocalStore::builder(directory.path()).options(OpenOptions::new().read_only()).open().await.unwrap();
    let journal = directory.path().join(".memory-tool/journal");
    fs::write(&journal, r#"{"format":1,"steps":[{"rename":{"from":"/memories/a","to":"/memories/b"}}]}"#).unwrap();
    leave_unfinished(directory.path());
    let pending = read_only.verify(|_| {}).await.unwrap();
    assert_eq!((pending.files, pending.problems.len()), (0, 1), "{pending:?}");
    assert!(pending.problems[0].message.contains("an interrupted change is pending"), "{pending:?}");
    assert_eq!(store.verify(|_| {}).await.unwrap().problems, [], "a writable store completes the batch");

    fs::write(&journal, "none").unwrap();
    leave_unfinished(directory.path());
    for store in [&store, &read_only] {
        let invalid = store.verify(|_| {}).await.unwrap();
        assert_eq!((invalid.files, invalid.problems.len()), (0, 1), "{invalid:?}");
        assert!(invalid.problems[0].message.contains("invalid journal"), "{invalid:?}");
    }
}

/// A lock held by another program is not damage.
#[tokio::test]
async fn verify_fails_as_busy_if_the_store_is_locked() {
    let directory = TempDir::new().unwrap();
    LocalStore::open(directory.path()).await.unwrap().write("/memories/a", "a").await.unwrap();
    let lock = fs::File::open(directory.path().join(".memory-tool/lock")).unwrap();
    lock.lock().unwrap();
    let options = OpenOptions::new().timeout(std::time::Duration::from_millis(50));
    let store = LocalStore::builder(directory.path()).options(options).open().await.unwrap();
    let busy = store.verify(|_| {}).await;
    assert!(matches!(busy, Err(StoreError::Failure { kind: ErrorKind::Busy, .. })), "{busy:?}");
}
