//! Opening a store: created objects, refusals, and reported damage.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{
    PREFIX, TestBucket, checkpoint, failure, log, messages, open_failure, path, read, record, remove, write,
};
use futures::TryStreamExt;
use memory_tool_bucket::{BucketStore, OpenFailure};
use memory_tool_core::{Batch, ErrorKind, OpenError, OpenMode, OpenOptions, Store, StoreError, StoreExt};
use object_store::{ObjectStore, ObjectStoreExt};

/// A commit of version 1 of the format, which every later version reads.
const COMMIT: &str = include_str!("../commit-version-1.json");
/// The first commit of its store.
const BIRTH: &str = concat!(
    r#"{"format":"memory-tool commit","version":1,"store":"00000000000000000000000000000001","number":1,"#,
    r#""id":"00000000000000000000000000000001","after":"0000000000000000000000000000000000000000000000000000000000000000","time":0,"batches":[]}"#
);
const PACK: &str = "contents/packs/0000000000000000000000000000000a";

async fn refusal(bucket: &Arc<TestBucket>) -> OpenError {
    BucketStore::open(bucket.clone(), PREFIX.into()).await.unwrap_err()
}

/// Each mode reports damage of this object, and nothing is changed.
async fn expect_damage(bucket: &Arc<TestBucket>, key: &str, what: &str) {
    let before = bucket.snapshot().await;
    for mode in [OpenMode::Create, OpenMode::Existing, OpenMode::ReadOnly] {
        let error = open_in(bucket, mode).await.expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Damaged, "{what}: {}", messages(&error));
        assert!(messages(&error).contains(key), "{what}: {}", messages(&error));
    }
    assert_eq!(bucket.snapshot().await, before, "{what}");
}

#[tokio::test(start_paused = true)]
async fn a_bucket_that_ignores_conditions() {
    let bucket = TestBucket::new();
    bucket.ignore_conditions();
    let error = refusal(&bucket).await;
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let message = error.to_string();
    assert!(message.starts_with("cannot open the memory store under \"memory\" in the bucket: "), "{message}");
    assert!(matches!(open_failure(&error), OpenFailure::IgnoresConditions { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_new_store_has_one_commit() {
    let bucket = TestBucket::new();
    let stores = futures::future::join_all((0..8).map(|_| bucket.open())).await;
    assert_eq!(bucket.snapshot().await.into_keys().collect::<Vec<_>>(), [log(1)]);
    write(&stores[0], "/memories/a", "text").await.unwrap();
    for store in &stores {
        assert_eq!(read(store, "/memories/a").await.unwrap(), "text");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_not_a_commit() {
    let half = &COMMIT[..COMMIT.len() / 2];
    let checkpoint = r#"{"format":"memory-tool checkpoint","version":1}"#;
    for number in [1, 2] {
        for object in ["", "no JSON", "{}", r#"{"format":"something else","version":1}"#, half, checkpoint] {
            let bucket = TestBucket::new();
            bucket.put_object(&log(1), BIRTH).await;
            bucket.put_object(&log(number), object.to_owned()).await;
            expect_damage(&bucket, &log(number), object).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_contradicts_itself_or_those_before_it() {
    let commit: String = COMMIT.split_whitespace().collect::<Vec<_>>().join(" ");
    for (from, to) in [
        (r#""/memories/image.bin""#, r#""/memories/projects/a.md/b""#),
        (r#""/memories/image.bin""#, r#""/elsewhere/notes.md""#),
        (r#""number": 2"#, r#""number": 3"#),
        (r#""number": 2"#, r#""number": 18446744073709551615"#),
        (r#""after": "55a430b9"#, r#""after": "00000000"#),
        (r#""store": "00000000000000000000000000000001""#, r#""store": "00000000000000000000000000000002""#),
        (r#""id": "0000000000000000000000000000000c""#, r#""id": "C""#),
        (r#""/records/test/record""#, r#""/records/../record""#),
        (r#""collection""#, r#""unknown""#),
        (r#""remove": { "path": "/memories/image.bin" }"#, r#""remove": { "path": "/memories/absent" }"#),
    ] {
        let bucket = TestBucket::new();
        assert!(commit.contains(from), "{from}");
        bucket.put_object(&log(1), BIRTH).await;
        bucket.put_object(&log(2), commit.replace(from, to)).await;
        expect_damage(&bucket, &log(2), to).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_of_a_newer_version() {
    let newer = |format: &str| format!(r#"{{"format":"memory-tool {format}","version":2,"other":[]}}"#);
    for (key, object) in
        [(log(1), newer("commit")), (log(2), newer("trimmed commit")), (checkpoint(1), newer("checkpoint"))]
    {
        let bucket = TestBucket::new();
        bucket.put_object(&log(1), BIRTH).await;
        bucket.put_object(&key, object).await;
        let before = bucket.snapshot().await;
        let error = refusal(&bucket).await;
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(matches!(open_failure(&error), OpenFailure::NewerVersion { found: 2, known: 1 }));
        assert_eq!(bucket.snapshot().await, before);
    }
}

async fn with_store_of_version_1() -> (Arc<TestBucket>, BucketStore) {
    let bucket = TestBucket::new();
    bucket.put_object(&log(1), BIRTH).await;
    bucket.put_object(&log(2), COMMIT).await;
    bucket.put_object(PACK, "--packed--").await;
    (bucket.clone(), bucket.open().await)
}

#[tokio::test(start_paused = true)]
async fn a_store_of_version_1() {
    let (_, store) = with_store_of_version_1().await;
    assert_eq!(read(&store, "/memories/notes/first.md").await.unwrap(), "Hello,\n\"world\"\n");
    assert_eq!(read(&store, "/memories/projects/a.md").await.unwrap(), "packed");
    write(&store, "/memories/new", "new").await.unwrap();
    assert_eq!(store.list(&path("/memories")).await.unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn contents_that_are_missing_or_altered() {
    let (bucket, store) = with_store_of_version_1().await;
    for altered in ["--broken--", "--pack", ""] {
        bucket.put_object(PACK, altered).await;
        let (kind, message) = failure(store.read(&path("/memories/projects/a.md")).await);
        assert_eq!(kind, ErrorKind::Damaged, "{altered:?}: {message}");
        assert!(message.contains("packs/0000000000000000000000000000000a does not hold"), "{message}");
    }
    bucket.remove_object(PACK).await;
    let (kind, message) = failure(store.read(&path("/memories/projects/a.md")).await);
    assert_eq!(kind, ErrorKind::Damaged);
    assert_eq!(message, "the object packs/0000000000000000000000000000000a with the contents is missing");
    // Other files and later writes are not affected.
    write(&store, "/memories/projects/a.md", "whole").await.unwrap();
    assert_eq!(read(&bucket.open().await, "/memories/projects/a.md").await.unwrap(), "whole");
}

/// The altered contents are of a file in a pack, and of a record in a separate object.
#[tokio::test(start_paused = true)]
async fn verifying_reads_files_and_records() {
    let (bucket, store) = with_store_of_version_1().await;
    store.apply(Batch::new().write(record("test/large"), "r".repeat(20_000))).await.unwrap();
    let mut steps = Vec::new();
    let report = store.verify(|progress| steps.push((progress.files, progress.of))).await.unwrap();
    assert_eq!((report.files, report.problems, steps), (2, Vec::new(), vec![(1, 2), (2, 2)]));

    for object in bucket.objects.list(None).try_collect::<Vec<_>>().await.unwrap() {
        if object.location.as_ref().contains("contents/") {
            bucket.objects.put(&object.location, "--broken--".into()).await.unwrap();
        }
    }
    let report = store.verify(|_| {}).await.unwrap();
    let [file, of_record] = &report.problems[..] else { panic!("{report:?}") };
    assert_eq!(file.path, Some(path("/memories/projects/a.md")));
    assert!(file.message.starts_with("/memories/projects/a.md cannot be read: reading failed: "), "{file}");
    assert!(of_record.message.starts_with("/records/test/large cannot be read: "), "{of_record}");
    assert_eq!((report.files, of_record.path.as_ref()), (1, Some(&record("test/large"))));
}

#[tokio::test(start_paused = true)]
async fn a_debug_text_shows_no_client() {
    let bucket = TestBucket::new();
    let text = format!("{:?} {:?}", bucket.open().await, BucketStore::builder(bucket.clone(), PREFIX.into()));
    assert!(!text.contains("TestBucket"), "{text}");
}

async fn open_in(bucket: &Arc<TestBucket>, mode: OpenMode) -> Result<BucketStore, OpenError> {
    BucketStore::builder(bucket.clone(), PREFIX.into()).options(OpenOptions::new().mode(mode)).open().await
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_exist_is_not_found_and_nothing_is_put() {
    for mode in [OpenMode::Existing, OpenMode::ReadOnly] {
        let bucket = TestBucket::new();
        // Neither an object of another program, nor a store with a longer prefix, is part of this store.
        bucket.objects.put(&format!("{PREFIX}/scopes/other/{}", log(1)).into(), BIRTH.into()).await.unwrap();
        bucket.objects.put(&format!("{PREFIX}-2/{}", log(1)).into(), BIRTH.into()).await.unwrap();
        let error = open_in(&bucket, mode).await.unwrap_err();
        assert!(error.is_not_found(), "{error:?}");
        assert!(bucket.take_requests().iter().all(|request| !request.starts_with("PUT")));
        assert!(open_in(&bucket, OpenMode::Create).await.is_ok());
    }
}

/// The log was removed, and other objects were kept.
#[tokio::test(start_paused = true)]
async fn other_objects_without_a_log() {
    for key in [log(2), checkpoint(1), "contents/files/notes.md".to_owned()] {
        let bucket = TestBucket::new();
        bucket.put_object(&key, COMMIT).await;
        let directory = key.split('/').next().unwrap();
        expect_damage(&bucket, directory, &key).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_exists_is_opened_and_can_be_changed() {
    let (bucket, _) = with_store_of_version_1().await;
    let store = open_in(&bucket, OpenMode::Existing).await.unwrap();
    write(&store, "/memories/new", "new").await.unwrap();
    bucket.ignore_conditions();
    let refused = open_in(&bucket, OpenMode::Existing).await.unwrap_err();
    assert!(!refused.is_not_found());
    assert!(matches!(open_failure(&refused), OpenFailure::IgnoresConditions { .. }), "{refused:?}");
}

/// The test of the bucket creates an object, and these credentials deny that.
#[tokio::test(start_paused = true)]
async fn credentials_that_may_only_read_open_a_store_in_read_only_mode() {
    let (bucket, _) = with_store_of_version_1().await;
    bucket.deny_puts(Some("log/"));
    for mode in [OpenMode::Create, OpenMode::Existing] {
        let error = open_in(&bucket, mode).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AccessDenied);
        assert!(matches!(open_failure(&error), OpenFailure::CannotWrite { .. }), "{error:?}");
        assert!(error.to_string().contains("or open the store in read-only mode: "), "{error}");
    }
    let store = open_in(&bucket, OpenMode::ReadOnly).await.unwrap();
    assert_eq!(read(&store, "/memories/projects/a.md").await.unwrap(), "packed");
    // Read-only mode does not help if there is no store.
    let empty = TestBucket::new();
    empty.deny_puts(Some("log/"));
    let error = refusal(&empty).await;
    assert!(matches!(open_failure(&error), OpenFailure::Failed { kind: ErrorKind::AccessDenied, .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_read_only_store_puts_and_removes_nothing() {
    let (bucket, _) = with_store_of_version_1().await;
    bucket.ignore_conditions(); // nothing depends on them
    bucket.take_requests();
    let store = open_in(&bucket, OpenMode::ReadOnly).await.unwrap();
    assert_eq!(read(&store, "/memories/projects/a.md").await.unwrap(), "packed");
    store.apply(Batch::new()).await.unwrap();
    let denied = |error: StoreError| matches!(error, StoreError::Failure { kind: ErrorKind::AccessDenied, .. });
    assert!(denied(write(&store, "/memories/new", &"n".repeat(20_000)).await.unwrap_err()));
    assert!(denied(remove(&store, "/memories/projects/a.md").await.unwrap_err()));
    assert!(denied(store.gc(Duration::ZERO).await.unwrap_err()));
    assert!(bucket.take_requests().iter().all(|request| request.starts_with("GET") || request.starts_with("LIST")));
}
