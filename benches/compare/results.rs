//! All figures of a run.

use std::collections::HashMap;

use crate::contestant::Contestant;
use crate::measure::{median, quantile};
use crate::workloads::Id;

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
    pub(crate) fn median(&self) -> f64 {
        median(&self.samples)
    }

    pub(crate) fn quartiles(&self) -> [f64; 2] {
        [0.25, 0.75].map(|part| quantile(&self.samples, part))
    }

    pub(crate) fn part_lost(&self) -> f64 {
        self.lost as f64 / self.inserted.max(1) as f64
    }

    /// The commands per second, without the insertions that were lost.
    pub(crate) fn kept_per_second(&self) -> f64 {
        (1.0 - self.part_lost()) / self.median()
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
        self.figure(id, contestant).map(Figure::median)
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
