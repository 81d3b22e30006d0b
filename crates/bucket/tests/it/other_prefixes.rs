//! Finding other stores near a store.

use std::sync::Arc;

use crate::support::TestBucket;
use memory_tool_bucket::{BucketStore, OtherPrefixes};
use object_store::ObjectStoreExt;

async fn open(bucket: &Arc<TestBucket>, prefix: &str) -> BucketStore {
    BucketStore::open(bucket.clone(), prefix.into()).await.unwrap()
}

async fn find(store: &BucketStore) -> (Vec<String>, bool) {
    let OtherPrefixes { prefixes, is_complete, .. } = store.other_prefixes().await.unwrap();
    (prefixes.iter().map(ToString::to_string).collect(), is_complete)
}

fn complete(prefixes: &[&str]) -> (Vec<String>, bool) {
    (prefixes.iter().map(|&prefix| prefix.to_owned()).collect(), true)
}

#[tokio::test(start_paused = true)]
async fn stores_beside_and_below_a_store_are_found() {
    let bucket = TestBucket::new();
    let alice = open(&bucket, "tenants/alice").await;
    assert_eq!(find(&alice).await, complete(&[]));
    for other in ["tenants/bob", "tenants/carl", "tenants/alice/old", "elsewhere", "tenants/far/away"] {
        open(&bucket, other).await;
    }
    // These two are no stores.
    for key in ["tenants/readme.md", "tenants/foreign/log/1"] {
        bucket.objects.put(&key.into(), "text".into()).await.unwrap();
    }
    bucket.take_requests();
    assert_eq!(find(&alice).await, complete(&["tenants/alice/old", "tenants/bob", "tenants/carl"]));
    let requests = bucket.take_requests();
    let count = |method: &str| requests.iter().filter(|request| request.starts_with(method)).count();
    assert_eq!((count("LIST"), count("HEAD"), requests.len()), (2, 5, 7), "{requests:?}");
    assert_eq!(find(&open(&bucket, "").await).await, complete(&["elsewhere"]));
    for (prefix, expected) in [
        ("tenants", vec!["tenants/alice", "tenants/bob", "tenants/carl"]),
        ("tenants/alice", vec!["tenants/alice", "tenants/alice/old"]),
        ("missing", vec![]),
        ("", vec!["", "elsewhere"]),
    ] {
        let prefixes = BucketStore::builder(bucket.clone(), prefix.into()).prefixes().await.unwrap();
        assert_eq!(prefixes.iter().map(AsRef::as_ref).collect::<Vec<&str>>(), expected, "{prefix}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_without_files_and_with_a_trimmed_log_is_found() {
    let bucket = TestBucket::new();
    let (alice, bob) = (open(&bucket, "alice").await, open(&bucket, "bob").await);
    for _ in 0..2 {
        crate::support::write(&bob, "/memories/a", "text").await.unwrap();
        crate::support::remove(&bob, "/memories/a").await.unwrap();
    }
    assert!(bob.gc(std::time::Duration::ZERO).await.unwrap().trimmed_commits > 0);
    assert_eq!(find(&alice).await, complete(&["bob"]));
}

#[tokio::test(start_paused = true)]
async fn the_number_of_requests_is_limited() {
    let bucket = TestBucket::new();
    let store = open(&bucket, "store").await;
    for number in 0..101 {
        open(&bucket, &format!("{number}")).await;
    }
    bucket.take_requests();
    let (prefixes, is_complete) = find(&store).await;
    assert_eq!((prefixes.len(), is_complete, bucket.take_requests().len()), (100, false, 102));
}
