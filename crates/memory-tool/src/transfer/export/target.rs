//! [`Target`]: an archive or a directory to write.

use std::io;
use std::path::Path;

use memory_tool_core::{FileTimes, StorePath};
use tempfile::NamedTempFile;

use crate::transfer::error::TransferError;
use crate::transfer::existing::Existing;

/// A directory or an archive to write. Its methods block.
pub(super) trait Target: Send {
    fn add(&mut self, path: &StorePath, content: &[u8], times: FileTimes) -> Result<AddOutcome, TransferError>;

    fn finish(self: Box<Self>, allowed: Existing) -> Result<FinishOutcome, TransferError>;
}

/// The prefix of the names of incomplete files.
pub(in crate::transfer) const PARTIAL_PREFIX: &str = ".memory-tool-export-";

/// The name of a file in an archive.
pub(super) fn name_of(path: &StorePath) -> String {
    path.segments().collect::<Vec<_>>().join("/")
}

/// Creates the temporary file for an archive, in its directory.
pub(super) fn open_partial(path: &Path, existing: Existing) -> Result<NamedTempFile, TransferError> {
    if existing == Existing::Keep && path.symlink_metadata().is_ok() {
        return Err(TransferError::TargetExists { path: path.to_owned() });
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Temporary files are readable only by their owner.
    let partial = NamedTempFile::with_prefix_in(PARTIAL_PREFIX, directory);
    partial.map_err(|source| TransferError::Target { path: path.to_owned(), source })
}

/// Gives a complete archive its name. If it may not replace an existing archive, it is removed.
pub(super) fn name_partial(
    partial: NamedTempFile,
    path: &Path,
    existing: Existing,
    allowed: Existing,
) -> io::Result<FinishOutcome> {
    partial.as_file().sync_all()?;
    let named = match existing.min(allowed) {
        Existing::Replace => partial.persist(path),
        Existing::Keep => partial.persist_noclobber(path),
    };
    match named {
        Ok(_) => Ok(FinishOutcome::Written),
        Err(error) if existing == Existing::Replace && error.error.kind() == io::ErrorKind::AlreadyExists => {
            Ok(FinishOutcome::Kept)
        }
        Err(error) => Err(error.error),
    }
}

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
