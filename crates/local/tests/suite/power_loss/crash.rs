//! The states in which a loss of power can leave the disk.
//!
//! Flushing a file makes its contents durable, and flushing a directory its names. A loss of power leaves any part of
//! the other operations. Changes of one file or directory reach the disk in order; changes of different files and
//! directories in any order. A rename changes two directories at once. The first write of a file that is missing may be
//! there in part, or as zeros.

use std::collections::BTreeSet;
use std::iter::successors;

use memory_tool_test_fixtures::by_tier;

use super::model::{Disk, Effect, Inode, Operation, Recording, Tree};

/// A disk writes this many bytes at once, so an overwrite within them is never torn.
const SECTOR: usize = 512;

/// The maximum number of sets with the same number of missing operations. Larger sets are sampled regularly.
fn max_sets() -> usize {
    by_tier(100, 1_000)
}

/// An instant at which the power can fail.
pub(super) struct Crash<'a> {
    durable: Disk,
    /// The operations that may be missing.
    pending: Vec<&'a Operation>,
}

/// A state of the disk after a loss of power.
pub(super) struct State {
    pub(super) tree: Tree,
    /// The missing operations, for messages.
    pub(super) missing: String,
}

/// The indices of missing operations.
pub(super) type Missing = BTreeSet<usize>;

/// Sets with the same number of missing operations, and how many sets were left out.
#[derive(Default)]
pub(super) struct Level {
    pub(super) sets: Vec<Missing>,
    pub(super) left_out: usize,
}

impl Level {
    fn sample(all: BTreeSet<Missing>) -> Option<Self> {
        let step = all.len().div_ceil(max_sets()).max(1);
        let left_out = all.len() - all.len().div_ceil(step);
        let sets: Vec<_> = all.into_iter().step_by(step).collect();
        (!sets.is_empty()).then_some(Self { sets, left_out })
    }
}

impl<'a> Crash<'a> {
    /// The instant before the first operation.
    pub(super) fn new(recording: &Recording) -> Self {
        Self { durable: recording.live.blank(), pending: Vec::new() }
    }

    /// Moves to the instant after the next operation.
    pub(super) fn advance(&mut self, operation: &'a Operation) {
        match &operation.effect {
            Effect::Flush { inode, before } => self.flush(*inode, *before),
            Effect::Acknowledge(_) => {}
            _ => {
                // Among many overwrites of the same bytes, only the first and the last matter.
                let mut same =
                    (0..self.pending.len()).filter(|&index| overwrites(self.pending[index], operation)).skip(1);
                if let Some(index) = same.next() {
                    self.pending.remove(index);
                }
                self.pending.push(operation);
            }
        }
    }

    /// Makes operations durable, and the earlier ones of their files and directories.
    fn flush(&mut self, inode: Option<Inode>, before: usize) {
        let mut flushed: Vec<&Operation> = Vec::new();
        for operation in self.pending.iter().rev() {
            let is_flushed = operation.number < before
                && inode.is_none_or(|inode| operation.effect.changed().contains(&inode))
                || flushed.iter().any(|later| overlap(later, operation));
            flushed.extend(is_flushed.then_some(*operation));
        }
        flushed.iter().rev().for_each(|operation| self.durable.apply(&operation.effect));
        self.pending.retain(|operation| flushed.iter().all(|flushed| flushed.number != operation.number));
    }

    /// The sets of operations that a loss of power may take away, starting with the empty set.
    pub(super) fn levels(&self) -> impl Iterator<Item = Level> {
        let first = Level { sets: vec![Missing::new()], left_out: 0 };
        successors(Some(first), |level| {
            Level::sample(level.sets.iter().flat_map(|missing| self.with_another(missing)).collect())
        })
    }

    /// The sets with one more missing operation. Later operations on the same files are missing too.
    fn with_another(&self, missing: &Missing) -> Vec<Missing> {
        let present: Vec<_> = (0..self.pending.len()).filter(|index| !missing.contains(index)).collect();
        let is_last = |index: usize| {
            let mut later = present.iter().filter(|&&later| later > index);
            !later.any(|&later| overlap(self.pending[later], self.pending[index]))
        };
        let last = present.iter().copied().filter(|&index| is_last(index));
        last.map(|index| missing.iter().copied().chain([index]).collect()).collect()
    }

    /// The state without the missing operations, and the states in which one of them is a torn write.
    pub(super) fn states(&self, missing: &Missing) -> Vec<State> {
        let mut disk = self.durable.clone();
        let is_present = |index: &usize| !missing.contains(index);
        (0..self.pending.len()).filter(is_present).for_each(|index| disk.apply(&self.pending[index].effect));
        let names: Vec<_> = missing.iter().map(|&index| &*self.pending[index].description).collect();
        let names = names.join(", ");
        let mut states = vec![State { tree: disk.tree(), missing: names.clone() }];
        let mut files = BTreeSet::new();
        for &index in missing {
            let Operation { effect, description, .. } = self.pending[index];
            let Effect::Write { file, offset, bytes } = effect else { continue };
            if files.insert(file) {
                for bytes in torn(disk.content(*file).len(), *offset, bytes) {
                    let mut disk = disk.clone();
                    disk.apply(&Effect::Write { file: *file, offset: *offset, bytes });
                    states.push(State { tree: disk.tree(), missing: format!("{names}; torn: {description}") });
                }
            }
        }
        states
    }
}

fn overlap(left: &Operation, right: &Operation) -> bool {
    let changed = left.effect.changed();
    right.effect.changed().iter().any(|inode| changed.contains(inode))
}

/// Whether both write the same bytes of a file.
fn overwrites(left: &Operation, right: &Operation) -> bool {
    let range = |effect: &Effect| match effect {
        Effect::Write { file, offset, bytes } => Some((*file, *offset, bytes.len())),
        _ => None,
    };
    range(&left.effect).is_some_and(|left| range(&right.effect) == Some(left))
}

/// The incomplete forms of a write to a file: its first half, and zeros where it extends the file.
fn torn(size: usize, offset: usize, bytes: &[u8]) -> Vec<Vec<u8>> {
    let half = bytes[..bytes.len() / 2].to_vec();
    let last = (offset + bytes.len()).saturating_sub(1);
    match () {
        () if size <= offset => vec![half, vec![0; bytes.len()]],
        () if offset / SECTOR == last / SECTOR => Vec::new(),
        () => vec![half],
    }
}
