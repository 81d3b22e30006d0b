//! Interleaved rounds, so that a slow moment of the machine affects all contestants.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::contestant::{Contestant, Worker};
use crate::measure::median;
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
                let figure = run(workload, worker, &mut settling);
                if round > 0 {
                    results.add(workload.id, worker.contestant, figure);
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

/// All figures of a run.
#[derive(Default)]
pub(crate) struct Results(HashMap<(Id, Contestant), Figure>);

/// A workload of a contestant.
#[derive(Default)]
pub(crate) struct Figure {
    /// In seconds or bytes.
    pub(crate) samples: Vec<f64>,
    /// Lines that were looked up after they were inserted.
    pub(crate) inserted: usize,
    pub(crate) lost: usize,
}

impl Figure {
    pub(crate) fn part_lost(&self) -> f64 {
        self.lost as f64 / self.inserted.max(1) as f64
    }

    /// The commands per second, without the insertions that were lost.
    pub(crate) fn kept_per_second(&self) -> f64 {
        (1.0 - self.part_lost()) / median(&self.samples)
    }
}

impl Results {
    /// Adds the figure of one round.
    pub(crate) fn add(&mut self, id: Id, contestant: Contestant, round: Figure) {
        let figure = self.0.entry((id, contestant)).or_default();
        figure.samples.extend(round.samples);
        figure.inserted += round.inserted;
        figure.lost += round.lost;
    }

    pub(crate) fn figure(&self, id: Id, contestant: Contestant) -> Option<&Figure> {
        self.0.get(&(id, contestant))
    }

    pub(crate) fn median(&self, id: Id, contestant: Contestant) -> Option<f64> {
        self.figure(id, contestant).map(|figure| median(&figure.samples))
    }

    /// The median of one contestant divided by the median of another.
    pub(crate) fn ratio(&self, id: Id, contestant: Contestant, other: Contestant) -> Option<f64> {
        Some(self.median(id, contestant)? / self.median(id, other)?)
    }

    /// The lost lines of all workloads.
    pub(crate) fn lost(&self, contestant: Contestant) -> usize {
        self.0.iter().filter(|((_, of), _)| *of == contestant).map(|(_, figure)| figure.lost).sum()
    }
}
