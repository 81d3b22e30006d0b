//! Checkpoints: a fresh opening finds everything with few requests, and a checkpoint names only objects that exist.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{PREFIX, TestBucket, everything, path, read, record, remove, rename, write};
use futures::FutureExt;
use memory_tool_bucket::BucketStore;
use memory_tool_core::{Batch, OpenOptions, ReadOptions, Store, StoreExt, StorePath};
use memory_tool_test_fixtures::{Log, by_tier};

/// A checkpoint is written after this many commits.
const COMMITS: usize = 256;

/// Lets tasks in the background come to their end.
async fn settle() {
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn wait_for_checkpoints(bucket: &TestBucket, count: usize) {
    while bucket.keys("checkpoints").await.len() < count {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn write_many(store: &BucketStore, directory: &str, count: usize) {
    for number in 0..count {
        write(store, &format!("/memories/{directory}/{}", number % 50), &number.to_string()).await.unwrap();
    }
}

/// All that opened the store, and a fresh opening, see the same, and each can read and write everything.
async fn expect_same(bucket: &Arc<TestBucket>, stores: &[&BucketStore]) -> Vec<(StorePath, Vec<u8>)> {
    let expected = everything(&bucket.other().await).await;
    for (number, store) in stores.iter().enumerate() {
        assert!(everything(*store).await == expected, "store {number} differs");
    }
    expected
}

#[tokio::test(start_paused = true)]
async fn a_fresh_opening_after_many_commits() {
    let (bucket, store) = TestBucket::opened().await;
    store.apply(Batch::new().write(record("test/kept"), "kept")).await.unwrap();
    store.apply(Batch::new().write(record("test/removed"), "removed")).await.unwrap();
    for round in 0..5 {
        write(&store, "/memories/large", &round.to_string().repeat(20_000)).await.unwrap();
        write_many(&store, "d", COMMITS - 10).await;
        rename(&store, "/memories/d", &format!("/memories/{round}/d")).await.unwrap();
        remove(&store, &format!("/memories/{round}/d/7")).await.unwrap();
        if round == 2 {
            remove(&store, "/memories/0").await.unwrap();
            store.apply(Batch::new().remove(record("test/removed"))).await.unwrap();
        }
        settle().await;
    }
    assert!(bucket.keys("checkpoints").await.len() >= 3, "{:?}", bucket.keys("checkpoints").await);
    let all = expect_same(&bucket, &[&store]).await;
    assert_eq!(all.len(), 4 * 49 + 1);

    bucket.take_requests();
    let opened = bucket.open().await;
    let requests = bucket.take_requests();
    println!("{} requests", requests.len());
    // At most the commits since the last checkpoint are read.
    assert!(requests.len() < COMMITS + 40, "{}", requests.len());
    assert_eq!(read(&opened, "/memories/large").await.unwrap(), "4".repeat(20_000));
    assert_eq!(read(&opened, "/memories/0/d/1").await, None);
    assert_eq!(read(&opened, "/memories/1/d/7").await, None);
    assert_eq!(
        opened.read_opts(&record("test/kept"), ReadOptions::new()).await.unwrap().into_file().unwrap().content,
        b"kept"
    );
    assert_eq!(opened.read_opts(&record("test/removed"), ReadOptions::new()).await.unwrap().into_file(), None);

    // Directly after a full checkpoint, few requests are left.
    store.gc(Duration::ZERO).await.unwrap();
    bucket.take_requests();
    let opened = bucket.open().await;
    let requests = bucket.take_requests();
    assert!(requests.len() <= 20, "{requests:?}");
    assert!(everything(&opened).await == all);
}

/// A checkpoint takes over the runs of the one before, and its own run holds only later changes.
#[tokio::test(start_paused = true)]
async fn an_incremental_checkpoint_is_small() {
    let (bucket, store) = TestBucket::opened().await;
    let batch = (0..2_000)
        .fold(Batch::new(), |batch, number| batch.write(path(&format!("/memories/many/{number}")), "x".repeat(400)));
    store.apply(batch).await.unwrap();
    store.gc(Duration::ZERO).await.unwrap();
    write_many(&store, "d", 1).await;
    let mut before = bucket.snapshot().await;
    for round in 1..=3 {
        write_many(&store, "d", COMMITS).await;
        wait_for_checkpoints(&bucket, 1 + round).await;
        settle().await;
        let mut after = bucket.snapshot().await;
        let runs: Vec<_> = after.iter().filter(|(key, _)| key.starts_with("contents/runs")).collect();
        let new: usize = runs.iter().filter(|(key, _)| !before.contains_key(*key)).map(|(_, bytes)| bytes.len()).sum();
        assert!((1..100_000).contains(&new), "{new} bytes in round {round}");
        std::mem::swap(&mut before, &mut after);
        assert_eq!(expect_same(&bucket, &[&store]).await.len(), 2_050);
    }
}

/// Removals of files in an older run are in a later run.
#[tokio::test(start_paused = true)]
async fn removals_and_renames_in_an_incremental_checkpoint() {
    let (bucket, store) = TestBucket::opened().await;
    for directory in ["a", "b", "c"] {
        write_many(&store, directory, 50).await;
    }
    store.apply(Batch::new().write(record("test/removed"), "removed")).await.unwrap();
    store.gc(Duration::ZERO).await.unwrap();
    remove(&store, "/memories/a").await.unwrap();
    rename(&store, "/memories/b", "/memories/d/b").await.unwrap();
    remove(&store, "/memories/c/1").await.unwrap();
    write(&store, "/memories/c/1/under", "a directory in the place of a file").await.unwrap();
    store.apply(Batch::new().remove(record("test/removed"))).await.unwrap();
    write_many(&store, "e", COMMITS).await;
    wait_for_checkpoints(&bucket, 2).await;
    settle().await;
    let opened = bucket.other().await;
    assert_eq!(expect_same(&bucket, &[&store, &opened]).await.len(), 50 + 50 + 50);
    assert_eq!(read(&opened, "/memories/a/1").await, None);
    assert_eq!(read(&opened, "/memories/d/b/1").await.unwrap(), "1");
    assert_eq!(read(&opened, "/memories/c/1/under").await.unwrap(), "a directory in the place of a file");
    assert_eq!(opened.read_opts(&record("test/removed"), ReadOptions::new()).await.unwrap().into_file(), None);
    // Another incremental one, by the store that was opened from the runs.
    write_many(&opened, "e", COMMITS).await;
    wait_for_checkpoints(&bucket, 3).await;
    settle().await;
    expect_same(&bucket, &[&store, &opened]).await;
}

/// More than 4 MiB of small contents: the oldest move into packs, and everything stays readable.
#[tokio::test(start_paused = true)]
async fn small_contents_move_into_packs() {
    let (bucket, store) = TestBucket::opened().await;
    let reader = bucket.other().await;
    let content = |number: usize| format!("{number} {}", "x".repeat(10_000));
    for number in 0..1_000 {
        write(&store, &format!("/memories/{number}"), &content(number)).await.unwrap();
    }
    settle().await;
    assert!(!bucket.keys("contents/packs").await.is_empty());
    let opened = bucket.other().await;
    assert_eq!(expect_same(&bucket, &[&store, &reader, &opened]).await.len(), 1_000);
    for number in 0..200 {
        write(&reader, &format!("/memories/{number}"), "new").await.unwrap();
    }
    reader.gc(Duration::ZERO).await.unwrap();
    let all = expect_same(&bucket, &[&store, &reader, &opened]).await;
    assert_eq!(all.iter().filter(|(_, content)| content == b"new").count(), 200);
    assert_eq!(read(&store, "/memories/999").await.unwrap(), content(999));
}

/// Each of several processes has small contents in other places than the latest checkpoint, and collections remove
/// unused packs. After each step, all files can be read by everyone.
#[tokio::test(start_paused = true)]
async fn checkpoints_by_processes_that_know_other_places() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1]].into_iter().take(by_tier(1, 4)) {
        let bucket = TestBucket::new();
        let stores = [bucket.open().await, bucket.open().await, bucket.open().await];
        let fill = async |store: &BucketStore, directory: &str| {
            for part in 0..6 {
                let batch = (0..100).fold(Batch::new(), |batch, number| {
                    let at = path(&format!("/memories/{directory}/{part}-{number}"));
                    batch.write(at, format!("{part} {number} {}", "x".repeat(9_000)))
                });
                store.apply(batch).await.unwrap();
            }
            settle().await;
        };
        for (round, index) in order.into_iter().chain(order).take(by_tier(3, 6)).enumerate() {
            let store = &stores[index];
            for store in &stores {
                store.list(&StorePath::memories()).await.unwrap(); // all know the same commits
            }
            fill(store, &format!("{round}")).await;
            store.gc(Duration::ZERO).await.unwrap();
            let other = &stores[(index + 1) % 3];
            other.list(&StorePath::memories()).await.unwrap();
            write_many(other, "d", COMMITS).await;
            settle().await;
            other.gc(Duration::ZERO).await.unwrap();
            stores[(index + 2) % 3].gc(Duration::ZERO).await.unwrap();
            expect_same(&bucket, &[]).await;
        }
        expect_same(&bucket, &[&stores[0], &stores[1], &stores[2]]).await;
    }
}

/// The first process moved a file into a pack. The second one knows the text from the log, and wrote a checkpoint that
/// names another pack. A checkpoint of the first process takes over its run. After a collection of the first pack, no
/// checkpoint of the first process may name that pack.
#[tokio::test(start_paused = true)]
async fn a_run_that_was_taken_over_names_another_pack() {
    let bucket = TestBucket::new();
    let (first, second) = (bucket.open().await, bucket.open().await);
    let content = |number: usize| format!("{number} {}", "x".repeat(9_000));
    let fill = async |store: &BucketStore, directory: &str, parts: usize| {
        for part in 0..parts {
            let batch = (0..100).fold(Batch::new(), |batch, number| {
                batch.write(path(&format!("/memories/{directory}/{part}-{number}")), content(number))
            });
            store.apply(batch).await.unwrap();
            settle().await;
        }
    };
    // A process that writes no checkpoint, so that the one of the first process is full.
    bucket.stall_puts(Some("runs/"));
    fill(&bucket.open().await, "a", 6).await;
    bucket.stall_puts(None);
    second.list(&StorePath::memories()).await.unwrap();
    // The time between the PUT of the pack and the commit of the checkpoint.
    let (moved, was_moved) = tokio::sync::oneshot::channel();
    let note_time = async move {
        tokio::time::sleep(Duration::from_millis(20)).await;
        moved.send(std::time::SystemTime::now()).unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    bucket.before_next("PUT memory/contents/runs", note_time.boxed());
    fill(&first, "b", 4).await;
    let moved = was_moved.await.unwrap();
    wait_for_checkpoints(&bucket, 1).await;
    let packs = bucket.keys("contents/packs").await;
    assert!(!packs.is_empty());
    second.list(&StorePath::memories()).await.unwrap();
    fill(&second, "c", 5).await;
    wait_for_checkpoints(&bucket, 2).await;
    assert_ne!(bucket.keys("contents/packs").await, packs);
    first.list(&StorePath::memories()).await.unwrap();
    fill(&first, "d", 5).await;
    wait_for_checkpoints(&bucket, 3).await;
    second.gc(moved.elapsed().unwrap()).await.unwrap();
    let left = bucket.keys("contents/packs").await;
    assert!(packs.iter().any(|pack| !left.contains(pack)), "{packs:?} {left:?}");
    first.gc(Duration::ZERO).await.unwrap();
    let opened = bucket.other().await;
    for part in 0..6 {
        for number in 0..100 {
            let at = format!("/memories/a/{part}-{number}");
            assert_eq!(read(&opened, &at).await.unwrap(), content(number), "{at}");
        }
    }
}

/// Two processes write, and both come to write checkpoints.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_writers() {
    let bucket = TestBucket::new();
    let stores = [bucket.open().await, bucket.open().await];
    let writing = stores.clone().map(|store| tokio::spawn(async move { write_many(&store, "d", 2 * COMMITS).await }));
    for writing in writing {
        writing.await.unwrap();
    }
    settle().await;
    assert!(!bucket.keys("checkpoints").await.is_empty());
    expect_same(&bucket, &[&stores[0], &stores[1]]).await;
    stores[0].gc(Duration::ZERO).await.unwrap();
    assert_eq!(bucket.keys("checkpoints").await.len(), 2);
    expect_same(&bucket, &[&stores[0], &stores[1]]).await;
}

/// The process ends before its checkpoint is complete, so a later one writes it before its command returns.
#[test]
fn processes_that_end_with_their_command() {
    let bucket = TestBucket::new();
    let run = |number: usize| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            write(&bucket.open().await, &format!("/memories/{}", number % 9), &number.to_string()).await.unwrap();
        });
    };
    (0..COMMITS - 10).for_each(run);
    // A checkpoint in the background never gets further than its first request.
    bucket.stall_puts(Some("runs/"));
    (0..20).for_each(run);
    bucket.stall_puts(None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert!(runtime.block_on(bucket.keys("checkpoints")).is_empty());
    (0..COMMITS + 20).for_each(run);
    assert_eq!(runtime.block_on(bucket.keys("checkpoints")).len(), 1);
    runtime.block_on(async {
        bucket.take_requests();
        bucket.open().await;
        let requests = bucket.take_requests().len();
        assert!(requests < 80, "{requests}");
    });
}

/// The write was made, so it succeeds although the checkpoint that it waits for fails.
#[tokio::test(start_paused = true)]
async fn an_overdue_checkpoint_that_hangs() {
    let bucket = TestBucket::new();
    bucket.stall_puts(Some("runs/"));
    write_many(&bucket.open().await, "d", COMMITS + 10).await;
    let options = OpenOptions::new().timeout(Duration::from_secs(2));
    let store = BucketStore::builder(bucket.clone(), PREFIX.into()).options(options).open().await.unwrap();
    write_many(&store, "d", COMMITS).await;
    assert!(bucket.keys("checkpoints").await.is_empty());
    assert_eq!(expect_same(&bucket, &[&store]).await.len(), 50);
}

/// The pointer of the latest checkpoint is not in the bucket, because its author ended before it put it. A collection
/// puts it.
#[tokio::test(start_paused = true)]
async fn a_checkpoint_without_its_pointer() {
    let (bucket, store) = TestBucket::opened().await;
    write_many(&store, "d", 40).await;
    store.gc(Duration::ZERO).await.unwrap();
    bucket.stall_puts(Some("checkpoints/"));
    write_many(&store, "e", COMMITS).await;
    settle().await;
    bucket.stall_puts(None);
    assert_eq!(bucket.keys("checkpoints").await.len(), 2);
    let first = bucket.keys("checkpoints").await;
    let all = expect_same(&bucket, &[&store]).await;
    let other = bucket.open().await;
    other.gc(Duration::ZERO).await.unwrap();
    let second = bucket.keys("checkpoints").await;
    assert!(second.len() == 2 && !second.iter().any(|key| first.contains(key)), "{second:?}");
    assert!(expect_same(&bucket, &[&store, &other]).await == all);
}

/// Otherwise the log grows, and openings become slower and slower, without a sign of it.
#[tokio::test(start_paused = true)]
async fn a_checkpoint_that_is_refused_is_reported_once_an_hour() {
    let log = Log::of_this_thread();
    for denied in ["contents/runs", "checkpoints/"] {
        let (bucket, store) = TestBucket::opened().await;
        bucket.deny_puts(Some(denied));
        write_many(&store, "d", COMMITS).await;
        settle().await;
        let reported = log.take();
        assert_eq!(reported.len(), 1, "{denied}: {reported:?}");
        for part in [" WARN memory_tool_bucket", "checkpoint not written", "TestBucket/memory", "a fault of the test"] {
            assert!(reported[0].contains(part), "{reported:?}");
        }
        write_many(&store, "d", 2 * COMMITS).await;
        settle().await;
        assert_eq!(log.take(), Vec::<String>::new(), "{denied}");
        tokio::time::advance(Duration::from_secs(60 * 60)).await;
        write_many(&store, "d", 2 * COMMITS).await;
        settle().await;
        assert_eq!(log.take().len(), 1, "{denied}");
        bucket.deny_puts(None);
        tokio::time::advance(Duration::from_secs(60 * 60)).await;
        write_many(&store, "d", 2 * COMMITS).await;
        settle().await;
        assert_eq!(log.take(), Vec::<String>::new(), "{denied}");
    }
}

/// That is no failure: the other checkpoint serves as well.
#[tokio::test(start_paused = true)]
async fn a_checkpoint_after_that_of_another_is_not_reported() {
    let log = Log::of_this_thread();
    let bucket = TestBucket::new();
    let (store, other) = (bucket.open().await, bucket.other().await);
    let collect = async move { assert!(other.gc(Duration::ZERO).await.unwrap().trimmed_commits > 0) };
    bucket.before_next("PUT memory/contents/runs", collect.boxed());
    write_many(&store, "d", COMMITS).await;
    settle().await;
    let requests = bucket.take_requests(); // without those of the other session
    let puts = |what: &str| requests.iter().filter(|request| request.starts_with(what)).count();
    assert_eq!((puts("PUT memory/contents/runs"), puts("PUT memory/checkpoints")), (1, 0));
    assert_eq!(log.take(), Vec::<String>::new());
}
