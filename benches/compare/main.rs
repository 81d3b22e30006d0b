//! Compares the local and SQLite stores with the SDKs' tools and with floors, and checks the performance goals. See
//! `README.md`.

#![allow(clippy::print_stderr, reason = "a benchmark prints")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a benchmark fails by panicking")]

mod contestant;
mod file_floor;
mod fill;
mod goals;
mod in_process;
#[path = "../measure.rs"]
mod measure;
#[path = "../process.rs"]
mod process;
#[path = "../report.rs"]
mod report;
mod results;
mod rounds;
mod sqlite_floor;
mod startup;
mod tables;
mod workloads;

use std::time::Instant;

use crate::contestant::Contestant;
use crate::measure::{Amount, target_directory};
use crate::results::Results;
use crate::rounds::measure;

fn main() {
    let (rounds, concurrent_rounds, largest) = match Amount::from_arguments() {
        Amount::Quick => (4, 1, 10_000),
        Amount::Usual => (20, 8, 100_000),
        Amount::Full => (20, 8, 1_000_000),
    };
    let growth: Vec<_> = (2..).map(|exponent| 10_usize.pow(exponent)).take_while(|files| *files <= largest).collect();
    let directory = tempfile::tempdir_in(target_directory()).unwrap();
    let directory = directory.path();
    let start = Instant::now();
    let progress = |section| eprintln!("{:>5.0?} {section}", start.elapsed());
    let mut results = Results::default();
    progress("first reply of a new process");
    startup::measure(directory, rounds, &mut results);
    progress("creating large stores");
    fill::create_stores(directory, &growth);
    let mut workers: Vec<_> = Contestant::ALL.into_iter().filter_map(|of| of.start(directory)).collect();
    progress("commands");
    measure(&workloads::commands(), rounds, directory, &mut workers, &mut results);
    progress("listings and the recorded session");
    measure(&workloads::whole(), rounds.div_ceil(2), directory, &mut workers, &mut results);
    progress("growth");
    measure(&workloads::growth(&growth), rounds, directory, &mut workers, &mut results);
    progress("concurrent sessions");
    measure(&workloads::concurrent(), concurrent_rounds, directory, &mut workers, &mut results);
    let mut versions: Vec<_> = workers.iter().map(|worker| worker.version.clone()).collect();
    versions.push(format!("SQLite {}", rusqlite::version()));
    report::print_machine(directory, &versions);
    goals::print(&results, &growth);
    tables::print(&results, &growth);
}
