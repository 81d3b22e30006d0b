//! An index and files as large as may be, and objects that are larger.

use crate::support::{PREFIX, TestBucket, open_failure, path, read, record, write};
use memory_tool_bucket::{BucketStore, MAX_INDEX_BYTES, OpenFailure};
use memory_tool_core::{Batch, FailureKind, MemoryPath, OpenOptions, Store, StoreError, StoreExt};
use object_store::ObjectStoreExt;

/// Two times as many fill the index.
const FILES: usize = 8_800;

/// Files with paths so long that few of them fill an index.
async fn fill(store: &BucketStore, directory: &str, files: usize) -> Result<(), StoreError> {
    let long = vec!["x".repeat(200); 4].join("/");
    let batch = (0..files).fold(Batch::new(), |batch, number| {
        batch.write(path(&format!("/memories/{directory}/{number:06}/{long}")), Vec::new())
    });
    store.apply(batch).await
}

#[tokio::test]
async fn a_write_that_the_index_has_no_room_for_is_refused_as_full() {
    let bucket = TestBucket::new();
    let store = bucket.open().await;
    fill(&store, "first", FILES).await.unwrap();
    fill(&store, "second", FILES).await.unwrap();
    let index = bucket.objects.head(&format!("{PREFIX}/index.json").into()).await.unwrap();
    assert!((MAX_INDEX_BYTES as u64 / 10 * 9..MAX_INDEX_BYTES as u64).contains(&index.size), "{}", index.size);

    let refused = fill(&store, "third", FILES).await.unwrap_err();
    assert!(matches!(refused, StoreError::Failure { kind: FailureKind::Full, .. }), "{refused:?}");
    assert_eq!(store.list(&MemoryPath::root()).await.unwrap().len(), 2 * FILES);

    store.apply(Batch::new().remove(path("/memories/first"))).await.unwrap();
    fill(&store, "third", FILES).await.unwrap();
    write(&store, "/memories/a", "text").await.unwrap();
    let other = bucket.other().await;
    assert_eq!(read(&other, "/memories/a").await.unwrap(), "text");
    assert_eq!(other.list(&MemoryPath::root()).await.unwrap().len(), 2 * FILES + 1);
}

#[tokio::test]
async fn a_file_that_is_too_large_is_not_read() {
    let bucket = TestBucket::new();
    let store = bucket.open().await;
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
    assert!(bucket.take_requests().iter().all(|request| request.ends_with("index.json")));
    let refused = write(&limited, "/memories/new", &"x".repeat(20_001)).await.unwrap_err();
    assert!(matches!(refused, StoreError::Refused { .. }), "{refused:?}");
    assert_eq!(bucket.take_requests(), Vec::<String>::new());
    limited.apply(Batch::new().rename(path("/memories/above"), path("/memories/moved"))).await.unwrap();
    limited.apply(Batch::new().remove(path("/memories/moved"))).await.unwrap();
}

#[tokio::test]
async fn a_record_that_is_too_large_is_neither_read_nor_written() {
    let bucket = TestBucket::new();
    let store = bucket.open().await;
    let (name, write_of) =
        (record("test/large"), |size| Batch::new().write_record(record("test/large"), vec![b'x'; size]));
    store.apply(write_of(20_001)).await.unwrap();
    let limited =
        BucketStore::builder(bucket.clone(), PREFIX.into()).options(OpenOptions::new().max_file_bytes(20_000));
    let limited = limited.open().await.unwrap();
    for error in [limited.read_record(&name).await.map(drop), limited.apply(write_of(20_001)).await] {
        assert!(matches!(error, Err(StoreError::Failure { kind: FailureKind::Full, .. })), "{error:?}");
    }
    limited.apply(write_of(20_000)).await.unwrap();
    assert_eq!(limited.read_record(&name).await.unwrap().unwrap().content.len(), 20_000);
}

#[tokio::test]
async fn an_index_that_is_too_large_is_not_read() {
    let bucket = TestBucket::new();
    let index = vec![b' '; MAX_INDEX_BYTES + 1];
    bucket.objects.put(&format!("{PREFIX}/index.json").into(), index.into()).await.unwrap();
    let error = BucketStore::open(bucket, PREFIX.into()).await.unwrap_err();
    let OpenFailure::Failed { kind: FailureKind::Damaged, source } = open_failure(&error) else { panic!("{error:?}") };
    assert!(source.to_string().contains("16777216"), "{source}");
}

/// A server may say that an answer is short, and send more.
#[tokio::test]
async fn an_answer_that_is_longer_than_it_says_is_not_kept() {
    let bucket = TestBucket::new();
    let store = bucket.open().await;
    write(&store, "/memories/large", &"x".repeat(20_000)).await.unwrap();
    bucket.send_without_end();
    let error = BucketStore::open(bucket.clone(), PREFIX.into()).await.unwrap_err();
    assert!(matches!(open_failure(&error), OpenFailure::Failed { kind: FailureKind::Damaged, .. }), "{error:?}");
    assert!(bucket.sent() <= 2 * MAX_INDEX_BYTES as u64, "{}", bucket.sent());
    let before = bucket.sent();
    let failure = store.read(&path("/memories/large")).await.unwrap_err();
    assert!(matches!(failure, StoreError::Failure { kind: FailureKind::Damaged, .. }), "{failure:?}");
    assert!(bucket.sent() - before <= 2 * MAX_INDEX_BYTES as u64, "{}", bucket.sent());
}
