//! Compares the local and SQLite stores with the SDKs' tools and with floors, and checks the performance goals. See
//! `README.md`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a benchmark fails by panicking")]

mod charts;
mod contestant;
mod fill;
mod goals;
mod json;
mod machine;
mod options;
mod plot;
mod protocol;
mod report;
mod results;
mod rounds;
mod startup;
mod statistics;
mod worker;
mod workloads;

use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::contestant::{Contestant, Worker};
use crate::options::{Invocation, Options};
use crate::results::Results;
use crate::rounds::measure;

fn main() {
    match options::parse() {
        Ok(Invocation::Worker { contestant, base }) => worker::serve(contestant, &base),
        Ok(Invocation::Compare(options)) => compare(&options),
        Err(message) => {
            eprintln!("{message}");
            std::process::exit(2);
        }
    }
}

fn compare(options: &Options) {
    let start = Instant::now();
    fs::create_dir_all(&options.directory).unwrap();
    let directory = tempfile::tempdir_in(&options.directory).unwrap();
    let machine = machine::describe(directory.path());
    let results = run(options, directory.path(), start);
    let markdown = report::markdown(&machine, &results);
    println!("{markdown}");
    fs::create_dir_all(&options.output).unwrap();
    fs::write(options.output.join("compare.md"), markdown).unwrap();
    fs::write(options.output.join("compare.json"), json::render(&machine, &results)).unwrap();
    fs::write(options.output.join("compare.svg"), charts::svg(&results)).unwrap();
    let output = options.output.canonicalize().unwrap();
    eprintln!("{:.0?}; wrote compare.md, compare.json and compare.svg to {}", start.elapsed(), output.display());
}

fn run(options: &Options, directory: &Path, start: Instant) -> Results {
    let progress = |section| eprintln!("{:>5.0?} {section}", start.elapsed());
    let mut results = Results::default();
    progress("first reply of a new process");
    startup::measure(directory, options.amount.rounds, &mut results);
    progress("creating large stores");
    for contestant in Contestant::ALL {
        fill::listings(contestant, directory);
        if contestant.is_ours() {
            options.amount.growth.iter().for_each(|&files| fill::growth(contestant, directory, files));
        }
    }
    fill::flush();
    let mut workers: Vec<_> = Contestant::ALL.into_iter().filter_map(|of| Worker::start(of, directory)).collect();
    for worker in &workers {
        results.add_version(worker.contestant, &worker.version);
    }
    progress("commands");
    measure(&workloads::commands(), options.amount.rounds, directory, &mut workers, &mut results);
    progress("listings and the recorded session");
    measure(&workloads::whole(), options.amount.rounds.div_ceil(2), directory, &mut workers, &mut results);
    progress("growth");
    measure(&workloads::growth(&options.amount.growth), options.amount.rounds, directory, &mut workers, &mut results);
    progress("concurrent sessions");
    measure(&workloads::concurrent(), options.amount.concurrent_rounds, directory, &mut workers, &mut results);
    results
}
