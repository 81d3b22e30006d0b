//! [`Target`]: an archive or a directory to write.

use memory_tool_core::{FileTimes, StorePath};

use crate::transfer::error::TransferError;
use crate::transfer::existing::Existing;

/// A directory or an archive to write. Its methods block.
pub(super) trait Target: Send {
    fn add(&mut self, path: &StorePath, content: &[u8], times: FileTimes) -> Result<AddOutcome, TransferError>;

    fn finish(self: Box<Self>, allowed: Existing) -> Result<FinishOutcome, TransferError>;
}

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
