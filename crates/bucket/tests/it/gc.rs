//! Garbage collection: unused contents are removed, and old commits are trimmed.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Answer, Fault, TestBucket, log, path, read, record, remove, write};
use futures::FutureExt;
use memory_tool_bucket::DEFAULT_GRACE;
use memory_tool_core::{Batch, ErrorKind, ReadOptions, Store, StoreError};
use object_store::ObjectStoreExt as _;

fn large(letter: &str) -> String {
    letter.repeat(20_000)
}

async fn files(bucket: &TestBucket) -> usize {
    bucket.keys("contents/files").await.len()
}

#[tokio::test(start_paused = true)]
async fn what_is_in_use_or_young_stays() {
    let (bucket, store) = TestBucket::opened().await;
    write(&store, "/memories/kept", &large("k")).await.unwrap();
    write(&store, "/memories/replaced", &large("a")).await.unwrap();
    write(&store, "/memories/replaced", &large("b")).await.unwrap();
    write(&store, "/memories/deleted", &large("c")).await.unwrap();
    remove(&store, "/memories/deleted").await.unwrap();
    assert_eq!(files(&bucket).await, 4);

    let report = store.gc(DEFAULT_GRACE).await.unwrap();
    assert_eq!((report.removed_objects, report.kept_objects), (0, 4));
    let report = store.gc(Duration::ZERO).await.unwrap();
    assert_eq!((report.removed_objects, report.removed_bytes, report.trimmed_commits), (2, 40_000, 5));
    assert_eq!(files(&bucket).await, 2);
    assert_eq!(read(&store, "/memories/kept").await.unwrap(), large("k"));
    assert_eq!(read(&store, "/memories/replaced").await.unwrap(), large("b"));
}

#[tokio::test(start_paused = true)]
async fn the_contents_of_a_record_are_kept_as_long_as_there_is_one() {
    let (bucket, store) = TestBucket::opened().await;
    let name = record("test/large");
    store.apply(Batch::new().write(name.clone(), large("r"))).await.unwrap();
    assert_eq!(store.gc(Duration::ZERO).await.unwrap().removed_objects, 0);
    assert_eq!(
        store.read_opts(&name, ReadOptions::new()).await.unwrap().into_file().unwrap().content,
        large("r").into_bytes()
    );
    store.apply(Batch::new().remove(name.clone())).await.unwrap();
    store.gc(Duration::ZERO).await.unwrap();
    assert_eq!(bucket.keys("contents/records").await, Vec::<String>::new());
    assert_eq!(store.read_opts(&name, ReadOptions::new()).await.unwrap().into_file(), None);
}

/// The second run finds only the commits that the first one wrote, and they hold no changes.
#[tokio::test(start_paused = true)]
async fn a_collection_with_nothing_to_remove_writes_nothing() {
    let (bucket, store) = TestBucket::opened().await;
    store.gc(Duration::ZERO).await.unwrap();
    let empty = bucket.snapshot().await;
    assert_eq!(empty.len(), 1);
    write(&store, "/memories/a", &large("a")).await.unwrap();
    let written = bucket.snapshot().await;
    store.gc(DEFAULT_GRACE).await.unwrap();
    assert_eq!(bucket.snapshot().await, written);
    let report = store.gc(Duration::ZERO).await.unwrap();
    assert_eq!((report.trimmed_commits, report.removed_objects), (1, 0));
    bucket.take_requests();
    for store in [store, bucket.open().await, bucket.other().await] {
        bucket.take_requests();
        let report = store.gc(Duration::ZERO).await.unwrap();
        assert_eq!((report.trimmed_commits, report.removed_objects), (0, 0));
        let requests = bucket.take_requests();
        let reads = |request: &String| ["GET", "HEAD", "LIST"].iter().any(|method| request.starts_with(method));
        assert!(requests.iter().all(reads), "{requests:?}");
    }
}

/// The collector puts the pointer of the checkpoint that it knows. If another task notes a later checkpoint right then
/// and ends before it puts the pointer, openings start from the collector's.
#[tokio::test(start_paused = true)]
async fn a_checkpoint_that_is_noted_during_a_collection_changes_nothing() {
    let (bucket, store) = TestBucket::opened().await;
    write(&store, "/memories/a", "text").await.unwrap();
    store.gc(Duration::ZERO).await.unwrap();
    bucket.put_object(&format!("contents/files/a/{}-0-0", "0".repeat(32)), "unused").await;

    let (task, refused) = (store.clone(), Arc::clone(&bucket));
    let note_another = async move {
        refused.take_requests();
        refused.deny_puts(Some("checkpoints/"));
        for number in 0..300 {
            write(&task, &format!("/memories/{number}"), &"x".repeat(15_000)).await.unwrap();
        }
        while !refused.take_requests().iter().any(|request| request.starts_with("PUT memory/checkpoints")) {
            tokio::task::yield_now().await;
        }
        refused.deny_puts(None);
    };
    bucket.before_next("PUT memory/checkpoints", note_another.boxed());
    assert_eq!(store.gc(Duration::ZERO).await.unwrap().removed_objects, 1);
    assert_eq!(read(&store, "/memories/299").await, Some("x".repeat(15_000)), "the other task wrote nothing");
    let report = bucket.open().await.verify(|_| {}).await.unwrap();
    assert!(report.problems.is_empty(), "{report:?}");
}

/// The pointer of an older checkpoint is removed before its runs.
#[tokio::test(start_paused = true)]
async fn a_collection_that_ends_at_any_request_leaves_no_damage() {
    for requests in 0.. {
        let (bucket, store) = TestBucket::opened().await;
        write(&store, "/memories/a", &large("1")).await.unwrap();
        store.gc(Duration::ZERO).await.unwrap();
        write(&store, "/memories/a", &large("2")).await.unwrap();
        bucket.hang_after(Some(requests));
        let is_whole = tokio::time::timeout(Duration::from_secs(10), store.gc(Duration::ZERO)).await.is_ok();
        assert_eq!(bucket.other().await.verify(|_| {}).await.unwrap().problems, [], "after {requests} requests");
        if is_whole {
            return assert!(requests > 20, "{requests}");
        }
    }
}

/// A session that writes and collects, without hooks.
async fn collect(bucket: Arc<TestBucket>, text: &'static str) {
    let store = bucket.other().await;
    write(&store, "/memories/a", text).await.unwrap();
    assert!(store.gc(Duration::ZERO).await.unwrap().trimmed_commits > 0);
}

#[tokio::test(start_paused = true)]
async fn a_check_beside_a_collection_finds_no_damage() {
    let (bucket, store) = TestBucket::opened().await;
    collect(Arc::clone(&bucket), "1").await;
    bucket.before_next("GET memory/contents/runs", collect(Arc::clone(&bucket), "2").boxed());
    assert_eq!(store.verify(|_| {}).await.unwrap().problems, []);
}

/// Each collection removes what the opening is about to read.
#[tokio::test(start_paused = true)]
async fn an_opening_beside_two_collections_finds_no_damage() {
    let (bucket, store) = TestBucket::opened().await;
    write(&store, "/memories/a", "1").await.unwrap();
    bucket.before_next(&format!("GET memory/{}", log(2)), collect(Arc::clone(&bucket), "2").boxed());
    bucket.before_next("GET memory/contents/runs", collect(Arc::clone(&bucket), "3").boxed());
    assert_eq!(read(&bucket.open().await, "/memories/a").await.unwrap(), "3");
}

/// Deleted text stays in no object of the bucket.
#[tokio::test(start_paused = true)]
async fn a_collection_with_an_age_of_zero_leaves_no_deleted_text() {
    let (bucket, store) = TestBucket::opened().await;
    for (file, text) in [("kept", "kept"), ("deleted", "secret"), ("replaced", "secret"), ("large", &large("secret"))] {
        write(&store, &format!("/memories/{file}"), text).await.unwrap();
    }
    store.apply(Batch::new().write(record("test/record"), "secret")).await.unwrap();
    remove(&store, "/memories/deleted").await.unwrap();
    remove(&store, "/memories/large").await.unwrap();
    write(&store, "/memories/replaced", "harmless").await.unwrap();
    store.apply(Batch::new().remove(record("test/record"))).await.unwrap();
    store.gc(Duration::ZERO).await.unwrap();
    for (key, bytes) in bucket.snapshot().await {
        assert!(!String::from_utf8_lossy(&bytes).contains("secret"), "{key}");
    }
    let other = bucket.other().await;
    assert_eq!(read(&other, "/memories/replaced").await.unwrap(), "harmless");
    assert_eq!(read(&other, "/memories/kept").await.unwrap(), "kept");
    assert_eq!(read(&other, "/memories/deleted").await, None);
}

/// A pack holds the small contents of a large batch. The used ones are packed again.
#[tokio::test(start_paused = true)]
async fn a_deleted_text_does_not_stay_in_a_pack() {
    let (bucket, store) = TestBucket::opened().await;
    let filled = (0..120).fold(Batch::new().write(path("/memories/secret"), "secret"), |batch, number| {
        batch.write(path(&format!("/memories/{number}")), format!("{number}").repeat(5_000))
    });
    store.apply(filled).await.unwrap();
    assert!(!bucket.keys("contents/packs").await.is_empty());
    remove(&store, "/memories/secret").await.unwrap();
    store.gc(Duration::ZERO).await.unwrap();
    for (key, bytes) in bucket.snapshot().await {
        assert!(!String::from_utf8_lossy(&bytes).contains("secret"), "{key}");
    }
    for store in [store, bucket.other().await] {
        for number in 0..120 {
            let text = read(&store, &format!("/memories/{number}")).await.unwrap();
            assert_eq!(text, format!("{number}").repeat(5_000));
        }
    }
}

/// A session drafts a checkpoint, another one deletes a file of it, and the checkpoint is noted during a collection.
#[tokio::test(start_paused = true)]
async fn a_deleted_text_does_not_stay_in_an_older_run() {
    let bucket = TestBucket::new();
    let (writer, collector) = (bucket.open().await, bucket.open().await);
    write(&writer, "/memories/secret", "secret").await.unwrap();
    let (drafted, wait_for_draft) = tokio::sync::oneshot::channel::<()>();
    let (go_on, wait) = tokio::sync::oneshot::channel::<()>();
    let until_deleted = async move {
        drafted.send(()).unwrap();
        wait.await.unwrap();
    };
    bucket.before_next("PUT memory/contents/runs", until_deleted.boxed());
    for number in 3..=64 {
        write(&writer, "/memories/kept", &number.to_string()).await.unwrap();
    }
    wait_for_draft.await.unwrap();
    remove(&collector, "/memories/secret").await.unwrap();
    let noted = {
        let bucket = Arc::clone(&bucket);
        async move {
            go_on.send(()).unwrap();
            while !bucket.keys("log").await.contains(&log(66)) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    };
    bucket.before_next("PUT memory/contents/runs", noted.boxed());
    for _ in 0..2 {
        collector.gc(Duration::ZERO).await.unwrap();
    }
    for (key, bytes) in bucket.snapshot().await {
        assert!(!String::from_utf8_lossy(&bytes).contains("secret"), "{key}");
    }
    assert_eq!(read(&bucket.other().await, "/memories/kept").await.unwrap(), "64");
}

/// Each number stays taken, and the first commit stays.
#[tokio::test(start_paused = true)]
async fn a_trimmed_commit_is_replaced_by_a_marker() {
    let (bucket, store) = TestBucket::opened().await;
    let birth = bucket.snapshot().await.remove(&log(1)).unwrap();
    for number in 0..5 {
        write(&store, "/memories/a", &number.to_string()).await.unwrap();
    }
    assert_eq!(store.gc(Duration::ZERO).await.unwrap().trimmed_commits, 5);
    let objects = bucket.snapshot().await;
    assert_eq!(objects[&log(1)], birth);
    for number in 2..=6 {
        let marker = String::from_utf8_lossy(&objects[&log(number)]);
        assert!(marker.starts_with(r#"{"format":"memory-tool trimmed commit","version":1,"id":""#), "{marker}");
    }
}

/// Two batches are in one group, and one of them is refused. To make sure, the writer reads the log and meets a
/// collection, which removed the contents that the other batch had put.
#[tokio::test(start_paused = true)]
async fn a_collection_that_is_read_while_a_group_is_planned() {
    let (bucket, store) = TestBucket::opened().await;
    write(&store, "/memories/a", "small").await.unwrap();
    let collector = bucket.other().await;
    let (go_on, wait) = tokio::sync::oneshot::channel::<()>();
    let meanwhile = async move {
        wait.await.unwrap();
        assert_eq!(collector.gc(Duration::ZERO).await.unwrap().removed_objects, 2);
    };
    bucket.add_fault(Fault { put: true, meanwhile: Some(meanwhile.boxed()), answer: Answer::Unclear });
    let spawn = |at: &'static str, batch: Batch| {
        let store = store.clone();
        tokio::spawn(async move { (at, store.apply(batch).await) })
    };
    let new = || Batch::new().require(path("/memories/new"), memory_tool_core::Precondition::Absent);
    let first = spawn("first", Batch::new().write(path("/memories/a"), "first"));
    bucket.wait_for_faults().await;
    let second = spawn("second", new().write(path("/memories/new"), large("n")));
    let third = spawn("third", new().write(path("/memories/new"), large("m")));
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    go_on.send(()).unwrap();
    first.await.unwrap().1.unwrap(); // its commit was trimmed before it was settled, and the marker has its id
    let outcomes = [second.await.unwrap().1, third.await.unwrap().1];
    assert!(outcomes[0].is_ok() && outcomes[1].is_err(), "{outcomes:?}");
    assert_eq!(read(&bucket.other().await, "/memories/new").await.unwrap(), large("n"));
}

/// The collection runs between the PUT of the contents and the PUT of the commit.
#[tokio::test(start_paused = true)]
async fn contents_of_a_write_in_progress() {
    let (bucket, store) = TestBucket::opened().await;
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

/// A reader with an old state finds that the contents were removed, and reads the log again.
#[tokio::test(start_paused = true)]
async fn a_reader_between_two_requests() {
    let (_bucket, store) = TestBucket::opened().await;
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

/// Collections by several machines at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_collections() {
    let (bucket, store) = TestBucket::opened().await;
    for number in 0..30 {
        write(&store, &format!("/memories/{}", number % 3), &large(&number.to_string())).await.unwrap();
    }
    let mut collecting = Vec::new();
    for _ in 0..4 {
        let store = bucket.open().await;
        collecting.push(tokio::spawn(async move { store.gc(Duration::ZERO).await }));
    }
    for collecting in collecting {
        // Another collection may trim a commit of this one before its reply arrives.
        if let Err(error) = collecting.await.unwrap() {
            assert!(matches!(error, StoreError::Failure { kind: ErrorKind::OutcomeUnknown, .. }), "{error:?}");
        }
    }
    let opened = bucket.other().await;
    for number in 27..30 {
        assert_eq!(read(&opened, &format!("/memories/{}", number % 3)).await.unwrap(), large(&number.to_string()));
    }
    assert_eq!(read(&store, "/memories/0").await.unwrap(), large("27"));
    write(&store, "/memories/0", "next").await.unwrap();
    assert_eq!(read(&opened, "/memories/0").await.unwrap(), "next");
}

/// The network may deliver the request again that created a pointer, long after a collection removed it.
#[tokio::test(start_paused = true)]
async fn a_checkpoint_that_comes_again_is_collected() {
    let (bucket, store) = TestBucket::opened().await;
    write(&store, "/memories/a", "1").await.unwrap();
    store.gc(Duration::ZERO).await.unwrap();
    let late = bucket.keys("checkpoints").await.remove(0);
    let before = bucket.snapshot().await;
    let (_, pointer) = before.iter().find(|(key, _)| late.ends_with(key.as_str())).unwrap();
    for text in ["2", "3", "4"] {
        write(&store, "/memories/a", text).await.unwrap();
        store.gc(Duration::ZERO).await.unwrap();
    }
    let after = bucket.keys("checkpoints").await;
    assert!(!after.contains(&late), "{after:?}");
    let key = format!("memory/{}", late.trim_start_matches("memory/"));
    bucket.objects.put(&key.into(), pointer.clone().into()).await.unwrap();
    assert_eq!(bucket.keys("checkpoints").await.len(), after.len() + 1);
    store.gc(Duration::ZERO).await.unwrap();
    assert_eq!(bucket.keys("checkpoints").await, after);
}

/// The pointer may be newer than the trimmed commits, and its runs are missing.
#[tokio::test(start_paused = true)]
async fn a_checkpoint_that_comes_again_is_no_damage() {
    let (bucket, store) = TestBucket::opened().await;
    write(&store, "/memories/a", "1").await.unwrap();
    store.gc(Duration::ZERO).await.unwrap();
    for number in 0..80 {
        write(&store, &format!("/memories/{number}"), "2").await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(1)).await; // a task in the background writes the third one
    let pointers = bucket.keys("checkpoints").await;
    let [previous, full, latest] = &pointers[..] else { panic!("{pointers:?}") };
    let number_of = |key: &String| key.rsplit('/').next().unwrap().parse::<u64>().unwrap();
    assert!(number_of(latest) > number_of(full) + 1, "{pointers:?}");
    let late = number_of(latest) - 1;
    let objects = bucket.snapshot().await;
    let mut pointer: serde_json::Value = serde_json::from_slice(&objects[latest]).unwrap();
    pointer["through"] = late.into();
    for run in pointer["runs"].as_array_mut().unwrap() {
        run["key"] = "runs/removed-0".into();
        run["through"] = late.into();
    }
    let (directory, name) = latest.rsplit_once('/').unwrap();
    let key = format!("{directory}/{late:0digits$}", digits = name.len());
    bucket.put_object(&key, pointer.to_string()).await;
    assert_eq!(bucket.other().await.verify(|_| {}).await.unwrap().problems, []);

    // Without an older checkpoint, a repair may need it.
    bucket.remove_object(previous).await;
    bucket.remove_object(full).await;
    let problems = bucket.other().await.verify(|_| {}).await.unwrap().problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
}
