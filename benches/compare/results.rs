//! All figures of a run.

use crate::contestant::Contestant;
use crate::statistics::Summary;
use crate::workloads::Id;

#[derive(Default)]
pub(crate) struct Results {
    pub(crate) versions: Vec<(Contestant, String)>,
    pub(crate) figures: Vec<Figure>,
}

/// A workload of a contestant.
pub(crate) struct Figure {
    pub(crate) id: Id,
    pub(crate) contestant: Contestant,
    /// In seconds, bytes or calls.
    pub(crate) summary: Summary,
    pub(crate) insertions: Insertions,
    /// The number of commands that failed.
    pub(crate) failures: usize,
}

impl Figure {
    /// The commands per second, without the insertions that were lost.
    pub(crate) fn kept_per_second(&self) -> f64 {
        let Insertions { lost, total } = self.insertions;
        (total - lost) as f64 / total as f64 / self.summary.median
    }
}

/// Lines that were looked up after they were inserted.
#[derive(Clone, Copy, Default)]
pub(crate) struct Insertions {
    pub(crate) lost: usize,
    pub(crate) total: usize,
}

impl Results {
    pub(crate) fn add_version(&mut self, contestant: Contestant, version: &str) {
        self.versions.push((contestant, version.to_owned()));
    }

    pub(crate) fn add(&mut self, id: Id, contestant: Contestant, samples: Vec<f64>) {
        self.add_with(id, contestant, samples, Insertions::default(), 0);
    }

    /// Adds a figure, unless there are no samples.
    pub(crate) fn add_with(
        &mut self,
        id: Id,
        contestant: Contestant,
        samples: Vec<f64>,
        insertions: Insertions,
        failures: usize,
    ) {
        let summary = Summary::of(samples);
        self.figures.extend(summary.map(|summary| Figure { id, contestant, summary, insertions, failures }));
    }

    pub(crate) fn is_installed(&self, contestant: Contestant) -> bool {
        self.versions.iter().any(|(installed, _)| *installed == contestant)
    }

    pub(crate) fn figure(&self, id: Id, contestant: Contestant) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.id == id && figure.contestant == contestant)
    }

    pub(crate) fn median(&self, id: Id, contestant: Contestant) -> Option<f64> {
        self.figure(id, contestant).map(|figure| figure.summary.median)
    }

    /// The median of one contestant divided by the median of another.
    pub(crate) fn ratio(&self, id: Id, contestant: Contestant, other: Contestant) -> Option<f64> {
        Some(self.median(id, contestant)? / self.median(id, other)?)
    }

    /// The numbers of files of the growing stores.
    pub(crate) fn growth(&self) -> Vec<usize> {
        let mut files: Vec<_> = self
            .figures
            .iter()
            .filter_map(|figure| if let Id::Growth { files, .. } = figure.id { Some(files) } else { None })
            .collect();
        files.sort_unstable();
        files.dedup();
        files
    }
}
