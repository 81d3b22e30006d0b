//! [`TransferProgress`]: the progress of a transfer.

/// The progress of a copy, an export or an import.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct TransferProgress {
    /// The number of files processed so far.
    pub files: u64,
    /// The total number of files, or `None` for an import.
    pub of: Option<u64>,
}

impl TransferProgress {
    pub(super) fn new(files: u64, of: impl Into<Option<u64>>) -> Self {
        Self { files, of: of.into() }
    }
}
