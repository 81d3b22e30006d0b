//! A bucket that stops responding: each operation ends at its deadline, and its error names the bucket.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{PREFIX, TestBucket, messages, path, record, write};
use futures::FutureExt;
use futures::future::BoxFuture;
use memory_tool_bucket::BucketStore;
use memory_tool_core::{Batch, BoxError, OpenMode, OpenOptions, ReadOptions, Store, StoreExt, StorePath};
use tokio::time::Instant;

const DEADLINE: Duration = Duration::from_secs(30);

type Outcome = Result<(), BoxError>;
type Operation = fn(BucketStore) -> BoxFuture<'static, Outcome>;

const OPERATIONS: [(&str, Operation); 7] = [
    ("read", |store| async move { Ok(store.read(&path("/memories/small")).await.map(drop)?) }.boxed()),
    ("read of an object", |store| async move { Ok(store.read(&path("/memories/large")).await.map(drop)?) }.boxed()),
    ("list", |store| async move { Ok(store.list(&StorePath::memories()).await.map(drop)?) }.boxed()),
    ("record", |store| {
        async move { Ok(store.read_opts(&record("test/large"), ReadOptions::new()).await.map(drop)?) }.boxed()
    }),
    ("write", |store| async move { Ok(write(&store, "/memories/new", "text").await?) }.boxed()),
    ("write of an object", |store| async move { Ok(write(&store, "/memories/new", &large()).await?) }.boxed()),
    ("check", |store| async move { Ok(store.apply(Batch::new()).await?) }.boxed()),
];

fn large() -> String {
    "x".repeat(20_000)
}

/// A store with contents in objects, on the same bucket as a session that is in this situation.
async fn session_in(situation: &str) -> (Arc<TestBucket>, BucketStore) {
    let bucket = TestBucket::new();
    let store = bucket.open_with_deadline(DEADLINE).await;
    write(&store, "/memories/small", "small").await.unwrap();
    write(&store, "/memories/large", &large()).await.unwrap();
    store.apply(Batch::new().write(record("test/large"), large())).await.unwrap();
    let other = bucket.other().await;
    match situation {
        "current" => {}
        "behind" => {
            for number in 0..20 {
                write(&other, "/memories/other", &number.to_string()).await.unwrap();
            }
        }
        "asleep" => tokio::time::advance(Duration::from_secs(61)).await,
        "trimmed" => {
            write(&other, "/memories/other", "text").await.unwrap();
            other.gc(Duration::ZERO).await.unwrap();
        }
        "overdue" => {
            bucket.deny_puts(Some("contents/runs"));
            for number in 0..128 {
                write(&store, "/memories/other", &number.to_string()).await.unwrap();
            }
            bucket.deny_puts(None);
        }
        other => panic!("{other}"),
    }
    (bucket, store)
}

/// The bucket hangs from each request of each operation on, in turn.
#[tokio::test(start_paused = true)]
async fn each_operation_ends_at_its_deadline() {
    for situation in ["current", "behind", "asleep", "trimmed", "overdue"] {
        // A checkpoint that is overdue delays writes only.
        let operations = OPERATIONS.into_iter().filter(|(name, _)| situation != "overdue" || name.starts_with("write"));
        for (name, operation) in operations {
            for requests in 0.. {
                let (bucket, store) = session_in(situation).await;
                bucket.hang_after(Some(requests));
                let started = Instant::now();
                let outcome = operation(store).await;
                let what = format!("{name}, {situation}, after {requests} requests: {outcome:?}");
                assert!(started.elapsed() <= DEADLINE, "{:?}: {what}", started.elapsed());
                match outcome {
                    Err(error) => {
                        let messages = messages(&*error);
                        assert!(messages.contains("TestBucket/memory did"), "{what}: {messages}");
                    }
                    Ok(()) if !bucket.hangs() => break,
                    Ok(()) => {}
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_opening_ends_at_its_deadline() {
    for mode in [OpenMode::Create, OpenMode::Existing, OpenMode::ReadOnly] {
        for requests in 0.. {
            let bucket = match mode {
                OpenMode::Create => TestBucket::new(),
                _ => session_in("trimmed").await.0,
            };
            bucket.hang_after(Some(requests));
            let started = Instant::now();
            let opening = BucketStore::builder(bucket.clone(), PREFIX.into())
                .options(OpenOptions::new().mode(mode).timeout(DEADLINE))
                .open();
            // A request without a deadline would never end.
            let opened = tokio::time::timeout(DEADLINE * 10, opening).await.map(|opened| opened.map(drop));
            let what = format!("{mode:?}, after {requests} requests: {opened:?}");
            assert!(started.elapsed() <= DEADLINE, "{:?}: {what}", started.elapsed());
            match opened.unwrap() {
                Err(error) => assert!(messages(&error).contains("TestBucket/memory did"), "{what}"),
                Ok(()) => break,
            }
        }
    }
}

/// The first attempt of a request may take half of the time.
#[tokio::test(start_paused = true)]
async fn a_bucket_that_hangs_is_named_with_the_time() {
    let (bucket, store) = session_in("current").await;
    bucket.hang_after(Some(0));
    let error = store.read(&path("/memories/small")).await.unwrap_err();
    let expected = "reading failed: not done within 30s: TestBucket/memory did not respond within 15s";
    assert_eq!(messages(&error), expected);
    let error = write(&store, "/memories/new", "text").await.unwrap_err();
    assert!(messages(&error).contains("TestBucket/memory did"), "{}", messages(&error));
}
