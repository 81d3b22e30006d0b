//! [`Queue`]: the batches and notes that wait for a commit.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use memory_tool_core::Batch;
use tokio::sync::oneshot;

use crate::commit::Step;
use crate::deadline::Deadline;
use crate::failure::Failure;
use crate::manifest::Manifest;
use crate::staging::Staging;

const MAX_BATCHES: usize = 1_000;
/// The approximate bytes of contents in one commit.
const MAX_GROUP_BYTES: usize = 4 * 1024 * 1024;

/// The batches that wait for a commit.
#[derive(Debug, Default)]
pub(crate) struct Queue(pub(crate) Mutex<Waiting>);

#[derive(Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) entries: Vec<Submission>,
    /// Whether a task takes entries.
    pub(crate) has_writer: bool,
}

#[derive(Debug)]
pub(crate) enum Work {
    /// A batch, and the locations of its contents.
    Batch { batch: Batch, staging: Staging },
    /// A change of no file.
    Note(Step),
    /// Valid only if `replaces` is still the latest checkpoint and no further collection was noted.
    Checkpoint { manifest: Manifest, replaces: u64 },
}

/// Work whose author waits.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) work: Work,
    pub(crate) deadline: Deadline,
    pub(crate) phase: Arc<Phase>,
    pub(crate) done: oneshot::Sender<Result<(), Failure>>,
}

#[derive(Debug, Default)]
pub(crate) struct Phase(AtomicU8);

impl Phase {
    pub(crate) const WAITING: u8 = 0;
    pub(crate) const SENT: u8 = 1;
    pub(crate) const WITHDRAWN: u8 = 2;

    pub(crate) fn change(&self, from: u8, to: u8) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl Waiting {
    pub(crate) fn move_to(&mut self, group: &mut Vec<Submission>) {
        let mut bytes: usize = group.iter().map(Submission::inline_bytes).sum();
        let room = MAX_BATCHES.saturating_sub(group.len());
        let fits = |submission: &Submission| {
            let fits = bytes == 0 || bytes < MAX_GROUP_BYTES;
            bytes += submission.inline_bytes();
            fits
        };
        let count = self.entries.iter().take(room).map(fits).take_while(|fits| *fits).count();
        group.extend(self.entries.drain(..count));
    }
}

impl Submission {
    pub(crate) fn inline_bytes(&self) -> usize {
        match &self.work {
            Work::Batch { staging, .. } => staging.inline_bytes(),
            _ => 0,
        }
    }

    /// Whether contents were put before a collection that the log notes.
    pub(crate) fn is_outdated(&self, collections: u64) -> bool {
        matches!(&self.work, Work::Batch { staging, .. } if staging.is_outdated(collections))
    }
}
