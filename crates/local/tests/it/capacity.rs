//! `[X4]`: what lies beneath a directory is not counted anew for each batch, and the count is right all the same.

use std::fs;
use std::time::Duration;

use memory_tool_core::{Batch, MemoryPath, Quota, Store, StoreError};
use memory_tool_local::LocalStore;

fn path(text: &str) -> MemoryPath {
    text.parse().unwrap()
}

fn write(file: &str) -> Batch {
    Batch::new().write(path(file), "text")
}

/// The store after this batch has at most two files. Whether it was applied.
async fn fits(store: &LocalStore, batch: Batch) -> bool {
    let two = Quota::new().with_files(2);
    match store.apply(batch.limit(MemoryPath::root(), two)).await {
        Ok(()) => true,
        Err(StoreError::OverQuota { limit: 2, asked: 3, left: 0, .. }) => false,
        Err(error) => unreachable!("{error:?}"),
    }
}

#[tokio::test]
async fn every_change_of_this_store_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let store = LocalStore::open(directory.path()).await.unwrap();
    assert!(fits(&store, write("/memories/d/a")).await);
    assert!(fits(&store, write("/memories/b")).await);
    assert!(fits(&store, write("/memories/b")).await);
    assert!(!fits(&store, write("/memories/c")).await);
    store.apply(Batch::new().remove(path("/memories/d"))).await.unwrap();
    assert!(fits(&store, write("/memories/c/c")).await);
    store.apply(Batch::new().rename(path("/memories/c"), path("/memories/e"))).await.unwrap();
    assert!(!fits(&store, write("/memories/f")).await);
    store.apply(Batch::new().remove(MemoryPath::root())).await.unwrap();
    assert!(fits(&store, write("/memories/a").write(path("/memories/b"), Vec::new())).await);
    assert!(!fits(&store, write("/memories/c")).await);
}

#[tokio::test]
async fn what_another_session_writes_is_counted_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let store = LocalStore::open(directory.path()).await.unwrap();
    assert!(fits(&store, write("/memories/a")).await);
    let other = LocalStore::open(directory.path()).await.unwrap();
    other.apply(write("/memories/b")).await.unwrap();
    assert!(!fits(&store, write("/memories/c")).await);
    assert!(!fits(&other, write("/memories/c")).await);
    other.apply(Batch::new().remove(path("/memories/b"))).await.unwrap();
    assert!(fits(&store, write("/memories/c")).await);
    assert!(!fits(&other, write("/memories/d")).await);
}

#[tokio::test]
async fn a_batch_is_not_refused_for_what_a_person_has_removed() {
    let directory = tempfile::tempdir().unwrap();
    let store = LocalStore::open(directory.path()).await.unwrap();
    assert!(fits(&store, write("/memories/a")).await && fits(&store, write("/memories/b")).await);
    fs::remove_file(directory.path().join("memories/a")).unwrap();
    assert!(fits(&store, write("/memories/c")).await);
}

/// Where nothing is limited, no epoch is kept: it would cost each change something.
#[tokio::test]
async fn an_epoch_is_left_only_where_somebody_counts() {
    let directory = tempfile::tempdir().unwrap();
    let epoch = directory.path().join(".memory-tool/epoch");
    let store = LocalStore::open(directory.path()).await.unwrap();
    store.apply(write("/memories/a")).await.unwrap();
    assert!(!epoch.exists());
    assert!(fits(&store, write("/memories/b")).await);
    let first = fs::read(&epoch).unwrap();
    let other = LocalStore::open(directory.path()).await.unwrap();
    other.apply(write("/memories/a")).await.unwrap();
    assert_ne!(fs::read(&epoch).unwrap(), first);
}

/// It would be a write with each change that says nothing new.
#[tokio::test]
async fn an_epoch_is_not_left_anew_where_nobody_else_has_left_one() {
    let directory = tempfile::tempdir().unwrap();
    let epoch = directory.path().join(".memory-tool/epoch");
    let store = LocalStore::open(directory.path()).await.unwrap();
    assert!(fits(&store, write("/memories/a")).await);
    let left = epoch.metadata().unwrap().modified().unwrap() - Duration::from_secs(1);
    fs::File::options().write(true).open(&epoch).unwrap().set_modified(left).unwrap();
    assert!(fits(&store, write("/memories/b")).await);
    store.apply(write("/memories/a")).await.unwrap();
    assert_eq!(epoch.metadata().unwrap().modified().unwrap(), left);
    assert!(!fits(&store, write("/memories/c")).await);
}

/// Others would go on with what they counted before it.
#[tokio::test]
async fn a_change_that_can_leave_no_epoch_is_not_made() {
    let directory = tempfile::tempdir().unwrap();
    let epoch = directory.path().join(".memory-tool/epoch");
    let store = LocalStore::open(directory.path()).await.unwrap();
    assert!(fits(&store, write("/memories/a")).await);
    fs::remove_file(&epoch).unwrap();
    fs::create_dir(&epoch).unwrap();
    let refused = store.apply(write("/memories/b")).await;
    assert!(matches!(refused, Err(StoreError::Failure { .. })), "{refused:?}");
    fs::remove_dir(&epoch).unwrap();
    assert!(fits(&store, write("/memories/b")).await);
    assert!(!fits(&store, write("/memories/c")).await);
}

#[tokio::test]
async fn a_rename_that_leads_deeper_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let store = LocalStore::open(directory.path()).await.unwrap();
    let counted = |batch: Batch| batch.limit(path("/memories/a"), Quota::new().with_files(9));
    let rename = |from, to| Batch::new().rename(path(from), path(to));
    store.apply(counted(write("/memories/a/x/f"))).await.unwrap();
    store.apply(rename("/memories/a/x", "/memories/a/p/q/x")).await.unwrap();
    let to_depth = |depth| {
        let rename = counted(rename("/memories/a", "/memories/b/a"));
        rename.limit(MemoryPath::root(), Quota::new().with_depth(depth))
    };
    let refused = store.apply(to_depth(5)).await;
    assert!(matches!(refused, Err(StoreError::OverQuota { limit: 5, asked: 6, .. })), "{refused:?}");
    store.apply(to_depth(6)).await.unwrap();
}
