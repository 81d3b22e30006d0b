//! [`TransferError`]: the errors of copies, exports and imports.

use std::io;
use std::path::PathBuf;

use memory_tool_core::{ErrorKind, StoreError};

/// An error that stops a copy, an export or an import.
///
/// It is for the operator, since it contains host paths. Problems with single files are in the report instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The source memory failed.
    #[error("cannot read the source memory. Transferred files are kept: run the transfer again to continue")]
    Reading(#[source] StoreError),
    /// The destination memory failed.
    #[error("cannot write to the destination memory. Transferred files are kept: run the transfer again to continue")]
    Writing(#[source] StoreError),
    /// The memories share files, according to their URLs. Custom stores and mounted stores are not compared.
    #[error("cannot copy a memory into itself: the source and the destination share files")]
    SameMemory,
    /// A history cannot be copied.
    #[error("cannot copy the history: {reason}")]
    History {
        /// The reason.
        reason: &'static str,
    },
    /// The source could not be read, or the destination not written, in the one step of a copy with the history.
    #[error("cannot copy the memory with its history")]
    WithHistory(#[source] StoreError),
    /// The memories cannot be synchronized with these options.
    #[error("cannot synchronize the memories: {reason}")]
    CannotSync {
        /// The reason.
        reason: &'static str,
    },
    /// A memory that is synchronized has lost all its files.
    #[error(
        "the memory {side} has lost all its {files} files. If they were removed on purpose, allow an empty memory \
         (allow_empty, --allow-empty); otherwise restore it, or remove its directory or database to get them again"
    )]
    Emptied {
        /// The [name](crate::transfer::SyncOptions::names) of the memory.
        side: String,
        /// The number of files that it had.
        files: usize,
    },
    /// A memory cannot be read or written. Synchronized files stay.
    #[error("cannot synchronize the memory {side}. All changes are kept: synchronize again to continue")]
    Syncing {
        /// The [name](crate::transfer::SyncOptions::names) of the memory.
        side: String,
        /// The cause.
        source: StoreError,
    },
    /// The target of an export cannot be written.
    #[error("cannot write {}", path.display())]
    Target {
        /// The directory or archive.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The writer of an archive failed.
    #[error("cannot write the archive")]
    Writer(#[source] io::Error),
    /// The target of an export exists.
    #[error(
        "cannot export to {}: the target exists. Use a new or empty directory or a new file, or overwrite the target",
        path.display()
    )]
    TargetExists {
        /// The directory or archive.
        path: PathBuf,
    },
    /// The format of the target is not supported for exports.
    #[error(
        "cannot export to {}: its format is not supported. Name a directory, or a file that ends in .tar, .tar.gz, \
         .tgz or .zip",
        path.display()
    )]
    TargetFormat {
        /// The target.
        path: PathBuf,
    },
    /// The source of an import cannot be read.
    #[error("cannot read {name}")]
    Source {
        /// The path of the source, or `the archive` for a reader.
        name: String,
        /// The cause.
        source: io::Error,
    },
    /// The format of the source is not supported for imports.
    #[error(
        "cannot import {name}: {format} is not supported. Use a directory, or a tar archive with or without gzip \
         compression"
    )]
    SourceFormat {
        /// The path of the source, or `the archive` for a reader.
        name: String,
        /// The format.
        format: &'static str,
    },
    /// The source of an import is the directory of a local store, which also contains internal files.
    #[error(
        "cannot import {}: it is the directory of a store. Open it as a memory and copy it instead",
        path.display()
    )]
    SourceIsStore {
        /// The source.
        path: PathBuf,
    },
    /// The source of an import contains no files under the selected directory.
    #[error("there is nothing under {directory} in {name}")]
    NothingUnder {
        /// The directory.
        directory: String,
        /// The path of the source, or `the archive` for a reader.
        name: String,
    },
}

impl TransferError {
    /// The kind of error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Reading(error) | Self::Writing(error) | Self::WithHistory(error) => error.kind(),
            Self::Syncing { source, .. } => source.kind(),
            Self::CannotSync { .. } | Self::Emptied { .. } => ErrorKind::Invalid,
            Self::SameMemory | Self::History { .. } | Self::SourceIsStore { .. } => ErrorKind::Invalid,
            Self::TargetExists { .. } => ErrorKind::AlreadyExists,
            Self::TargetFormat { .. } | Self::SourceFormat { .. } => ErrorKind::Unsupported,
            Self::NothingUnder { .. } => ErrorKind::NotFound,
            Self::Target { .. } | Self::Writer(_) | Self::Source { .. } => ErrorKind::Other,
        }
    }

    /// Whether a retry of the same transfer may succeed.
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind(), ErrorKind::Conflict | ErrorKind::Busy)
    }
}
