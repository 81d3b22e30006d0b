//! The round trips in a row of openings and commands. The time is simulated, so the results do not depend on the
//! machine.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{PREFIX, TestBucket, call, path, write};
use memory_tool_bucket::BucketStore;
use memory_tool_core::{Batch, OpenMode, OpenOptions, Store};
use serde_json::{Value, json};
use tokio::time::Instant;

const ROUND_TRIP: Duration = Duration::from_millis(20);
/// A checkpoint is written after this many commits.
const COMMITS: usize = 64;

/// The round trips that the work takes, and its requests.
async fn measure<T>(bucket: &TestBucket, work: impl Future<Output = T>) -> (u128, Vec<String>) {
    bucket.take_requests();
    bucket.move_away(ROUND_TRIP / 2);
    let started = Instant::now();
    work.await;
    let taken = started.elapsed();
    bucket.move_away(Duration::ZERO);
    (taken.as_millis().div_ceil(ROUND_TRIP.as_millis()), bucket.take_requests())
}

/// Whatever happened before. A reader puts nothing.
async fn expect_short_openings(bucket: &Arc<TestBucket>, what: &str) -> usize {
    let mut most = 0;
    for mode in [OpenMode::Create, OpenMode::Existing, OpenMode::ReadOnly] {
        let options = OpenOptions::new().mode(mode);
        let opening =
            async { BucketStore::builder(bucket.clone(), PREFIX.into()).options(options).open().await.unwrap() };
        let (round_trips, made) = measure(bucket, opening).await;
        assert!(round_trips <= 3, "{what}, {mode:?}: {round_trips} round trips: {made:?}");
        let puts = made.iter().filter(|request| request.starts_with("PUT memory/log")).count();
        assert_eq!(puts, usize::from(mode != OpenMode::ReadOnly), "{what}, {mode:?}: {made:?}");
        most = most.max(made.len());
    }
    most
}

#[tokio::test(start_paused = true)]
async fn an_opening_takes_three_round_trips() {
    let (bucket, store) = TestBucket::opened().await;
    let mut most = 0;
    for number in 0..10 * COMMITS {
        if number % 5 == 0 || number % COMMITS > COMMITS - 4 {
            most = most.max(expect_short_openings(&bucket, &format!("after {number} commits")).await);
        }
        write(&store, &format!("/memories/{}", number % 70), "text").await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await; // for a checkpoint in the background
    }
    println!("at most {most} requests");
    store.gc(Duration::ZERO).await.unwrap();
    expect_short_openings(&bucket, "after a collection").await;
}

/// Each author of a checkpoint ends before it is complete, as far as other sessions do not wait for it.
#[tokio::test(start_paused = true)]
async fn an_opening_without_a_checkpoint_takes_three_round_trips() {
    let bucket = TestBucket::new();
    bucket.stall_puts(Some("runs/"));
    let store = bucket.open().await;
    for number in 0..2 * COMMITS - 2 {
        write(&store, &format!("/memories/{number}"), "text").await.unwrap();
    }
    let requests = expect_short_openings(&bucket, "before an overdue checkpoint").await;
    println!("{requests} requests");
    bucket.stall_puts(Some("checkpoints/"));
    let store = bucket.open().await;
    for number in 0..COMMITS - 2 {
        write(&store, &format!("/memories/{number}"), "text").await.unwrap();
    }
    expect_short_openings(&bucket, "without the pointer of the last checkpoint").await;
}

/// Many runs and their parts are read at once.
#[tokio::test(start_paused = true)]
async fn the_opening_of_a_large_store_takes_three_round_trips() {
    let (bucket, store) = TestBucket::opened().await;
    for part in 0..20 {
        let batch = (0..1_000).fold(Batch::new(), |batch, number| {
            batch.write(path(&format!("/memories/{part}/{number}")), "x".repeat(600))
        });
        store.apply(batch).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    expect_short_openings(&bucket, "12 MB of files").await;
}

/// A lost number, two groups of reads, and the commit; or three groups of reads.
#[tokio::test(start_paused = true)]
async fn ten_commits_of_another_machine_add_three_round_trips() {
    let file = |number: usize| format!("/memories/{number}");
    let commands: Vec<(u128, Value)> = vec![
        (0, json!({"command": "view", "path": "/memories"})),
        (0, json!({"command": "view", "path": file(0)})),
        (1, json!({"command": "create", "path": "/memories/new", "file_text": "text"})),
        (1, json!({"command": "str_replace", "path": file(1), "old_str": "text", "new_str": "new"})),
        (1, json!({"command": "insert", "path": file(2), "insert_line": 0, "insert_text": "new"})),
        (1, json!({"command": "rename", "old_path": file(3), "new_path": "/memories/moved"})),
        (1, json!({"command": "delete", "path": file(4)})),
    ];
    for (alone, command) in commands {
        for rests in [false, true] {
            for commits in [0, 1, 2, 5, 10] {
                let (bucket, store) = TestBucket::opened().await;
                let other = bucket.other().await;
                // Writers rest before some numbers, such as 8.
                for number in 0..8 {
                    write(&store, &file(number), "text").await.unwrap();
                }
                call(&store, json!({"command": "view", "path": "/memories"})).await;
                for number in 0..commits {
                    write(&other, "/memories/other", &number.to_string()).await.unwrap();
                }
                if rests {
                    tokio::time::sleep(Duration::from_secs(10)).await; // it is time for a check
                }
                let (round_trips, made) = measure(&bucket, call(&store, command.clone())).await;
                let most = if commits == 0 && !rests { alone.max(1) } else { alone + 3 };
                assert!(round_trips <= most, "{command}, {commits}, {rests}: {round_trips} round trips: {made:?}");
            }
        }
    }
}
