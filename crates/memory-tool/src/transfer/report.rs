//! The results of transfers: [`CopyReport`], [`ExportReport`] and [`ImportReport`].

use memory_tool_core::{StorePath, UnlistedItem};
use serde::Serialize;

/// The most files in a list of a report. Further files are only counted, because there can be more than fit into RAM.
pub(super) const MAX_REPORTED: usize = 1_000;

/// Adds a file to a list of a report. If the list is full, the file is only counted.
pub(super) fn add<T>(file: T, list: &mut Vec<T>, more: &mut u64) {
    if list.len() < MAX_REPORTED {
        list.push(file);
    } else {
        *more += 1;
    }
}

/// A problem with a file.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FileProblem {
    /// The path in the memory, or the name in the source of an import, which can be invalid.
    pub path: String,
    /// The reason, for the operator.
    pub reason: String,
}

impl FileProblem {
    pub(super) fn new(path: impl ToString, reason: impl Into<String>) -> Self {
        Self { path: path.to_string(), reason: reason.into() }
    }

    pub(super) fn of_unlisted(item: &UnlistedItem) -> Self {
        Self::new(item.location(), item.explanation())
    }
}

/// The results of writing files to a memory.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WriteReport {
    /// Whether the changes were only simulated.
    pub dry_run: bool,
    /// The number of new files.
    pub copied: u64,
    /// The number of replaced files.
    pub overwritten: u64,
    /// The total size of the new and replaced files in bytes.
    pub bytes: u64,
    /// The number of files that already had the same contents.
    pub unchanged: u64,
    /// The first 1,000 files that a screen redacted.
    pub redacted: Vec<StorePath>,
    /// The number of further redacted files.
    pub more_redacted: u64,
    /// The first 1,000 files that were not written because the path has other contents.
    pub conflicts: Vec<FileProblem>,
    /// The number of further conflicts.
    pub more_conflicts: u64,
    /// The first 1,000 files that the memory refused.
    pub refused: Vec<FileProblem>,
    /// The number of further refused files.
    pub more_refused: u64,
    /// The first 1,000 files whose contents differed or could not be read after the write.
    pub unverified: Vec<FileProblem>,
    /// The number of further unverified files.
    pub more_unverified: u64,
    /// The number of files that only the destination has.
    pub only_in_destination: u64,
}

impl WriteReport {
    /// Whether every file is in the memory, including redacted files.
    pub fn is_complete(&self) -> bool {
        self.conflicts.is_empty() && self.refused.is_empty() && self.unverified.is_empty()
    }
}

/// The result of [`Memory::copy_to`](crate::Memory::copy_to).
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[non_exhaustive]
#[must_use = "it contains the problems found"]
pub struct CopyReport {
    /// The results in the destination.
    #[serde(flatten)]
    pub written: WriteReport,
    /// The number of entries of the history that were copied.
    pub entries: u64,
    /// The first 1,000 files of the source that cannot be read, and items that it cannot list.
    pub unreadable: Vec<FileProblem>,
    /// The number of further unreadable files.
    pub more_unreadable: u64,
    /// The first 1,000 files that were removed from the source after they were copied. They remain in the destination.
    pub removed: Vec<StorePath>,
    /// The number of further removed files.
    pub more_removed: u64,
    /// Whether the source still changed during the last attempt.
    pub source_still_changing: bool,
    /// Whether the source contains no files, which can indicate a wrong name.
    #[serde(skip)]
    pub is_source_empty: bool,
}

impl CopyReport {
    /// Whether the source contains files, and the destination contains all of them.
    pub fn is_complete(&self) -> bool {
        let is_whole = self.unreadable.is_empty() && self.removed.is_empty() && !self.source_still_changing;
        self.written.is_complete() && is_whole && !self.is_source_empty
    }
}

/// The result of [`Memory::export`](crate::Memory::export).
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[non_exhaustive]
#[must_use = "it contains the problems found"]
pub struct ExportReport {
    /// The number of exported files.
    pub exported: u64,
    /// The total size of the exported files in bytes.
    pub bytes: u64,
    /// The first 1,000 files that the target does not support, or whose names no path of the memory can express.
    pub refused: Vec<FileProblem>,
    /// The number of further refused files.
    pub more_refused: u64,
    /// The first 1,000 files and directories that cannot be read.
    pub unreadable: Vec<FileProblem>,
    /// The number of further unreadable files.
    pub more_unreadable: u64,
    /// The first 1,000 files that were removed from the memory during the export.
    pub removed: Vec<StorePath>,
    /// The number of further removed files.
    pub more_removed: u64,
    /// The reason why the existing archive was kept and nothing was exported.
    pub kept: Option<String>,
}

impl ExportReport {
    pub(super) fn add_refused(&mut self, problem: FileProblem) {
        add(problem, &mut self.refused, &mut self.more_refused);
    }

    pub(super) fn add_unreadable(&mut self, problem: FileProblem) {
        add(problem, &mut self.unreadable, &mut self.more_unreadable);
    }

    /// Whether every file was exported.
    pub fn is_complete(&self) -> bool {
        self.refused.is_empty() && self.unreadable.is_empty() && self.kept.is_none()
    }
}

/// The result of [`Memory::import`](crate::Memory::import).
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[non_exhaustive]
#[must_use = "it contains the problems found"]
pub struct ImportReport {
    /// The results in the memory.
    #[serde(flatten)]
    pub written: WriteReport,
    /// The first 1,000 skipped entries: links, special files, invalid names and files over the size limit.
    pub skipped: Vec<FileProblem>,
    /// The number of further skipped entries.
    pub more_skipped: u64,
    /// The reason why the archive could not be read completely.
    pub archive_error: Option<String>,
}

impl ImportReport {
    /// Whether every file of the source is in the memory.
    pub fn is_complete(&self) -> bool {
        self.written.is_complete() && self.skipped.is_empty() && self.archive_error.is_none()
    }
}
