//! What becomes of a file and of a target, the same for archives and directories.

/// How the name of a file begins that is not complete yet.
pub(in crate::transfer) const PARTIAL_PREFIX: &str = ".memory-tool-export-";

/// What became of a file.
pub(super) enum Added {
    Written,
    /// The target cannot hold it.
    Refused {
        reason: String,
    },
}

/// How an export ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Finished {
    Written,
    /// An archive that was there before stays.
    Kept,
}
