//! Interleaved rounds, so that a slow moment of the machine affects all contestants.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::contestant::Worker;
use crate::results::{Figure, Results};
use crate::workloads::{Id, Workload};

/// Runs each workload once per round on each contestant. The first round only warms up.
pub(crate) fn measure(
    workloads: &[Workload],
    rounds: usize,
    directory: &Path,
    workers: &mut [Worker],
    results: &mut Results,
) {
    let mut settling = File::create(directory.join("settling")).unwrap();
    for round in 0..=rounds {
        for workload in workloads {
            for turn in 0..workers.len() {
                let index = (turn + round) % workers.len();
                let worker = &mut workers[index];
                if workload.id.includes(worker.contestant) {
                    let figure = run(workload, worker, &mut settling);
                    if round > 0 {
                        results.add(workload.id, worker.contestant, figure);
                    }
                }
            }
        }
    }
}

fn run(workload: &Workload, worker: &mut Worker, settling: &mut File) -> Figure {
    worker.run_all(&workload.prepare);
    settle(settling);
    let outcome = worker.run(&workload.timed);
    let failures = outcome.failures.len();
    if workload.lines.is_empty() {
        assert!(failures == 0, "{}, {:?}: {:?}", workload.id, worker.contestant, outcome.failures);
    }
    let replies = worker.run_all(&workload.views).replies.concat();
    let missing = workload.lines.iter().filter(|line| !replies.contains(*line)).count();
    worker.run_all(&workload.clean);
    let commands: usize = workload.timed.iter().map(|session| session.commands.len()).sum();
    Figure {
        samples: match workload.id {
            Id::RecordedSession => vec![outcome.seconds.iter().sum()],
            Id::Concurrent { .. } => vec![outcome.elapsed / commands as f64],
            _ => outcome.seconds,
        },
        inserted: workload.lines.len(),
        // Lines that are missing although no command failed.
        lost: missing.saturating_sub(failures),
    }
}

/// Commits the journal of the file system, so that no contestant waits for the unflushed changes of another.
fn settle(file: &mut File) {
    file.write_all(b"x").unwrap();
    file.sync_all().unwrap();
}
