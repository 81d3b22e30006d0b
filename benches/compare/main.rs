//! Compares the local and SQLite stores with the SDKs' tools, and checks the performance goals. See `README.md`.

#![allow(clippy::print_stderr, reason = "a benchmark prints")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a benchmark fails by panicking")]

mod contestant;
#[path = "../measure.rs"]
mod measure;
#[path = "../process.rs"]
mod process;
#[path = "../report.rs"]
mod report;
mod rounds;
mod startup;
mod tables;
mod workloads;

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Instant;

use crate::contestant::Contestant;
use crate::measure::{Amount, medians, target_directory};
use crate::rounds::{Results, measure};

fn main() {
    let (rounds, concurrent_rounds) = match Amount::from_arguments() {
        Amount::Quick => (4, 1),
        Amount::Usual => (20, 8),
    };
    let directory = tempfile::tempdir_in(target_directory()).unwrap();
    let directory = directory.path();
    let start = Instant::now();
    let progress = |section| eprintln!("{:>5.0?} {section}", start.elapsed());
    let mut results = Results::default();
    progress("first reply of a new process");
    startup::measure(directory, rounds, &mut results);
    progress("creating the stores to list");
    workloads::fill_listings(directory);
    let mut workers: Vec<_> = Contestant::ALL.into_iter().filter_map(|of| of.start(directory)).collect();
    progress("commands and listings");
    measure(&workloads::single(), rounds, directory, &mut workers, &mut results);
    progress("concurrent sessions");
    measure(&workloads::concurrent(), concurrent_rounds, directory, &mut workers, &mut results);
    let versions: Vec<_> = workers.iter().map(|worker| worker.version.clone()).collect();
    report::print_machine(directory, &versions);
    tables::print_goals(&results, flush_of_a_log(directory, 10 * rounds));
    tables::print(&results);
}

/// The seconds of an append of 4 KB to a preallocated log and its flush: the floor of a durable change.
fn flush_of_a_log(directory: &Path, rounds: usize) -> f64 {
    let log = File::create_new(directory.join("log")).unwrap();
    log.write_all_at(&vec![0; 4_096 * rounds], 0).unwrap();
    log.sync_all().unwrap();
    let [seconds] = medians(
        rounds,
        [&|round| {
            log.write_all_at(&[b'x'; 4_096], 4_096 * round as u64).unwrap();
            log.sync_data().unwrap();
        }],
    );
    seconds
}
