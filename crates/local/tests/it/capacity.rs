//! `[X4]`: the cached usage of a directory is correct.

use std::fs;

use crate::support::{leave_unfinished, write};
use memory_tool_core::{Batch, Quota, Store, StoreError, StoreExt, StorePath};
use memory_tool_local::LocalStore;
use memory_tool_test_fixtures::path;

/// Applies the batch with a quota of two files. Returns whether it was applied.
async fn fits(store: &LocalStore, batch: Batch) -> bool {
    let two = Quota::new().with_files(2);
    match store.apply(batch.limit(StorePath::memories(), two)).await {
        Ok(()) => true,
        Err(StoreError::OverQuota { limit: 2, requested: 3, remaining: 0, .. }) => false,
        Err(error) => unreachable!("{error:?}"),
    }
}

#[tokio::test]
async fn the_usage_includes_changes_of_other_stores() {
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
async fn files_removed_by_other_programs_do_not_count() {
    let directory = tempfile::tempdir().unwrap();
    let store = LocalStore::open(directory.path()).await.unwrap();
    assert!(fits(&store, write("/memories/a")).await && fits(&store, write("/memories/b")).await);
    fs::remove_file(directory.path().join("memories/a")).unwrap();
    assert!(fits(&store, write("/memories/c")).await);
}

#[tokio::test]
async fn a_rename_updates_the_depth() {
    let directory = tempfile::tempdir().unwrap();
    let store = LocalStore::open(directory.path()).await.unwrap();
    let counted = |batch: Batch| batch.limit(path("/memories/a"), Quota::new().with_files(9));
    let rename = |from, to| Batch::new().rename(path(from), path(to));
    store.apply(counted(write("/memories/a/x/f"))).await.unwrap();
    store.apply(rename("/memories/a/x", "/memories/a/p/q/x")).await.unwrap();
    let to_depth = |depth| {
        let rename = counted(rename("/memories/a", "/memories/b/a"));
        rename.limit(StorePath::memories(), Quota::new().with_depth(depth))
    };
    let refused = store.apply(to_depth(5)).await;
    assert!(matches!(refused, Err(StoreError::OverQuota { limit: 5, requested: 6, .. })), "{refused:?}");
    store.apply(to_depth(6)).await.unwrap();
}

/// The change that it completes may be of another process.
#[tokio::test]
async fn a_read_that_recovers_the_store_does_not_keep_an_outdated_count() {
    let directory = tempfile::tempdir().unwrap();
    let store = LocalStore::open(directory.path()).await.unwrap();
    assert!(fits(&store, write("/memories/a")).await);
    let other = LocalStore::open(directory.path()).await.unwrap();
    other.apply(write("/memories/b")).await.unwrap();
    leave_unfinished(directory.path());
    store.list("/memories").await.unwrap();
    assert!(!fits(&store, write("/memories/c")).await);
}
