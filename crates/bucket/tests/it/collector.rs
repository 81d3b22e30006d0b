//! A session that collects garbage at an interval. The time is simulated.

use std::time::Duration;

use memory_tool_bucket::BucketStore;
use memory_tool_core::{OpenMode, OpenOptions};
use tokio::time::sleep;

use crate::support::{PREFIX, TestBucket, write};

const INTERVAL: Duration = Duration::from_secs(60 * 60);

async fn open(bucket: &std::sync::Arc<TestBucket>, mode: OpenMode) -> BucketStore {
    let options = OpenOptions::new().mode(mode).gc_interval(INTERVAL);
    BucketStore::builder(bucket.clone(), PREFIX.into()).options(options).open().await.unwrap()
}

/// The collections that listed the contents.
fn collections(bucket: &TestBucket) -> usize {
    bucket.take_requests().iter().filter(|request| request.starts_with("LIST memory/contents")).count()
}

#[tokio::test(start_paused = true)]
async fn a_session_collects_at_its_interval_until_it_ends() {
    let bucket = TestBucket::new();
    let store = open(&bucket, OpenMode::Create).await;
    let clone = store.clone();
    drop(store);
    sleep(INTERVAL / 2).await;
    assert_eq!(collections(&bucket), 0);
    sleep(INTERVAL).await;
    assert_eq!(collections(&bucket), 1);
    sleep(INTERVAL * 10).await;
    assert!((9..=11).contains(&collections(&bucket)));
    drop(clone);
    sleep(INTERVAL * 10).await;
    assert_eq!(collections(&bucket), 0);
}

/// The objects of a test are young, so only an age of zero removes them.
#[tokio::test(start_paused = true)]
async fn a_session_leaves_out_a_collection_if_another_session_collected() {
    let bucket = TestBucket::new();
    let store = open(&bucket, OpenMode::Create).await;
    let other = bucket.open().await;
    write(&other, "/memories/a", "text").await.unwrap();
    sleep(INTERVAL / 2).await;
    assert!(other.gc(Duration::ZERO).await.unwrap().trimmed_commits > 0);
    collections(&bucket);
    sleep(INTERVAL).await;
    assert_eq!(collections(&bucket), 0);
    sleep(INTERVAL).await;
    assert_eq!(collections(&bucket), 1);
    drop(store);
}

#[tokio::test(start_paused = true)]
async fn no_interval_makes_a_session_collect_without_pauses_or_fail() {
    for (interval, expected) in [(Duration::ZERO, 50..=70), (Duration::MAX, 0..=0)] {
        let bucket = TestBucket::new();
        let options = OpenOptions::new().gc_interval(interval);
        let store = BucketStore::builder(bucket.clone(), PREFIX.into()).options(options).open().await.unwrap();
        sleep(INTERVAL).await;
        assert!(expected.contains(&collections(&bucket)), "{interval:?}");
        write(&store, "/memories/a", "text").await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_only_reads_collects_nothing() {
    let bucket = TestBucket::new();
    drop(bucket.open().await);
    let store = open(&bucket, OpenMode::ReadOnly).await;
    sleep(INTERVAL * 3).await;
    assert_eq!(collections(&bucket), 0);
    drop(store);
}

/// Commands after a failed collection succeed, and the next collection does too.
#[tokio::test(start_paused = true)]
async fn a_failed_collection_is_repeated() {
    let bucket = TestBucket::new();
    let store = open(&bucket, OpenMode::Create).await;
    bucket.fail_gets(1_000);
    sleep(INTERVAL * 2).await;
    bucket.fail_gets(0);
    collections(&bucket);
    sleep(INTERVAL * 2).await;
    assert!(collections(&bucket) > 0);
    write(&store, "/memories/a", "text").await.unwrap();
}
