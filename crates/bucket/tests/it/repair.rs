//! Repairing a damaged log.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{PREFIX, TestBucket, commit, path, read, write};
use futures::TryStreamExt;
use memory_tool_bucket::{BucketStore, OpenFailure, RepairReport};
use memory_tool_core::{Batch, Store, StoreError, StoreExt, StorePath};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

/// A store with a file for each commit from 2 on.
async fn filled(files: u64) -> (Arc<TestBucket>, BucketStore) {
    let (bucket, store) = TestBucket::opened().await;
    for number in 2..2 + files {
        write(&store, &format!("/memories/{number}"), &format!("text of {number}")).await.unwrap();
    }
    (bucket, store)
}

async fn repair(bucket: &TestBucket) -> RepairReport {
    BucketStore::builder(bucket.objects.clone(), PREFIX.into()).repair().await.unwrap()
}

async fn names(store: &BucketStore) -> Vec<String> {
    let listed = store.list(&StorePath::memories()).await.unwrap();
    listed.into_iter().map(|entry| entry.path.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_intact_store_is_left_alone() {
    let (bucket, _) = filled(3).await;
    let before: Vec<_> = bucket.objects.list(None).try_collect().await.unwrap();
    let report = repair(&bucket).await;
    assert_eq!((report.is_changed, report.files, report.lost), (false, 3, Vec::new()));
    let after: Vec<_> = bucket.objects.list(None).try_collect().await.unwrap();
    assert_eq!(before, after);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_not_repaired() {
    let bucket = TestBucket::new();
    let error = BucketStore::builder(bucket.clone(), PREFIX.into()).repair().await.unwrap_err();
    assert!(matches!(crate::support::open_failure(&error), OpenFailure::NotFound), "{error:?}");
    assert_eq!(bucket.objects.list(None).try_collect::<Vec<_>>().await.unwrap(), Vec::new());
}

/// An open session finds the repaired store with any earlier state, and can continue.
#[tokio::test(start_paused = true)]
async fn a_lost_commit_costs_what_only_it_held() {
    for garbage in [false, true] {
        let (bucket, store) = filled(6).await;
        let behind = bucket.other().await;
        write(&store, "/memories/8", "text of 8").await.unwrap();
        bucket.objects.delete(&commit(5)).await.unwrap();
        if garbage {
            bucket.objects.put(&commit(5), "garbage".into()).await.unwrap();
        }
        BucketStore::open(bucket.objects.clone(), PREFIX.into()).await.unwrap_err();
        let report = repair(&bucket).await;
        assert!(report.is_changed);
        assert_eq!(report.files, 6);
        assert!(report.lost.iter().any(|lost| lost.message.contains('5')), "{report:?}");
        for store in [bucket.other().await, store, behind] {
            assert_eq!(read(&store, "/memories/5").await, None);
            assert_eq!(read(&store, "/memories/8").await.unwrap(), "text of 8");
            let new = format!("/memories/new-{}", names(&store).await.len());
            write(&store, &new, "new").await.unwrap();
        }
        assert_eq!(names(&bucket.other().await).await.len(), 9);
        assert!(!repair(&bucket).await.is_changed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_run_is_replaced_by_the_commits_it_was_made_of() {
    let (bucket, store) = filled(300).await;
    store.apply(Batch::new().remove(path("/memories/7"))).await.unwrap();
    let runs = Path::from(format!("{PREFIX}/contents/runs"));
    let runs: Vec<_> = wait_for(&bucket, &runs).await;
    for run in runs {
        bucket.objects.delete(&run).await.unwrap();
    }
    let problems = bucket.other().await.verify(|_| {}).await.unwrap().problems;
    assert!(problems.iter().any(|problem| problem.message.contains("runs/")), "{problems:?}");
    let report = repair(&bucket).await;
    assert_eq!(report.files, 299, "{report:?}");
    let other = bucket.other().await;
    assert_eq!(read(&other, "/memories/7").await, None);
    assert_eq!(read(&other, "/memories/301").await.unwrap(), "text of 301");
    assert_eq!(names(&store).await.len(), 299);
}

/// The objects under a prefix, once there are some: a checkpoint is written in the background.
async fn wait_for(bucket: &TestBucket, prefix: &Path) -> Vec<Path> {
    for _ in 0..1_000 {
        let listed: Vec<_> = bucket.objects.list(Some(prefix)).try_collect().await.unwrap();
        let pointers = Path::from(format!("{PREFIX}/checkpoints"));
        let pointers: Vec<_> = bucket.objects.list(Some(&pointers)).try_collect().await.unwrap();
        if !pointers.is_empty() {
            return listed.into_iter().map(|object| object.location).collect();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("no checkpoint was written");
}

/// The log is missing while a session is open. The session finds the checkpoint, not its old state.
#[tokio::test(start_paused = true)]
async fn a_log_that_is_gone_after_its_checkpoint() {
    let (bucket, store) = filled(3).await;
    store.gc(Duration::ZERO).await.unwrap();
    let log = Path::from(format!("{PREFIX}/log"));
    let objects: Vec<_> = bucket.objects.list(Some(&log)).try_collect().await.unwrap();
    for object in objects {
        bucket.objects.delete(&object.location).await.unwrap();
    }
    let report = repair(&bucket).await;
    println!("{report:?}");
    let other = bucket.other().await;
    assert_eq!(names(&other).await.len(), 3);
    assert_eq!(names(&store).await.len(), 3);
    write(&store, "/memories/after", "text").await.unwrap();
    assert_eq!(read(&other, "/memories/after").await.unwrap(), "text");
}

#[tokio::test(start_paused = true)]
async fn missing_contents_are_reported_and_the_rest_is_kept() {
    let (bucket, store) = filled(2).await;
    write(&store, "/memories/large", &"x".repeat(20_000)).await.unwrap();
    let contents = Path::from(format!("{PREFIX}/contents"));
    for object in bucket.objects.list(Some(&contents)).try_collect::<Vec<_>>().await.unwrap() {
        bucket.objects.delete(&object.location).await.unwrap();
    }
    bucket.objects.delete(&commit(2)).await.unwrap();
    let report = repair(&bucket).await;
    assert!(report.lost.iter().any(|lost| lost.path == Some(path("/memories/large"))), "{report:?}");
    let other = bucket.other().await;
    assert_eq!(read(&other, "/memories/3").await.unwrap(), "text of 3");
    let failure = other.read(&path("/memories/large")).await.unwrap_err();
    assert!(matches!(failure, StoreError::Failure { .. }), "{failure:?}");
}
