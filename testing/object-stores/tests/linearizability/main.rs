//! `[X3]`: processes that work at once on one store in a bucket, while requests and answers are lost, cut, delayed and refused,
//! behave as if one command came after another; and no acknowledged edit is lost.
//!
//! Each of four processes has a proxy of its own before a real server; a fifth one collects, without a grace period. All that
//! they were told, and when, is checked against the in-memory reference. A reply that says that nothing was changed is
//! taken at its word; one that says that the outcome is unknown may mean either.
//!
//! The faults and commands follow from a seed, which is printed. The test runs itself as the processes, so it has no harness.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a test prints, and fails by panicking")]

mod faults;
mod judgement;
mod recording;
mod report;
mod workload;

use std::process::ExitCode;
use std::time::Instant;

use libtest_mimic::{Arguments, Failed, Trial};
use memory_tool_core::BoxError;
use memory_tool_test_fixtures::{by_tier, printed_seed};
use memory_tool_test_object_stores::Mistake;
use memory_tool_test_object_stores::session::serve_if_asked;
use memory_tool_test_servers::{AzureServer, GcsServer, S3Server, Server};
use object_store::path::Path;
use recording::{PROCESSES, Plan, Recording};
use report::Report;

/// How many stores the processes work on with each server, one after another, in each tier. Each is a history for itself.
const STORES: u64 = 3;
const STORES_OF_LONG_TIER: u64 = 8;
/// The commands of each process on each store.
const COMMANDS: usize = 150;
const _: () = assert!(3 * STORES_OF_LONG_TIER as usize * PROCESSES * COMMANDS >= 10_000);

/// In how many stores a mistake must have been found. It mostly is in the first.
const STORES_UNTIL_FOUND: u64 = 100;

fn main() -> Result<ExitCode, BoxError> {
    if serve_if_asked(Mistake::wrap)? {
        return Ok(ExitCode::SUCCESS);
    }
    let seed = printed_seed();
    let mut trials = vec![
        Trial::test("s3", move || work_on_many_stores(&S3Server::start()?, seed)),
        Trial::test("google_cloud_storage", move || work_on_many_stores(&GcsServer::start()?, seed)),
        Trial::test("azure", move || work_on_many_stores(&AzureServer::start()?, seed)),
    ];
    let broken = Mistake::ALL.map(|mistake| (mistake, "order", judgement::check_order as Judge));
    let broken = broken.into_iter().chain([(Mistake::ForgetsChanges, "log", judgement::check_log as Judge)]);
    trials.extend(broken.map(|(mistake, by, judge)| {
        Trial::test(format!("a_broken_store_is_found::{mistake:?}_by_{by}"), move || find(mistake, judge, seed))
    }));
    // One after another, as they take all processors that there are.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    Ok(libtest_mimic::run(&arguments, trials).exit_code())
}

fn work_on_many_stores(server: &dyn Server, seed: u64) -> Result<(), Failed> {
    let mut report = Report::default();
    for number in 0..by_tier(STORES, STORES, STORES_OF_LONG_TIER) {
        let plan = Plan { seed: seed.wrapping_add(number), commands: COMMANDS, mistake: None };
        let recording = Recording::make(server, &prefix(number), &plan);
        report.add(&recording);
        let start = Instant::now();
        let in_store = |error| format!("store {number}: {error}");
        judgement::check_order(&recording).map_err(in_store)?;
        judgement::check_log(&recording).map_err(in_store)?;
        report.checking += start.elapsed();
    }
    println!("{report}");
    Ok(report.check_that_it_is_enough()?)
}

/// What says whether a recording is as it should be.
type Judge = fn(&Recording) -> Result<(), String>;

/// Looks for a mistake in the same way.
fn find(mistake: Mistake, judge: Judge, seed: u64) -> Result<(), Failed> {
    let server = GcsServer::start()?;
    for number in 0..STORES_UNTIL_FOUND {
        let plan = Plan { seed: seed.wrapping_add(number), commands: COMMANDS, mistake: Some(mistake) };
        let recording = Recording::make(&server, &prefix(number), &plan);
        if let Err(found) = judge(&recording) {
            println!("{mistake:?} is found in store {number}: {}", found.lines().next().unwrap_or_default());
            return Ok(());
        }
    }
    Err(format!("{mistake:?} is not found in {STORES_UNTIL_FOUND} stores").into())
}

fn prefix(store: u64) -> Path {
    Path::from(format!("linearizability/{store}"))
}
