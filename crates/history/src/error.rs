//! [`HistoryError`]: why an operation on the history failed.

use memory_tool_core::{ErrorKind, InvalidBatch, StoreError, StorePath};

use crate::records::READING;

/// An error of [`History`](crate::History).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// There is no entry with this number.
    #[error("there is no entry {number}; the newest is {newest}")]
    NoEntry {
        /// The number.
        number: u64,
        /// The number of the newest entry, or 0.
        newest: u64,
    },
    /// The history was cleared, restored or made again, so that the number belongs to another entry.
    #[error("entry {number} is another one now: the history was cleared or restored")]
    OtherEntry {
        /// The number.
        number: u64,
    },
    /// An entry was removed because of the [limits](crate::Limits) or by a [repair](crate::History::repair).
    #[error("the history before entry {oldest} was removed")]
    Forgotten {
        /// The number of the oldest entry.
        oldest: u64,
    },
    /// A needed entry was [redacted](crate::History::redact).
    #[error("entry {number} was redacted, so what it changed is not known")]
    Redacted {
        /// The number of the redacted entry.
        number: u64,
    },
    /// An entry was damaged or lost, and then [replaced](crate::History::repair).
    #[error("entry {number} was lost, so what it changed is not known")]
    Lost {
        /// The number of the lost entry.
        number: u64,
    },
    /// The contents were not kept, because they could not be read when they were replaced, or had expired.
    #[error("the contents of {path} before entry {number} were not kept: they were unreadable or had expired")]
    NotKept {
        /// The file.
        path: StorePath,
        /// The entry that replaced the contents.
        number: u64,
    },
    /// The entry has no change with this index.
    #[error("entry {number} has no change with the index {index}")]
    NoChange {
        /// The number of the entry.
        number: u64,
        /// The index.
        index: usize,
    },
    /// No change is left to undo.
    #[error("there is nothing to undo")]
    NothingToUndo,
    /// No undo is left to redo.
    #[error("there is nothing to redo")]
    NothingToRedo,
    /// The files are already like that.
    #[error("nothing differs")]
    Unchanged,
    /// Files are no longer as the entries left them.
    #[error("{} since: {}", if .paths.len() == 1 { "a file has changed" } else { "files have changed" }, list(.paths))]
    Changed {
        /// The paths in the way.
        paths: Vec<StorePath>,
    },
    /// A file would have to take the place of a directory, or a directory the place of a file.
    #[error("a file and a directory would have to swap places in one step; first remove or rename {path}")]
    FileAndDirectory {
        /// The path in the way.
        path: StorePath,
    },
    /// The file did not exist at that time.
    #[error("{path} was not a file after entry {number}")]
    NotAFile {
        /// The path.
        path: StorePath,
        /// The entry.
        number: u64,
    },
    /// It was not deleted, or was made again, so the state to restore has to be chosen.
    #[error("{path} exists; choose the state to restore")]
    Exists {
        /// The path.
        path: StorePath,
    },
    /// No known entry changed the file or directory.
    #[error("the history has no change of {path}")]
    NoChangeOf {
        /// The path.
        path: StorePath,
    },
    /// The text to erase or its mark is not valid.
    #[error("{reason}")]
    InvalidText {
        /// The reason.
        reason: &'static str,
    },
    /// The store failed.
    #[error(transparent)]
    Store(StoreError),
}

impl From<StoreError> for HistoryError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::InvalidBatch(InvalidBatch::Overlap { path, other }) => {
                Self::FileAndDirectory { path: path.min(other) }
            }
            error => Self::Store(error),
        }
    }
}

impl HistoryError {
    /// Converts the error, for a program that has only errors of stores.
    pub fn into_store_error(self) -> StoreError {
        match self {
            Self::Store(error) => error,
            error => StoreError::failure(ErrorKind::Other, READING, error),
        }
    }
}

fn list(paths: &[StorePath]) -> String {
    let shown: Vec<_> = paths.iter().take(10).map(StorePath::as_str).collect();
    let more = paths.len().saturating_sub(shown.len());
    let end = if more == 0 { String::new() } else { format!(" and {more} more") };
    shown.join(", ") + &end
}
