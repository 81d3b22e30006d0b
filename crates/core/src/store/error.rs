//! [`StoreError`], and the kinds of errors and failures.

use crate::store::path_rules::PathError;
use crate::store::quota::QuotaKind;
use crate::store::store_path::StorePath;

/// The cause of an error, of any type.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// An error of a [`Store`](crate::Store).
///
/// It is for the operator. The engine converts it to an [`Error`](crate::Error), which the model reads.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The path must not exist but does, or a directory is at the path of a file to write.
    #[error("{path} already exists")]
    AlreadyExists {
        /// The path.
        path: StorePath,
    },
    /// The path does not exist.
    #[error("{path} does not exist")]
    NotFound {
        /// The path.
        path: StorePath,
    },
    /// The file has another version than required, or does not exist.
    #[error("{path} is not at the required version")]
    VersionMismatch {
        /// The path.
        path: StorePath,
    },
    /// The path is a file, and a directory is required.
    #[error("{path} is a file, not a directory")]
    NotADirectory {
        /// The file.
        path: StorePath,
    },
    /// The path is a directory, and a file is required.
    #[error("{path} is a directory, not a file")]
    NotAFile {
        /// The directory.
        path: StorePath,
    },
    /// The file is not UTF-8 text.
    #[error("{path} is not UTF-8 text")]
    NotText {
        /// The file.
        path: StorePath,
    },
    /// The path or a parent is a symbolic link (`[P4]`).
    #[error("{path} is a symbolic link")]
    SymbolicLink {
        /// The link.
        path: StorePath,
    },
    /// The path or a parent is a special file, such as a device, socket or pipe (`[P4]`).
    #[error("{path} is neither a file nor a directory")]
    NotARegularFile {
        /// The special file.
        path: StorePath,
    },
    /// The batch would exceed a quota (`[X4]`). The message is safe to show to the model.
    #[error("{path} would have {requested} {kind}; the limit is {limit} ({remaining} more allowed)")]
    OverQuota {
        /// The limited directory.
        path: StorePath,
        /// The part of the quota that would be exceeded.
        kind: QuotaKind,
        /// The limit.
        limit: u64,
        /// The usage after the batch.
        requested: u64,
        /// The limit minus the current usage, or 0 if the usage already exceeds the limit. A new file has a usage of 0.
        remaining: u64,
    },
    /// A policy refused the operation.
    #[error("{path}: {reason}")]
    Refused {
        /// The path to read or change.
        path: StorePath,
        /// A short name of the policy, such as `limits` or `read-only`.
        policy: &'static str,
        /// The reason, including what the policy would allow. The model reads it.
        reason: String,
    },
    /// A path is invalid, or a rename would make the path of a file invalid.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The batch is invalid.
    #[error(transparent)]
    InvalidBatch(#[from] InvalidBatch),
    /// The backend failed.
    #[error("{operation} failed")]
    Failure {
        /// The kind, one of [`ErrorKind::OF_FAILURES`].
        kind: ErrorKind,
        /// The operation that failed, such as `reading a file`.
        operation: &'static str,
        /// The cause.
        #[source]
        source: BoxError,
    },
}

impl StoreError {
    /// Creates a failure of the backend during `operation`. `kind` is one of [`ErrorKind::OF_FAILURES`].
    pub fn failure(kind: ErrorKind, operation: &'static str, source: impl Into<BoxError>) -> Self {
        Self::Failure { kind, operation, source: source.into() }
    }

    /// Creates a refusal by `policy`.
    pub fn refused(path: &StorePath, policy: &'static str, reason: impl Into<String>) -> Self {
        Self::Refused { path: path.clone(), policy, reason: reason.into() }
    }

    /// The kind of error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::AlreadyExists { .. } => ErrorKind::AlreadyExists,
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::VersionMismatch { .. } => ErrorKind::Conflict,
            Self::OverQuota { .. } | Self::Refused { .. } => ErrorKind::Refused,
            Self::NotADirectory { .. }
            | Self::NotAFile { .. }
            | Self::NotText { .. }
            | Self::SymbolicLink { .. }
            | Self::NotARegularFile { .. }
            | Self::Path(_)
            | Self::InvalidBatch(_) => ErrorKind::Invalid,
            Self::Failure { kind, .. } => *kind,
        }
    }

    /// The name for programs, logs and metrics, which stays the same when messages change: `version_mismatch`, for
    /// example. It contains no part of a path or of a file.
    pub fn name(&self) -> &'static str {
        match self {
            Self::VersionMismatch { .. } => "version_mismatch",
            Self::NotADirectory { .. } => "not_a_directory",
            Self::NotAFile { .. } => "not_a_file",
            Self::NotText { .. } => "not_text",
            Self::SymbolicLink { .. } => "symbolic_link",
            Self::NotARegularFile { .. } => "not_a_regular_file",
            Self::OverQuota { .. } => "over_quota",
            Self::Path(_) => "invalid_path",
            Self::InvalidBatch(_) => "invalid_batch",
            Self::AlreadyExists { .. } | Self::NotFound { .. } | Self::Refused { .. } | Self::Failure { .. } => {
                self.kind().name()
            }
        }
    }

    /// The policy that refused the operation, `quota` for a quota.
    pub fn policy(&self) -> Option<&'static str> {
        match self {
            Self::Refused { policy, .. } => Some(policy),
            Self::OverQuota { .. } => Some("quota"),
            _ => None,
        }
    }

    /// Whether the same call may succeed later. This excludes [conflicts](Self::is_conflict), and
    /// [`ErrorKind::OutcomeUnknown`]: first check whether the change was made.
    pub fn is_retryable(&self) -> bool {
        self.kind() == ErrorKind::Busy
    }

    /// Whether a precondition on a version failed. Read again, and build a new batch.
    pub fn is_conflict(&self) -> bool {
        self.kind() == ErrorKind::Conflict
    }
}

// For arguments that already are a `StorePath`, whose conversion cannot fail.
impl From<std::convert::Infallible> for StoreError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

/// An error in how a program built a [`Batch`](crate::Batch).
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidBatch {
    /// A change writes or renames a root.
    #[error("a batch cannot write or rename /memories or /records itself")]
    Root,
    /// Two changes overlap.
    #[error("a batch changes both {other} and {path}, which overlap")]
    Overlap {
        /// The path that was added.
        path: StorePath,
        /// The path that the batch already changes.
        other: StorePath,
    },
    /// A rename would make a file a record, or a record a file.
    #[error("a batch cannot rename {from} to {to}, which is under another root")]
    TwoRoots {
        /// The old path.
        from: StorePath,
        /// The new path.
        to: StorePath,
    },
}

/// The kind of an error of a store, a tool, or an attempt to open a store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request is invalid: invalid input, an invalid path, or a file in place of a directory.
    Invalid,
    /// The path or store does not exist.
    NotFound,
    /// The path already exists.
    AlreadyExists,
    /// Concurrent changes prevented the call.
    Conflict,
    /// A policy or quota refused the call.
    Refused,
    /// The program was built without a required feature, or the storage does not support the call.
    Unsupported,
    /// The storage denied access: permissions, credentials or a read-only medium.
    AccessDenied,
    /// The operation timed out while other tasks or processes used the store. Retry it.
    Busy,
    /// Stored data is corrupt.
    Damaged,
    /// The storage is full, or its own quota is used up.
    Full,
    /// The change may or may not have been made.
    OutcomeUnknown,
    /// The storage does not support the file name.
    UnsupportedName,
    /// Any other error. A store that fails with this kind changed nothing.
    Other,
}

impl ErrorKind {
    /// The kinds of a [failure](StoreError::Failure) of the storage.
    pub const OF_FAILURES: &[Self] = &[
        Self::AccessDenied,
        Self::Busy,
        Self::Damaged,
        Self::Full,
        Self::OutcomeUnknown,
        Self::UnsupportedName,
        Self::Other,
    ];

    /// The name for programs, logs and metrics, which stays the same when messages change: `not_found`, for example.
    pub fn name(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::Conflict => "conflict",
            Self::Refused => "refused",
            Self::Unsupported => "unsupported",
            Self::AccessDenied => "access_denied",
            Self::Busy => "busy",
            Self::Damaged => "damaged",
            Self::Full => "full",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::UnsupportedName => "unsupported_name",
            Self::Other => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_is_not_retryable_as_it_is() {
        let path = || StorePath::memories();
        let failure = |kind| StoreError::failure(kind, "reading", "cause");
        for (error, is_retryable, is_conflict) in [
            (StoreError::VersionMismatch { path: path() }, false, true),
            (StoreError::NotFound { path: path() }, false, false),
            (failure(ErrorKind::Busy), true, false),
            (failure(ErrorKind::OutcomeUnknown), false, false),
        ] {
            assert_eq!((error.is_retryable(), error.is_conflict()), (is_retryable, is_conflict), "{error}");
        }
    }

    /// Logs and metrics are searched for these names.
    #[test]
    fn names_stay_the_same_when_messages_change() {
        let path = StorePath::memories;
        let Err(invalid) = "notes".parse::<StorePath>() else { panic!("it is not under a root") };
        for (error, name) in [
            (StoreError::AlreadyExists { path: path() }, "already_exists"),
            (StoreError::NotFound { path: path() }, "not_found"),
            (StoreError::VersionMismatch { path: path() }, "version_mismatch"),
            (StoreError::NotADirectory { path: path() }, "not_a_directory"),
            (StoreError::NotAFile { path: path() }, "not_a_file"),
            (StoreError::NotText { path: path() }, "not_text"),
            (StoreError::SymbolicLink { path: path() }, "symbolic_link"),
            (StoreError::NotARegularFile { path: path() }, "not_a_regular_file"),
            (StoreError::refused(&path(), "limits", "too many"), "refused"),
            (StoreError::Path(invalid), "invalid_path"),
            (StoreError::InvalidBatch(InvalidBatch::Root), "invalid_batch"),
            (StoreError::failure(ErrorKind::OutcomeUnknown, "writing", "cause"), "outcome_unknown"),
        ] {
            assert_eq!(error.name(), name);
        }
    }
}
