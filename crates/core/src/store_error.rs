//! [`StoreError`]: why a store did not do what it was asked, and what kind of failure it was.

use crate::path::{MemoryPath, PathError};
use crate::quota::QuotaKind;
use crate::record::RecordName;

/// A cause from outside this crate.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// Why a store did not do what it was asked. For the engine and the operator: the model reads only the reason of a refusal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A path that was to be free is not, or a directory is where a file was to be written.
    #[error("{path} already exists")]
    AlreadyExists {
        /// The occupied path.
        path: MemoryPath,
    },
    /// Nothing is at the path.
    #[error("{path} does not exist")]
    NotFound {
        /// The path.
        path: MemoryPath,
    },
    /// The file is not at the required version, or is gone.
    #[error("{path} is not at the required version")]
    VersionMismatch {
        /// The path.
        path: MemoryPath,
    },
    /// A record is not at the required version, or is or is not there against the precondition.
    #[error("the record {name} is not at the required version")]
    RecordMismatch {
        /// The name of the record.
        name: RecordName,
    },
    /// A file stands where a directory is needed.
    #[error("{path} is a file, not a directory")]
    NotADirectory {
        /// The file.
        path: MemoryPath,
    },
    /// A directory stands where a file is needed.
    #[error("{path} is a directory, not a file")]
    NotAFile {
        /// The directory.
        path: MemoryPath,
    },
    /// The file is not UTF-8 text.
    #[error("{path} is not UTF-8 text")]
    NotText {
        /// The file.
        path: MemoryPath,
    },
    /// A symbolic link stands at or above the path (`[P4]`).
    #[error("{path} is a symbolic link")]
    SymbolicLink {
        /// The link.
        path: MemoryPath,
    },
    /// A device, socket, pipe or the like stands at or above the path (`[P4]`).
    #[error("{path} is neither a file nor a directory")]
    NotARegularFile {
        /// The thing.
        path: MemoryPath,
    },
    /// The batch would pass a quota (`[X4]`). The text is safe to show to the model.
    #[error("{path} would have {asked} {kind}; the limit is {limit} ({left} more allowed)")]
    OverQuota {
        /// The limited directory.
        path: MemoryPath,
        /// What there would be too much of.
        kind: QuotaKind,
        /// How much there may be.
        limit: u64,
        /// How much there would be after the batch.
        asked: u64,
        /// How much may be added to what there is; nothing where that is over the limit already. For a file or path that is new,
        /// the whole limit.
        left: u64,
    },
    /// A policy does not allow it.
    #[error("{path}: {reason}")]
    Refused {
        /// What was to be read or changed.
        path: MemoryPath,
        /// Which policy refused, in a word or two, such as `limits` or `read-only`.
        policy: &'static str,
        /// Why, in a sentence without a full stop that says what would be allowed. The model reads it.
        reason: String,
    },
    /// A path breaks a rule, or a rename would give a file such a path.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The program put an impossible batch together.
    #[error(transparent)]
    InvalidBatch(#[from] InvalidBatch),
    /// The backend failed.
    #[error("{operation} failed")]
    Failure {
        /// What kind of failure it was.
        kind: FailureKind,
        /// What the store was doing, such as `reading a file`.
        operation: &'static str,
        /// The cause.
        #[source]
        source: BoxError,
    },
}

impl StoreError {
    /// A failure of the backend during `operation`.
    pub fn failure(kind: FailureKind, operation: &'static str, source: impl Into<BoxError>) -> Self {
        Self::Failure { kind, operation, source: source.into() }
    }

    /// A refusal by `policy`.
    pub fn refused(path: &MemoryPath, policy: &'static str, reason: impl Into<String>) -> Self {
        Self::Refused { path: path.clone(), policy, reason: reason.into() }
    }

    /// The kind of error, for a program that decides by it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::AlreadyExists { .. } => ErrorKind::AlreadyExists,
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::VersionMismatch { .. } | Self::RecordMismatch { .. } => ErrorKind::Conflict,
            Self::OverQuota { .. } | Self::Refused { .. } => ErrorKind::Refused,
            Self::NotADirectory { .. }
            | Self::NotAFile { .. }
            | Self::NotText { .. }
            | Self::SymbolicLink { .. }
            | Self::NotARegularFile { .. }
            | Self::Path(_)
            | Self::InvalidBatch(_) => ErrorKind::Invalid,
            Self::Failure { kind, .. } => ErrorKind::Storage(*kind),
        }
    }

    /// Whether the same call may succeed later, with nothing else done. A precondition that does not hold is not of that kind: read
    /// again, and make another batch.
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind(), ErrorKind::Storage(FailureKind::Busy))
    }
}

// For paths that were parsed before, whose conversion cannot fail.
impl From<std::convert::Infallible> for StoreError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

/// A mistake of the program that put a [`Batch`](crate::Batch) together.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidBatch {
    /// The root can be neither written nor renamed.
    #[error("a batch can neither write nor rename /memories itself")]
    Root,
    /// Two changes of one batch overlap.
    #[error("a batch changes both {other} and {path}, which overlap")]
    Overlap {
        /// The path that was added.
        path: MemoryPath,
        /// The path that the batch changes already.
        other: MemoryPath,
    },
    /// Two changes of one batch are about one record.
    #[error("a batch changes the record {name} twice")]
    SameRecord {
        /// The name of the record.
        name: RecordName,
    },
}

/// What kind of error it is, the same for stores, tools and openings.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// What was asked for makes no sense here: invalid input, an invalid path, a file where a directory is needed.
    Invalid,
    /// Nothing is there.
    NotFound,
    /// Something is there already.
    AlreadyExists,
    /// Others kept changing what the call depends on.
    Conflict,
    /// A policy or a quota does not allow it.
    Refused,
    /// The program was built without what this needs, or the storage does not offer it.
    Unsupported,
    /// The storage failed.
    Storage(FailureKind),
    /// None of these.
    Other,
}

impl ErrorKind {
    /// Whether the same command or opening may succeed later, with nothing else done. A failure of [unknown outcome](FailureKind::OutcomeUnknown)
    /// is not: look first whether the change was made.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Conflict | Self::Storage(FailureKind::Busy))
    }
}

/// What kind of failure of the backend it was, as far as that matters to the reader of the reply.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum FailureKind {
    /// The process may not do this: permissions, credentials, a read-only medium.
    AccessDenied,
    /// Another process or task held the store for too long. Trying again may help.
    Busy,
    /// Stored data is not what the store wrote.
    Damaged,
    /// No space or quota is left.
    Full,
    /// The change may or may not have been made.
    OutcomeUnknown,
    /// The backend cannot hold a file of that name.
    UnsupportedName,
    /// Anything else. Nothing was changed.
    Other,
}
