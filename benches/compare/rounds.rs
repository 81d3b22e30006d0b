//! Interleaved rounds, so that a slow moment of the machine affects all contestants.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::contestant::Worker;
use crate::results::{Insertions, Results};
use crate::workloads::{Check, Sample, Workload};

/// Runs each workload once per round on each contestant. The first round only warms up.
pub(crate) fn measure(
    workloads: &[Workload],
    rounds: usize,
    directory: &Path,
    workers: &mut [Worker],
    results: &mut Results,
) {
    let mut settling = File::create(directory.join("settling")).unwrap();
    let mut measured: Vec<Vec<Samples>> =
        workloads.iter().map(|_| workers.iter().map(|_| Samples::default()).collect()).collect();
    for round in 0..=rounds {
        for (workload, measured) in workloads.iter().zip(&mut measured) {
            for turn in 0..workers.len() {
                let index = (turn + round) % workers.len();
                let samples = run(workload, &mut workers[index], &mut settling);
                if round > 0 {
                    measured[index].extend(samples);
                }
            }
        }
    }
    for (workload, measured) in workloads.iter().zip(measured) {
        for (worker, samples) in workers.iter().zip(measured) {
            let Samples { seconds, insertions, failures } = samples;
            results.add_with(workload.id, worker.contestant, seconds, insertions, failures);
        }
    }
}

#[derive(Default)]
struct Samples {
    seconds: Vec<f64>,
    insertions: Insertions,
    failures: usize,
}

impl Samples {
    fn extend(&mut self, other: Self) {
        self.seconds.extend(other.seconds);
        self.insertions.lost += other.insertions.lost;
        self.insertions.total += other.insertions.total;
        self.failures += other.failures;
    }
}

fn run(workload: &Workload, worker: &mut Worker, settling: &mut File) -> Samples {
    if !workload.contestants.contains(&worker.contestant) {
        return Samples::default();
    }
    worker.run_all(&workload.prepare);
    settle(settling);
    let outcome = worker.run(&workload.timed);
    let failures = outcome.failures.len();
    let insertions = match &workload.check {
        Some(check) => insertions(check, failures, worker),
        None => {
            let contestant = worker.contestant;
            assert!(outcome.failures.is_empty(), "{}, {contestant:?}: {:?}", workload.id, outcome.failures);
            Insertions::default()
        }
    };
    worker.run_all(&workload.clean);
    let seconds = match workload.sample {
        Sample::Command => outcome.seconds,
        Sample::Average => vec![outcome.elapsed / workload.timed.commands() as f64],
        Sample::Round => vec![outcome.seconds.iter().sum()],
    };
    Samples { seconds, insertions, failures }
}

/// Commits the journal of the file system, so that no contestant waits for the unflushed changes of another.
fn settle(file: &mut File) {
    file.write_all(b"x").unwrap();
    file.sync_all().unwrap();
}

/// Counts the lines that are missing although no command failed.
fn insertions(check: &Check, failures: usize, worker: &mut Worker) -> Insertions {
    let replies = worker.run_all(&check.views).replies;
    let missing = |(lines, reply): (&Vec<String>, String)| lines.iter().filter(|line| !reply.contains(*line)).count();
    let missing: usize = check.lines.iter().zip(replies).map(missing).sum();
    Insertions { lost: missing.saturating_sub(failures), total: check.lines.iter().map(Vec::len).sum() }
}
