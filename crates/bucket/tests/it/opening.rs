//! What is refused at once, and what is said of it.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{PREFIX, TestBucket, open_failure, path, read, record, write};
use futures::TryStreamExt;
use memory_tool_bucket::{BucketStore, OpenFailure};
use memory_tool_core::{
    Batch, BoxError, ErrorKind, FailureKind, OpenError, OpenMode, OpenOptions, Store, StoreError, StoreExt,
};
use object_store::{ObjectStore, ObjectStoreExt};

/// The index of version 1 of the format, as it will be read for ever.
const INDEX: &str = include_str!("../index-version-1.json");

async fn failure(bucket: &Arc<TestBucket>) -> OpenError {
    BucketStore::open(bucket.clone(), PREFIX.into()).await.unwrap_err()
}

fn expect_damage(error: &OpenError, what: &str) {
    assert_eq!(error.kind(), ErrorKind::Storage(FailureKind::Damaged), "{what}");
    assert!(matches!(open_failure(error), OpenFailure::Failed { kind: FailureKind::Damaged, .. }), "{what}");
}

async fn put(bucket: &TestBucket, key: &str, content: &str) {
    bucket.objects.put(&format!("{PREFIX}/{key}").into(), content.to_owned().into()).await.unwrap();
}

#[tokio::test]
async fn a_bucket_that_ignores_conditions() {
    let bucket = TestBucket::new();
    bucket.ignore_conditions();
    let error = failure(&bucket).await;
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(error.to_string(), "cannot open the memory store under \"memory\" in the bucket");
    assert!(matches!(open_failure(&error), OpenFailure::IgnoresConditions { .. }));
}

#[tokio::test]
async fn the_test_of_the_bucket_leaves_nothing() {
    let bucket = TestBucket::new();
    bucket.open().await;
    assert!(bucket.objects.list(None).try_collect::<Vec<_>>().await.unwrap().is_empty());
}

#[tokio::test]
async fn an_index_that_is_none() {
    for index in ["", "no JSON", "{}", "{\"format\":\"something else\",\"version\":1}", &INDEX[..INDEX.len() / 2]] {
        let bucket = TestBucket::new();
        put(&bucket, "index.json", index).await;
        expect_damage(&failure(&bucket).await, index);
    }
}

#[tokio::test]
async fn an_index_that_contradicts_itself() {
    for (from, to) in [
        ("\"/memories/notes.md\"", "\"/memories/projects/a.md/b\""),
        ("\"/memories/notes.md\"", "\"/elsewhere/notes.md\""),
        ("\"revision\":5,\"coll", "\"revision\":6,\"coll"),
        ("\"collections\":1", "\"collections\":1,\"unknown\":1"),
        ("\"collections\":1", "\"collections\":18446744073709551615"),
        ("\"revision\":5", "\"revision\":18446744073709551615"),
        ("0000000000000000000000000000000b-0", "00000000000000000000000000000001-0"),
        (
            "\"files\":{",
            "\"records\":{\"../a\":{\"version\":\"r\",\"revision\":1,\"size\":0,\"content\":{\"text\":\"\"}}},\"files\":{",
        ),
        (
            "\"files\":{",
            "\"records\":{\"a\":{\"version\":\"0000000000000000000000000000000b-0\",\"revision\":1,\"size\":0,\"content\":{\"text\":\"\"}}},\"files\":{",
        ),
    ] {
        let bucket = TestBucket::new();
        let index: String = INDEX.split_whitespace().collect();
        assert!(index.contains(from), "{from}");
        put(&bucket, "index.json", &index.replace(from, to)).await;
        expect_damage(&failure(&bucket).await, to);
    }
}

#[tokio::test]
async fn an_index_of_a_newer_version() {
    let bucket = TestBucket::new();
    put(&bucket, "index.json", r#"{"format":"memory-tool index","version":2,"whatever":[]}"#).await;
    let error = failure(&bucket).await;
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(matches!(open_failure(&error), OpenFailure::NewerVersion { found: 2, known: 1 }));
}

async fn with_index_of_version_1() -> (Arc<TestBucket>, BucketStore) {
    let bucket = TestBucket::new();
    put(&bucket, "index.json", INDEX).await;
    put(&bucket, "contents/packs/0000000000000000000000000000000a", "--packed--").await;
    (bucket.clone(), bucket.open().await)
}

#[tokio::test]
async fn an_index_of_version_1() {
    let (_, store) = with_index_of_version_1().await;
    assert_eq!(read(&store, "/memories/notes.md").await.unwrap(), "Hello,\n\"world\"\n");
    assert_eq!(read(&store, "/memories/projects/a.md").await.unwrap(), "packed");
    write(&store, "/memories/new", "new").await.unwrap();
    assert_eq!(store.list(&path("/memories")).await.unwrap().len(), 4);
}

fn kind(outcome: Result<memory_tool_core::Node, StoreError>) -> (FailureKind, BoxError) {
    match outcome {
        Err(StoreError::Failure { kind, source, .. }) => (kind, source),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn contents_that_are_gone_or_not_what_was_put() {
    let (bucket, store) = with_index_of_version_1().await;
    let pack = "contents/packs/0000000000000000000000000000000a";
    put(&bucket, pack, "--broken--").await;
    let (kind_found, source) = kind(store.read(&path("/memories/projects/a.md")).await);
    assert_eq!(kind_found, FailureKind::Damaged);
    assert!(source.to_string().contains("does not hold"), "{source}");
    bucket.objects.delete(&format!("{PREFIX}/{pack}").into()).await.unwrap();
    let (kind_found, source) = kind(store.read(&path("/memories/projects/a.md")).await);
    assert_eq!(kind_found, FailureKind::Damaged);
    assert!(source.to_string().contains("gone"), "{source}");
    assert!(source.source().is_none());
}

/// Contents that are altered, of a file in a pack and of a record in an object of its own.
#[tokio::test]
async fn verifying_reads_files_and_records() {
    let (bucket, store) = with_index_of_version_1().await;
    store.apply(Batch::new().write_record(record("test/large"), "r".repeat(20_000))).await.unwrap();
    let mut steps = Vec::new();
    let report = store.verify(|progress| steps.push((progress.files, progress.of))).await.unwrap();
    assert_eq!((report.files, report.problems, steps), (3, Vec::new(), vec![(1, 3), (2, 3), (3, 3)]));

    for object in bucket.objects.list(None).try_collect::<Vec<_>>().await.unwrap() {
        if object.location.as_ref().contains("contents/") {
            bucket.objects.put(&object.location, "--broken--".into()).await.unwrap();
        }
    }
    let report = store.verify(|_| {}).await.unwrap();
    let [file, of_record] = &report.problems[..] else { panic!("{report:?}") };
    assert_eq!(file.path, Some(path("/memories/projects/a.md")));
    assert!(file.message.starts_with("/memories/projects/a.md cannot be read: reading failed: "), "{file}");
    assert!(of_record.message.starts_with("the record test/large cannot be read: "), "{of_record}");
    assert_eq!((report.files, of_record.path.as_ref()), (2, None));
}

#[tokio::test]
async fn a_debug_text_shows_no_client() {
    let bucket = TestBucket::new();
    let text = format!("{:?} {:?}", bucket.open().await, BucketStore::builder(bucket.clone(), PREFIX.into()));
    assert!(!text.contains("TestBucket"), "{text}");
}

#[tokio::test]
async fn a_store_in_use_follows_an_index_that_is_put_back() {
    let bucket = TestBucket::new();
    let store = bucket.open().await;
    write(&store, "/memories/a", "old").await.unwrap();
    let backup = bucket.objects.get(&format!("{PREFIX}/index.json").into()).await.unwrap().bytes().await.unwrap();
    write(&store, "/memories/a", "new").await.unwrap();
    bucket.objects.put(&format!("{PREFIX}/index.json").into(), backup.into()).await.unwrap();
    assert_eq!(read(&store, "/memories/a").await.unwrap(), "old");
    write(&store, "/memories/b", "text").await.unwrap();
    assert_eq!(read(&bucket.open().await, "/memories/b").await.unwrap(), "text");
}

async fn open_in(bucket: &Arc<TestBucket>, mode: OpenMode) -> Result<BucketStore, OpenError> {
    BucketStore::builder(bucket.clone(), PREFIX.into()).options(OpenOptions::new().mode(mode)).open().await
}

#[tokio::test]
async fn a_store_that_does_not_exist_is_not_found_and_nothing_is_put() {
    for mode in [OpenMode::Existing, OpenMode::ReadOnly] {
        let bucket = TestBucket::new();
        put(&bucket, "contents/of-another-time", "text").await;
        bucket.take_requests();
        let error = open_in(&bucket, mode).await.unwrap_err();
        assert!(error.is_not_found(), "{error:?}");
        assert!(bucket.take_requests().iter().all(|request| request.starts_with("GET")));
    }
    let error = open_in(&TestBucket::new(), OpenMode::Create).await;
    assert!(error.is_ok());
}

#[tokio::test]
async fn a_store_that_exists_is_opened_and_can_be_changed() {
    let (bucket, _) = with_index_of_version_1().await;
    let store = open_in(&bucket, OpenMode::Existing).await.unwrap();
    write(&store, "/memories/new", "new").await.unwrap();
    bucket.ignore_conditions();
    let refused = open_in(&bucket, OpenMode::Existing).await.unwrap_err();
    assert!(!refused.is_not_found());
    assert!(matches!(open_failure(&refused), OpenFailure::IgnoresConditions { .. }), "{refused:?}");
}

#[tokio::test]
async fn a_read_only_store_puts_and_removes_nothing() {
    let (bucket, _) = with_index_of_version_1().await;
    bucket.ignore_conditions(); // it need not keep them
    bucket.take_requests();
    let store = open_in(&bucket, OpenMode::ReadOnly).await.unwrap();
    assert_eq!(read(&store, "/memories/projects/a.md").await.unwrap(), "packed");
    store.apply(Batch::new()).await.unwrap();
    let denied = |error: StoreError| matches!(error, StoreError::Failure { kind: FailureKind::AccessDenied, .. });
    assert!(denied(write(&store, "/memories/new", &"n".repeat(20_000)).await.unwrap_err()));
    assert!(denied(store.apply(Batch::new().remove(path("/memories/notes.md"))).await.unwrap_err()));
    assert!(denied(store.gc(Duration::ZERO).await.unwrap_err()));
    assert!(bucket.take_requests().iter().all(|request| request.starts_with("GET")));
}
