//! Collecting objects that no file and no record refers to.

use std::time::Duration;

use crate::support::{Answer, Fault, PREFIX, TestBucket, path, read, record, write};
use futures::{FutureExt, TryStreamExt};
use memory_tool_bucket::DEFAULT_GRACE;
use memory_tool_core::{Batch, Store};
use object_store::{ObjectStore, ObjectStoreExt};

fn large(letter: &str) -> String {
    letter.repeat(20_000)
}

async fn objects(bucket: &TestBucket) -> usize {
    bucket.objects.list(None).try_collect::<Vec<_>>().await.unwrap().len()
}

#[tokio::test]
async fn what_is_in_use_or_young_stays() {
    let bucket = TestBucket::new();
    let store = bucket.open().await;
    write(&store, "/memories/kept", &large("k")).await.unwrap();
    write(&store, "/memories/replaced", &large("a")).await.unwrap();
    write(&store, "/memories/replaced", &large("b")).await.unwrap();
    write(&store, "/memories/deleted", &large("c")).await.unwrap();
    store.apply(Batch::new().remove(path("/memories/deleted"))).await.unwrap();
    assert_eq!(objects(&bucket).await, 5);

    let report = store.gc(DEFAULT_GRACE).await.unwrap();
    assert_eq!((report.removed_objects, report.kept_objects), (0, 4));
    let report = store.gc(Duration::ZERO).await.unwrap();
    assert_eq!((report.removed_objects, report.removed_bytes, report.kept_objects), (2, 40_000, 2));
    assert_eq!(objects(&bucket).await, 3);
    assert_eq!(read(&store, "/memories/kept").await.unwrap(), large("k"));
    assert_eq!(read(&store, "/memories/replaced").await.unwrap(), large("b"));
}

#[tokio::test]
async fn the_contents_of_a_record_are_kept_as_long_as_there_is_one() {
    let bucket = TestBucket::new();
    let store = bucket.open().await;
    let name = record("test/large");
    store.apply(Batch::new().write_record(name.clone(), large("r"))).await.unwrap();
    assert_eq!(store.gc(Duration::ZERO).await.unwrap().removed_objects, 0);
    assert_eq!(store.read_record(&name).await.unwrap().unwrap().content, large("r").into_bytes());
    store.apply(Batch::new().remove_record(name.clone())).await.unwrap();
    assert_eq!(store.gc(Duration::ZERO).await.unwrap().removed_objects, 1);
    assert_eq!(store.read_record(&name).await.unwrap(), None);
}

#[tokio::test]
async fn nothing_is_written_where_nothing_is_to_be_removed() {
    let bucket = TestBucket::new();
    let store = bucket.open().await;
    write(&store, "/memories/a", &large("a")).await.unwrap();
    bucket.take_requests();
    store.gc(Duration::ZERO).await.unwrap();
    assert!(bucket.take_requests().iter().all(|request| request.starts_with("GET") || request.starts_with("LIST")));
}

#[tokio::test]
async fn the_probe_of_an_opening_that_is_still_going_on() {
    let bucket = TestBucket::new();
    let store = bucket.open().await;
    bucket.objects.put(&format!("{PREFIX}/probe/of-another").into(), "first".into()).await.unwrap();
    assert_eq!(store.gc(Duration::ZERO).await.unwrap().removed_objects, 0);
}

/// The collection comes between the put of the contents and that of the index, however long that takes.
#[tokio::test]
async fn contents_of_a_write_that_is_still_going_on() {
    let bucket = TestBucket::new();
    let store = bucket.open().await;
    write(&store, "/memories/a", "small").await.unwrap();
    let collector = bucket.other().await;
    let meanwhile = async move {
        assert_eq!(collector.gc(Duration::ZERO).await.unwrap().removed_objects, 1);
    };
    bucket.add_fault(Fault { put: false, meanwhile: Some(meanwhile.boxed()), answer: Answer::Unclear });
    write(&store, "/memories/a", &large("a")).await.unwrap();
    assert_eq!(read(&store, "/memories/a").await.unwrap(), large("a"));
    assert_eq!(read(&bucket.other().await, "/memories/a").await.unwrap(), large("a"));
}

/// A reader with an old index finds that the contents are gone, and looks again.
#[tokio::test]
async fn a_reader_between_two_requests() {
    let bucket = TestBucket::new();
    let store = bucket.open().await;
    write(&store, "/memories/a", &large("a")).await.unwrap();
    let reading = (0..200).map(|_| {
        let store = store.clone();
        tokio::spawn(async move { read(&store, "/memories/a").await.unwrap() })
    });
    let reading: Vec<_> = reading.collect();
    for letter in ["b", "c", "d"] {
        write(&store, "/memories/a", &large(letter)).await.unwrap();
        store.gc(Duration::ZERO).await.unwrap();
    }
    for reading in reading {
        assert_eq!(reading.await.unwrap().len(), 20_000);
    }
}
