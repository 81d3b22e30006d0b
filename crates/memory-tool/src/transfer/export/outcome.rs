//! The results of exports to archives and directories.

/// The prefix of the names of incomplete files.
pub(in crate::transfer) const PARTIAL_PREFIX: &str = ".memory-tool-export-";

/// The result of adding a file.
pub(super) enum AddOutcome {
    /// The file is in the target.
    Written,
    /// The target does not support the file.
    Refused { reason: String },
}

/// The result of an export.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum FinishOutcome {
    Written,
    Kept,
}
