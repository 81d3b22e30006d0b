//! The largest commits and files, and objects that are larger than allowed.

use std::time::Duration;

use crate::support::{PREFIX, TestBucket, failure, log, messages, open_failure, path, read, record, write};
use memory_tool_bucket::{BucketStore, OpenFailure};
use memory_tool_core::{Batch, ErrorKind, Node, OpenOptions, ReadOptions, Store, StoreError, StoreExt, StorePath};
use memory_tool_test_fixtures::by_tier;

/// The largest object that is read, in bytes.
const LIMIT: u64 = 16 * 1024 * 1024;
const STEPS: usize = 50_000;

/// A batch of this many empty files with paths of 826 bytes.
fn batch(directory: &str, files: usize) -> Batch {
    let long = vec!["x".repeat(200); 4].join("/");
    (0..files).fold(Batch::new(), |batch, number| {
        batch.write(path(&format!("/memories/{directory}/{number:06}/{long}")), Vec::new())
    })
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_larger_than_a_commit_is_refused_as_full() {
    let (bucket, store) = TestBucket::opened().await;
    write(&store, "/memories/a", "text").await.unwrap();
    let before = bucket.snapshot().await;
    let (kind, message) = failure(store.apply(batch("large", 20_000)).await);
    assert_eq!(kind, ErrorKind::Full, "{message}");
    assert!(message.contains("the limit is 16777216"), "{message}");
    assert_eq!(bucket.snapshot().await, before);
    assert_eq!(store.list(&StorePath::memories()).await.unwrap().len(), 1);
    store.apply(batch("fits", 1_000)).await.unwrap();
    assert_eq!(bucket.other().await.list(&StorePath::memories()).await.unwrap().len(), 1_001);
}

/// Each step takes more memory than its bytes in the commit.
#[tokio::test(start_paused = true)]
async fn a_batch_with_too_many_changes_is_refused_as_full_before_anything_is_put() {
    let (bucket, store) = TestBucket::opened().await;
    let before = bucket.snapshot().await;
    let changes = |directory: &str, count: usize| {
        let write = |batch: Batch, number: usize| batch.write(path(&format!("/memories/{directory}/{number}")), "");
        (1..count).fold(Batch::new().write(path("/memories/large"), "x".repeat(20_000)), write)
    };
    let (kind, message) = failure(store.apply(changes("a", STEPS + 1)).await);
    assert_eq!((kind, &*message), (ErrorKind::Full, "the batch has 50001 changes, and the limit is 50000"));
    assert_eq!(bucket.snapshot().await, before);
    let (one, two) = tokio::join!(store.apply(changes("a", STEPS)), store.apply(changes("b", by_tier(1, STEPS))));
    one.unwrap();
    two.unwrap();
    assert_eq!(read(&bucket.other().await, "/memories/large").await.unwrap().len(), 20_000);
}

/// The batches wait together, and each fits into a separate commit.
#[tokio::test(start_paused = true)]
async fn batches_that_are_too_large_for_one_commit_get_several() {
    const FILES: usize = 10_000;
    let bucket = TestBucket::new();
    let store = bucket.open_with_deadline(Duration::from_secs(600)).await;
    let batches = ["a", "b"].map(|directory| store.apply(batch(directory, FILES)));
    for outcome in futures::future::join_all(batches).await {
        outcome.unwrap();
    }
    assert_eq!(bucket.other().await.list(&StorePath::memories()).await.unwrap().len(), 2 * FILES);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_too_large_is_not_read() {
    let (bucket, store) = TestBucket::opened().await;
    write(&store, "/memories/at-the-limit", &"x".repeat(20_000)).await.unwrap();
    write(&store, "/memories/above", &"x".repeat(20_001)).await.unwrap();
    let limited =
        BucketStore::builder(bucket.clone(), PREFIX.into()).options(OpenOptions::new().max_file_bytes(20_000));
    let limited = limited.open().await.unwrap();
    assert_eq!(read(&limited, "/memories/at-the-limit").await.unwrap().len(), 20_000);
    bucket.take_requests();
    let refused = limited.read(&path("/memories/above")).await.unwrap_err();
    let reason =
        "The file is too large to read: it has 20001 bytes and the limit is 20000. You can delete or rename it.";
    assert!(matches!(&refused, StoreError::Refused { reason: given, .. } if given == reason), "{refused:?}");
    assert!(bucket.take_requests().iter().all(|request| request.starts_with("GET memory/log/")));
    let refused = write(&limited, "/memories/new", &"x".repeat(20_001)).await.unwrap_err();
    assert!(matches!(refused, StoreError::Refused { .. }), "{refused:?}");
    assert_eq!(bucket.take_requests(), Vec::<String>::new());
    limited.apply(Batch::new().rename(path("/memories/above"), path("/memories/moved"))).await.unwrap();
    limited.apply(Batch::new().remove(path("/memories/moved"))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_too_large_is_neither_read_nor_written() {
    let (bucket, store) = TestBucket::opened().await;
    let (name, write_of) = (record("test/large"), |size| Batch::new().write(record("test/large"), vec![b'x'; size]));
    store.apply(write_of(20_001)).await.unwrap();
    let limited =
        BucketStore::builder(bucket.clone(), PREFIX.into()).options(OpenOptions::new().max_file_bytes(20_000));
    let limited = limited.open().await.unwrap();
    for error in [
        limited.read_opts(&name, ReadOptions::new()).await.map(Node::into_file).map(drop),
        limited.apply(write_of(20_001)).await,
    ] {
        assert!(matches!(error, Err(StoreError::Failure { kind: ErrorKind::Full, .. })), "{error:?}");
    }
    limited.apply(write_of(20_000)).await.unwrap();
    assert_eq!(limited.read_opts(&name, ReadOptions::new()).await.unwrap().into_file().unwrap().content.len(), 20_000);
}

/// At an opening, at a read, and at a write.
#[tokio::test(start_paused = true)]
async fn a_commit_that_is_too_large_is_not_read() {
    let (bucket, store) = TestBucket::opened().await;
    bucket.put_object(&log(2), vec![b' '; LIMIT as usize + 1]).await;
    let error = BucketStore::open(bucket.clone(), PREFIX.into()).await.unwrap_err();
    let OpenFailure::Failed { kind: ErrorKind::Damaged, source } = open_failure(&error) else { panic!("{error:?}") };
    assert_eq!(source.to_string(), format!("memory/{} is larger than 16777216 bytes", log(2)));
    let (kind, message) = failure(store.read(&path("/memories/a")).await);
    assert_eq!((kind, message), (ErrorKind::Damaged, source.to_string()));
    let error = write(&store, "/memories/a", "text").await.unwrap_err();
    assert!(messages(&error).contains(&log(2)), "{error:?}");
}

/// A server may announce a short body and send a longer one.
#[tokio::test(start_paused = true)]
async fn a_body_that_is_longer_than_announced_is_not_kept() {
    let (bucket, store) = TestBucket::opened().await;
    write(&store, "/memories/large", &"x".repeat(20_000)).await.unwrap();
    bucket.send_without_end();
    let error = BucketStore::open(bucket.clone(), PREFIX.into()).await.unwrap_err();
    assert!(matches!(open_failure(&error), OpenFailure::Failed { kind: ErrorKind::Damaged, .. }), "{error:?}");
    assert!(bucket.sent() <= 3 * LIMIT, "{}", bucket.sent());
    let before = bucket.sent();
    let (kind, message) = failure(store.read(&path("/memories/large")).await);
    assert_eq!(kind, ErrorKind::Damaged, "{message}");
    assert!(bucket.sent() - before <= LIMIT, "{}", bucket.sent());
}
