//! What became of the files: [`CopyReport`], [`ExportReport`], [`ImportReport`].

use memory_tool_core::MemoryPath;
use serde::Serialize;

/// A file with a problem, and the reason.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FileProblem {
    /// The path in the memory; or the name in the source of an import, which need not be a legal one.
    pub path: String,
    /// The reason, for the operator.
    pub reason: String,
}

impl FileProblem {
    pub(super) fn new(path: impl ToString, reason: impl Into<String>) -> Self {
        Self { path: path.to_string(), reason: reason.into() }
    }
}

/// What became of the files that were written to a memory.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WriteReport {
    /// Whether nothing was written: the other fields say what would be.
    pub dry_run: bool,
    /// The number of files that were not there before.
    pub copied: u64,
    /// The number of files that had other contents before.
    pub overwritten: u64,
    /// The bytes in those two.
    pub bytes: u64,
    /// The number of files that were there before with the same contents.
    pub unchanged: u64,
    /// The files that a screen redacted.
    pub redacted: Vec<MemoryPath>,
    /// The files that were not written because something else is there.
    pub conflicts: Vec<FileProblem>,
    /// The files that the memory refused.
    pub refused: Vec<FileProblem>,
    /// The files that were written and could not be read back as they were written.
    pub unverified: Vec<FileProblem>,
    /// The number of files that only the destination has.
    pub only_in_destination: u64,
}

impl WriteReport {
    /// Whether each file is there, as the policies keep it.
    pub fn is_complete(&self) -> bool {
        self.conflicts.is_empty() && self.refused.is_empty() && self.unverified.is_empty()
    }
}

/// What [`Memory::copy_to`](crate::Memory::copy_to) did.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[non_exhaustive]
#[must_use = "it says whether everything is well"]
pub struct CopyReport {
    /// What became of the files in the destination.
    #[serde(flatten)]
    pub written: WriteReport,
    /// The files of the source that cannot be read.
    pub unreadable: Vec<FileProblem>,
    /// The files that were removed from the source after they were copied. They stay in the destination.
    pub gone: Vec<MemoryPath>,
    /// Whether others still changed files of the source in the last round.
    pub source_still_changing: bool,
    /// Whether the source holds no file, as under a mistyped name.
    #[serde(skip)]
    pub is_source_empty: bool,
}

impl CopyReport {
    /// Whether the destination holds each file of the source, and the source holds any.
    pub fn is_complete(&self) -> bool {
        let is_whole = self.unreadable.is_empty() && self.gone.is_empty() && !self.source_still_changing;
        self.written.is_complete() && is_whole && !self.is_source_empty
    }
}

/// What [`Memory::export`](crate::Memory::export) did.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[non_exhaustive]
#[must_use = "it says whether everything is well"]
pub struct ExportReport {
    /// The number of files that were exported.
    pub exported: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The files that the target cannot hold.
    pub refused: Vec<FileProblem>,
    /// The files that cannot be read.
    pub unreadable: Vec<FileProblem>,
    /// The files that were removed from the memory before their turn came.
    pub gone: Vec<MemoryPath>,
    /// Why the archive that was there before stays, and nothing is exported.
    pub kept: Option<String>,
}

impl ExportReport {
    /// Whether each file is exported.
    pub fn is_complete(&self) -> bool {
        self.refused.is_empty() && self.unreadable.is_empty() && self.kept.is_none()
    }
}

/// What [`Memory::import`](crate::Memory::import) did.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[non_exhaustive]
#[must_use = "it says whether everything is well"]
pub struct ImportReport {
    /// What became of the files in the memory.
    #[serde(flatten)]
    pub written: WriteReport,
    /// What is not a plain file, has an invalid name or is too large: the first thousand.
    pub skipped: Vec<FileProblem>,
    /// How many more there are.
    pub more_skipped: u64,
    /// Why the archive could not be read to its end.
    pub archive_error: Option<String>,
}

impl ImportReport {
    /// Whether each file of the source is in the memory.
    pub fn is_complete(&self) -> bool {
        self.written.is_complete() && self.skipped.is_empty() && self.archive_error.is_none()
    }
}
