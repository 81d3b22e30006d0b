//! `[X3]`: Concurrent processes on one bucket store are linearizable and lose no acknowledged edit, even when requests
//! and responses are lost, truncated, delayed or refused.
//!
//! Each of four processes uses a real server through its own proxy. A fifth one collects garbage and trims the log
//! without a grace period: always in every second store, and seldom in the others, so that the processes write
//! checkpoints. The test records all replies with their times, and checks them against the in-memory reference. Replies
//! that report no change are assumed to be correct. A reply with an unknown outcome may mean either result.
//!
//! Some requests arrive up to 45 seconds late. When all have arrived, the files must be the same as before, and a
//! collection must leave nothing unused.
//!
//! The faults and commands are derived from a seed, which is printed. The test starts itself as the processes, so it
//! has no harness.

#![cfg(test)]

mod faults;
mod recording;
mod report;
mod workload;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use memory_tool_core::BoxError;
use memory_tool_test_buckets::session::serve_if_requested;
use memory_tool_test_fixtures::linearizability::{Mistake, check_log, check_order};
use memory_tool_test_fixtures::{by_tier, in_full, printed_seed};
use memory_tool_test_servers::{AzureServer, GcsServer, S3Server, Server};
use object_store::path::Path;
use recording::{PROCESSES, Plan, Recording};
use report::Report;

/// The number of stores per server in the default and the full tier. Each store has its own history. They differ in the
/// [pause]. Many short histories, because the possible orders grow exponentially with the number of unknown outcomes in
/// a history.
const STORES: [u64; 2] = [2, 6];
const STORES_OF_LONG_TIER: u64 = 36;
/// The number of commands of each process on each store.
const COMMANDS: usize = 48;
const _: () = assert!(3 * STORES_OF_LONG_TIER as usize * PROCESSES * COMMANDS >= 20_000);

/// A mistake must be detected within this number of stores. Most are detected in the first.
const MAX_STORES_OF_MISTAKE: u64 = 100;

fn main() -> Result<ExitCode, BoxError> {
    if serve_if_requested(Mistake::wrap_if_selected)? {
        return Ok(ExitCode::SUCCESS);
    }
    let seed = printed_seed();
    let mut trials = vec![
        Trial::test("s3", move || test_stores(&S3Server::start()?, seed)),
        Trial::test("google_cloud_storage", move || test_stores(&GcsServer::start()?, seed)),
        Trial::test("azure", move || test_stores(&AzureServer::start()?, seed)),
    ];
    // The simulation detects all mistakes with these checks in seconds. One shows that the recordings suffice.
    let checks: [(_, Check); 2] = [
        ("order", |recorded| check_order(&recorded.start, &recorded.calls)),
        ("log", |recorded| check_log(&recorded.calls, &recorded.end)),
    ];
    trials.extend(checks.map(|(by, check)| {
        let trial = move || detect(Mistake::ForgetsChanges, check, seed);
        Trial::test(format!("broken_stores_are_detected::by_{by}"), trial)
    }));
    // More than processors, because each waits most of the time.
    let arguments = Arguments { test_threads: Some(3), ..Arguments::from_args() };
    Ok(libtest_mimic::run(&arguments, trials).exit_code())
}

fn test_stores(server: &dyn Server, seed: u64) -> Result<(), Failed> {
    let mut report = Report::default();
    let mut ended = Vec::new();
    for number in 0..by_tier(in_full(STORES[0], STORES[1]), STORES_OF_LONG_TIER) {
        let plan = Plan { seed: seed.wrapping_add(number), commands: COMMANDS, pause: pause(number), mistake: None };
        let (recording, store) = Recording::new(server, &prefix(number), &plan);
        report.add(&recording);
        ended.push(store);
        let start = Instant::now();
        let in_store = |error| format!("store {number}: {error}");
        check_order(&recording.start, &recording.calls).map_err(in_store)?;
        check_log(&recording.calls, &recording.end).map_err(in_store)?;
        report.checking += start.elapsed();
    }
    println!("{report}");
    for (number, store) in ended.into_iter().enumerate() {
        store.check().map_err(|error| format!("store {number}, after all requests have arrived: {error}"))?;
    }
    Ok(report.check_coverage()?)
}

type Check = fn(&Recording) -> Result<(), String>;

fn detect(mistake: Mistake, check: Check, seed: u64) -> Result<(), Failed> {
    let server = GcsServer::start()?;
    for number in 0..MAX_STORES_OF_MISTAKE {
        let plan =
            Plan { seed: seed.wrapping_add(number), commands: COMMANDS, pause: pause(number), mistake: Some(mistake) };
        let (recording, _) = Recording::new(&server, &prefix(number), &plan);
        if let Err(error) = check(&recording) {
            println!("detected {mistake:?} in store {number}: {}", error.lines().next().unwrap_or_default());
            return Ok(());
        }
    }
    Err(format!("{mistake:?} was not detected in {MAX_STORES_OF_MISTAKE} stores").into())
}

/// The time between two collections.
fn pause(store: u64) -> Duration {
    if store.is_multiple_of(2) { Duration::from_millis(5) } else { Duration::from_secs(5) }
}

fn prefix(store: u64) -> Path {
    Path::from(format!("linearizability/{store}"))
}
