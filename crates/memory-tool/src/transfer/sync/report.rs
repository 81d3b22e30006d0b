//! [`SyncReport`]: the result of a synchronization.

use memory_tool_core::{Change, StorePath};
use serde::{Serialize, Serializer};

use crate::transfer::report::{FileProblem, add};

/// The command of the changes.
pub(super) const COMMAND: &str = "sync";

/// The result of [`Memory::sync`](crate::Memory::sync). In data, it also has the field `status`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
#[must_use = "it contains the conflicts found"]
pub struct SyncReport {
    /// Whether the changes were only simulated.
    pub dry_run: bool,
    /// The changes of the first memory.
    pub first: SyncedSide,
    /// The changes of the second memory.
    pub second: SyncedSide,
    /// The first 1,000 files whose changes of both sides were merged.
    pub merged: Vec<StorePath>,
    /// The number of further merged files.
    pub more_merged: u64,
    /// The first 1,000 files with two texts that were kept, and the path of the older text.
    pub conflicts: Vec<SyncConflict>,
    /// The number of further conflicts.
    pub more_conflicts: u64,
    /// The first 1,000 files with the older text of this or an earlier conflict, until they are removed.
    pub conflict_copies: Vec<StorePath>,
    /// The number of further ones.
    pub more_conflict_copies: u64,
}

/// The changes of one of the two memories.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SyncedSide {
    /// The name of the side.
    pub name: String,
    /// The number of files that were written.
    pub written: u64,
    /// Their total size in bytes.
    pub bytes: u64,
    /// The number of files that were removed.
    pub removed: u64,
    /// The number of files that were renamed.
    pub renamed: u64,
    /// The first 1,000 files that a screen redacted.
    pub redacted: Vec<StorePath>,
    /// The number of further redacted files.
    pub more_redacted: u64,
    /// The first 1,000 files that were not changed here, because the memory refused it or they kept changing.
    pub refused: Vec<FileProblem>,
    /// The number of further refused files.
    pub more_refused: u64,
    /// The first 1,000 files that cannot be read.
    pub unreadable: Vec<FileProblem>,
    /// The number of further unreadable files.
    pub more_unreadable: u64,
    /// Whether directories cannot be read, so that deleted files of this memory were kept in the other one.
    pub is_partial: bool,
}

/// A file with different texts on both sides.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SyncConflict {
    /// The file, which has the newer text.
    pub path: StorePath,
    /// The file with the older text.
    pub copy: StorePath,
}

/// Whether both memories have the same files.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum SyncStatus {
    /// Both memories have the same files.
    InSync,
    /// Both have the same files, some of them with the older text of a conflict.
    InSyncWithConflicts,
    /// Some files differ.
    Partly,
}

impl SyncReport {
    /// Whether both memories have the same files.
    pub fn status(&self) -> SyncStatus {
        if !(self.first.is_complete() && self.second.is_complete()) {
            SyncStatus::Partly
        } else if self.conflict_copies.is_empty() {
            SyncStatus::InSync
        } else {
            SyncStatus::InSyncWithConflicts
        }
    }

    /// Whether both memories have the same files, and no older texts of conflicts.
    pub fn is_complete(&self) -> bool {
        self.status() == SyncStatus::InSync
    }

    /// Both sides report it.
    pub(super) fn add_merged(&mut self, path: &StorePath) {
        if !self.merged.contains(path) {
            add(path.clone(), &mut self.merged, &mut self.more_merged);
        }
    }

    /// Both sides report it.
    pub(super) fn add_conflict(&mut self, path: &StorePath, copy: &StorePath) {
        let conflict = SyncConflict { path: path.clone(), copy: copy.clone() };
        if !self.conflicts.contains(&conflict) {
            add(conflict, &mut self.conflicts, &mut self.more_conflicts);
        }
    }

    pub(super) fn add_conflict_copy(&mut self, path: StorePath) {
        add(path, &mut self.conflict_copies, &mut self.more_conflict_copies);
    }
}

impl SyncedSide {
    fn is_complete(&self) -> bool {
        self.refused.is_empty() && self.unreadable.is_empty() && !self.is_partial
    }

    /// Counts changes that were made.
    pub(super) fn count(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Write { content, .. } => {
                    self.written += 1;
                    self.bytes += content.len() as u64;
                }
                Change::Remove { .. } => self.removed += 1,
                Change::Rename { .. } => self.renamed += 1,
            }
        }
    }

    pub(super) fn add_refused(&mut self, path: &StorePath, reason: impl Into<String>) {
        add(FileProblem::new(path, reason), &mut self.refused, &mut self.more_refused);
    }

    pub(super) fn add_unreadable(&mut self, path: &StorePath, reason: impl Into<String>) {
        add(FileProblem::new(path, reason), &mut self.unreadable, &mut self.more_unreadable);
    }

    pub(super) fn add_redacted(&mut self, path: StorePath) {
        add(path, &mut self.redacted, &mut self.more_redacted);
    }
}

impl Serialize for SyncReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields<'a> {
            status: SyncStatus,
            dry_run: bool,
            first: &'a SyncedSide,
            second: &'a SyncedSide,
            merged: &'a [StorePath],
            more_merged: u64,
            conflicts: &'a [SyncConflict],
            more_conflicts: u64,
            conflict_copies: &'a [StorePath],
            more_conflict_copies: u64,
        }
        let Self { dry_run, more_merged, more_conflicts, more_conflict_copies, .. } = *self;
        let (status, first, second, merged) = (self.status(), &self.first, &self.second, &self.merged);
        let (conflicts, conflict_copies) = (&self.conflicts, &self.conflict_copies);
        let fields = Fields {
            status,
            dry_run,
            first,
            second,
            merged,
            more_merged,
            conflicts,
            more_conflicts,
            conflict_copies,
            more_conflict_copies,
        };
        fields.serialize(serializer)
    }
}
