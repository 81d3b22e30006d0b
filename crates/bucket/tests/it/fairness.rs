//! Writers at different distances from the bucket share the numbers of the log. The time is simulated, so the results
//! do not depend on the machine.

use std::time::Duration;

use memory_tool_bucket::BucketStore;
use memory_tool_test_fixtures::in_full;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{TestBucket, call, read, write};

#[derive(Clone, Copy, Debug)]
enum Work {
    Write,
    ReadAndWrite,
    /// A command.
    Insert,
}

impl Work {
    const ALL: [Self; 3] = [Self::Write, Self::ReadAndWrite, Self::Insert];

    /// The round trips of an edit without competitors.
    fn round_trips(self) -> u32 {
        match self {
            Self::Write | Self::Insert => 1,
            Self::ReadAndWrite => 2,
        }
    }
}

/// The durations of the edits of each writer, in ascending order.
struct Measured {
    length: Duration,
    edits: Vec<Vec<Duration>>,
}

impl Measured {
    fn total(&self) -> usize {
        self.edits.iter().map(Vec::len).sum()
    }

    fn per_second(&self) -> f64 {
        self.total() as f64 / self.length.as_secs_f64()
    }

    /// The smallest number of edits of a writer, divided by an equal part of all edits.
    fn smallest_share(&self) -> f64 {
        let fewest = self.edits.iter().map(Vec::len).min().unwrap();
        (fewest * self.edits.len()) as f64 / self.total() as f64
    }
}

/// Writers with these round trips in milliseconds edit different files of one store. No edit may fail.
async fn measure(round_trips: &[u64], work: Work, length: Duration) -> Measured {
    let bucket = TestBucket::new();
    let (mut stores, mut buckets) = (Vec::new(), Vec::new());
    for round_trip in round_trips {
        buckets.push(bucket.at(Duration::from_millis(*round_trip) / 2));
        stores.push(buckets[stores.len()].open().await);
    }
    let end = Instant::now() + length;
    let start = |(number, store)| tokio::spawn(run(store, format!("/memories/{number}"), work, end));
    let writers: Vec<_> = stores.into_iter().enumerate().map(start).collect();
    let mut edits = Vec::new();
    for writer in writers {
        edits.push(writer.await.unwrap());
    }
    let measured = Measured { length, edits };
    let requests: Vec<_> = buckets.iter().flat_map(|bucket| bucket.take_requests()).collect();
    let per_edit = |method: &str| {
        requests.iter().filter(|request| request.starts_with(method)).count() as f64 / measured.total() as f64
    };
    let (puts, gets) = (per_edit("PUT"), per_edit("GET"));
    println!("{work:?} {round_trips:?}: {:.1} edits/s, {puts:.2} PUT and {gets:.2} GET each", measured.per_second());
    for (round_trip, edits) in round_trips.iter().zip(&measured.edits) {
        let part = edits.len() as f64 / measured.total() as f64;
        let at = |percent: usize| edits[edits.len() * percent / 101].as_millis();
        println!("  {round_trip} ms: {:.1} %; p50 {}, p99 {}, max {} ms", part * 100.0, at(50), at(99), at(100));
    }
    measured
}

async fn run(store: BucketStore, file: String, work: Work, end: Instant) -> Vec<Duration> {
    let mut edits = Vec::new();
    write(&store, &file, "text").await.unwrap();
    while Instant::now() < end {
        let started = Instant::now();
        match work {
            Work::Write => write(&store, &file, "text").await.unwrap(),
            Work::ReadAndWrite => {
                read(&store, &file).await;
                write(&store, &file, "text").await.unwrap();
            }
            Work::Insert => assert!(call(&store, insert(&file)).await.contains("has been edited")),
        }
        edits.push(started.elapsed());
    }
    edits.sort();
    edits
}

fn insert(file: &str) -> Value {
    json!({"command": "insert", "path": file, "insert_line": 0, "insert_text": ""})
}

#[tokio::test(start_paused = true)]
async fn a_distant_writer_gets_a_fifth_of_its_share_or_more() {
    for work in in_full(&[Work::Insert][..], &Work::ALL) {
        for round_trips in [&[4, 40][..], &[4, 40, 40, 40], &[4, 4, 4, 40]] {
            let measured = measure(round_trips, *work, Duration::from_secs(40)).await;
            assert!(measured.smallest_share() >= 0.2, "{work:?} {round_trips:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn writers_at_the_same_distance_share_evenly() {
    let works = [(Work::Insert, 33.0), (Work::Write, 33.0), (Work::ReadAndWrite, 23.0)];
    for (work, least) in works.into_iter().take(in_full(1, works.len())) {
        let measured = measure(&[20; 8], work, Duration::from_secs(40)).await;
        assert!(measured.smallest_share() >= 0.5, "{work:?}");
        assert!(measured.per_second() >= least, "{work:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_writer_without_competitors_barely_waits() {
    for work in Work::ALL {
        for round_trip in [20, 40] {
            let measured = measure(&[round_trip], work, Duration::from_secs(20)).await;
            let least = Duration::from_millis(round_trip) * work.round_trips();
            assert!(measured.per_second() * least.as_secs_f64() > 0.8, "{work:?} {round_trip}");
        }
    }
}

/// The first commit is not one of another writer, for which this one would rest.
#[tokio::test(start_paused = true)]
async fn the_session_that_created_a_store_does_not_wait() {
    let round_trip = Duration::from_millis(20);
    let store = TestBucket::new().at(round_trip / 2).open().await;
    let started = Instant::now();
    for number in 0..60 {
        write(&store, "/memories/a", &number.to_string()).await.unwrap();
    }
    let taken = started.elapsed();
    assert!(taken <= 61 * round_trip, "{taken:?}"); // the log is checked once
}

/// The other writer is not expected back for long.
#[tokio::test(start_paused = true)]
async fn a_writer_that_stopped_is_forgotten_soon() {
    let bucket = TestBucket::new();
    let near = bucket.at(Duration::from_millis(2)).open().await;
    let far = bucket.at(Duration::from_millis(20)).open().await;
    for number in 0..32 {
        write(&far, "/memories/far", &number.to_string()).await.unwrap();
        write(&near, "/memories/near", &number.to_string()).await.unwrap();
    }
    let started = Instant::now();
    for number in 0..200 {
        write(&near, "/memories/near", &number.to_string()).await.unwrap();
    }
    let taken = started.elapsed();
    println!("200 writes after the other writer stopped: {taken:?}");
    assert!(taken < Duration::from_secs(4), "{taken:?}");
}
