//! [`TransferProgress`]: how far a transfer has come.

/// How far a copy, an export or an import has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct TransferProgress {
    /// The number of files that are done.
    pub files: u64,
    /// The number of files that were listed. `None` for an import, which lists nothing in advance.
    pub of: Option<u64>,
}

impl TransferProgress {
    pub(super) fn new(files: u64, of: impl Into<Option<u64>>) -> Self {
        Self { files, of: of.into() }
    }
}
