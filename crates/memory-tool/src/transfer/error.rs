//! [`TransferError`]: why a copy, an export or an import could not go on.

use std::io;
use std::path::PathBuf;

use memory_tool_core::{ErrorKind, StoreError};

/// Why a copy, an export or an import could not go on. For the operator: it names files of the host. What concerns single files is in
/// the report instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The memory that files are read from failed.
    #[error("cannot read the source memory; what was transferred stays, and running it again continues from there")]
    Reading(#[source] StoreError),
    /// The memory that files are written to failed.
    #[error(
        "cannot write to the destination memory; what was transferred stays, and running it again continues from there"
    )]
    Writing(#[source] StoreError),
    /// Both memories have files in common, as far as their URLs tell. Memories over a store of the program's own, and mounted stores,
    /// are not compared.
    #[error(
        "cannot copy a memory into itself: what is written to the destination could be among the files of the source"
    )]
    SameMemory,
    /// The target of an export cannot be written.
    #[error("cannot write {}", path.display())]
    Target {
        /// The directory or archive.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The writer that an archive goes to failed.
    #[error("cannot write the archive")]
    Writer(#[source] io::Error),
    /// The target of an export holds something already.
    #[error(
        "cannot export to {}: something is there. Name a directory that is new or empty, or a file that does not exist, or overwrite it",
        path.display()
    )]
    TargetTaken {
        /// The directory or archive.
        path: PathBuf,
    },
    /// The name of the target is that of an archive in a format that is not written.
    #[error(
        "cannot export to {}: its format is not supported. Name a directory, or a file that ends in .tar, .tar.gz or .tgz",
        path.display()
    )]
    TargetFormat {
        /// The target.
        path: PathBuf,
    },
    /// The source of an import cannot be read.
    #[error("cannot read {name}")]
    Source {
        /// The path, or `the archive` for a reader.
        name: String,
        /// The cause.
        source: io::Error,
    },
    /// The source of an import is an archive in a format that is not read.
    #[error(
        "cannot import {name}: {format} is not supported. Name a directory, a tar archive, or one that is compressed with gzip"
    )]
    SourceFormat {
        /// The path, or `the archive` for a reader.
        name: String,
        /// The format.
        format: &'static str,
    },
    /// The source of an import is the directory of a local store, which also holds files that are not those of the memory.
    #[error("cannot import {}: it is the directory of a store. Open it as a memory and copy it instead", path.display())]
    SourceIsStore {
        /// The source.
        path: PathBuf,
    },
    /// The source of an import holds nothing under the directory that was named.
    #[error("there is nothing under {directory} in {name}")]
    NothingUnder {
        /// The directory.
        directory: String,
        /// The path, or `the archive` for a reader.
        name: String,
    },
}

impl TransferError {
    /// The kind of error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Reading(error) | Self::Writing(error) => error.kind(),
            Self::SameMemory | Self::SourceIsStore { .. } => ErrorKind::Invalid,
            Self::TargetTaken { .. } => ErrorKind::AlreadyExists,
            Self::TargetFormat { .. } | Self::SourceFormat { .. } => ErrorKind::Unsupported,
            Self::NothingUnder { .. } => ErrorKind::NotFound,
            Self::Target { .. } | Self::Writer(_) | Self::Source { .. } => ErrorKind::Other,
        }
    }

    /// Whether the same transfer may succeed later, with nothing else done.
    pub fn is_retryable(&self) -> bool {
        self.kind().is_retryable()
    }
}
