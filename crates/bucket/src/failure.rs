//! Failures: the kind is for the model, the source for the operator.

use std::sync::Arc;
use std::time::Duration;

use memory_tool_core::{BoxError, ErrorKind, StoreError};
use object_store::Error as ObjectError;

use crate::content::ContentError;
use crate::diagnosis::{Refusal, diagnose, is_plain_http, is_unreachable, unreadable_credentials};
use crate::format::{Damage, MAX_COMMIT_BYTES, MAX_STEPS};

/// The reason why an operation failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The state of the files does not allow it.
    Refused(StoreError),
    /// The bucket failed.
    Failed { kind: ErrorKind, source: BoxError },
}

impl Failure {
    pub(crate) fn new(kind: ErrorKind, source: impl Into<BoxError>) -> Self {
        Self::Failed { kind, source: source.into() }
    }

    /// The failure of a request, with advice.
    pub(crate) fn of_request(kind: ErrorKind, error: ObjectError) -> Self {
        Self::new(kind, diagnose(error))
    }

    /// The failure of an operation at its deadline. `last` is the last error of the bucket.
    pub(crate) fn late(kind: ErrorKind, deadline: Duration, last: Option<BoxError>) -> Self {
        Self::new(kind, DeadlineOver { deadline, last })
    }

    /// Whether other writers were always first.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, Self::Failed { kind: ErrorKind::Busy, .. })
    }

    /// Whether what is stored is damaged.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self, Self::Failed { kind: ErrorKind::Damaged, .. })
    }

    /// The failure to determine the outcome of a commit.
    pub(crate) fn with_outcome_unknown(self) -> Self {
        let source: BoxError = match self {
            Self::Refused(error) => error.into(),
            Self::Failed { source, .. } => source,
        };
        Self::new(ErrorKind::OutcomeUnknown, OutcomeUnresolved(source))
    }

    /// The failure to write JSON.
    pub(crate) fn unwritable(error: serde_json::Error) -> Self {
        Self::new(ErrorKind::Other, error)
    }

    /// The failure of changes that do not fit into one commit.
    pub(crate) fn commit_too_large(size: usize) -> Self {
        Self::new(ErrorKind::Full, format!("the commit would have {size} bytes, and the limit is {MAX_COMMIT_BYTES}"))
    }

    /// The failure of a batch with more changes than a commit may have steps.
    pub(crate) fn batch_too_large(changes: usize) -> Self {
        Self::new(ErrorKind::Full, format!("the batch has {changes} changes, and the limit is {MAX_STEPS}"))
    }

    /// The failure of a checkpoint that another checkpoint or a collection made useless.
    pub(crate) fn checkpoint_outdated() -> Self {
        Self::new(ErrorKind::Busy, "another checkpoint or a collection was first")
    }

    /// The failure of a commit to a log that was replaced by an older copy at the same time.
    pub(crate) fn replaced_log() -> Self {
        Self::new(ErrorKind::Other, "an older copy of the log was put back at the same time")
    }

    /// The same failure, for several tasks that wait for one request.
    pub(crate) fn into_shared(self) -> SharedFailure {
        let (kind, source): (_, BoxError) = match self {
            Self::Refused(error) => (ErrorKind::Other, error.into()),
            Self::Failed { kind, source } => (kind, source),
        };
        SharedFailure { kind, source: source.into() }
    }

    /// The error, with the operation that failed.
    pub(crate) fn during(self, operation: &'static str) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Failed { kind, source } => StoreError::Failure { kind, operation, source },
        }
    }
}

/// The result, with damage as a value. Other failures are errors.
pub(crate) fn unless_damaged<T>(result: Result<T, Failure>) -> Result<Result<T, Failure>, Failure> {
    match result {
        Err(failure) if !failure.is_damage() => Err(failure),
        result => Ok(result),
    }
}

/// A [`Failure`] of the bucket that can be cloned.
#[derive(Clone, Debug)]
pub(crate) struct SharedFailure {
    kind: ErrorKind,
    source: Arc<dyn std::error::Error + Send + Sync>,
}

impl From<SharedFailure> for Failure {
    fn from(failure: SharedFailure) -> Self {
        Self::new(failure.kind, failure.source)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("not done within {deadline:?}")]
struct DeadlineOver {
    deadline: Duration,
    #[source]
    last: Option<BoxError>,
}

#[derive(Debug, thiserror::Error)]
#[error("the commit got no clear answer, and what became of it could not be found out")]
struct OutcomeUnresolved(#[source] BoxError);

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(ErrorKind::Other, error)
    }
}

impl From<Damage> for Failure {
    fn from(error: Damage) -> Self {
        let kind = match error {
            Damage::NewerVersion { .. } => ErrorKind::Other,
            _ => ErrorKind::Damaged,
        };
        Self::new(kind, error)
    }
}

impl From<ContentError> for Failure {
    fn from(error: ContentError) -> Self {
        Self::new(ErrorKind::Damaged, error)
    }
}

/// The outcome of a failed request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ErrorClass {
    /// It was not done, and repeating it is useless.
    Impossible(ErrorKind),
    /// Its condition did not hold, or a concurrent write interfered. That write may be an earlier attempt of the same
    /// request, which a client repeated silently.
    Refused,
    /// It may have been done, may still be done, or may never have arrived.
    Unclear,
    /// There was no connection. In use, the server may be restarting; at opening, the address is probably wrong.
    Unreachable,
}

impl ErrorClass {
    pub(crate) fn of(error: &ObjectError) -> Self {
        if let Some(kind) = Refusal::of(error).and_then(|refusal| refusal.kind_if_final()) {
            return Self::Impossible(kind);
        }
        match error {
            // S3's 409 for a concurrent write is also "already exists".
            ObjectError::AlreadyExists { .. } | ObjectError::Precondition { .. } => Self::Refused,
            ObjectError::PermissionDenied { .. } | ObjectError::Unauthenticated { .. } => {
                Self::Impossible(ErrorKind::AccessDenied)
            }
            ObjectError::NotFound { .. }
            | ObjectError::InvalidPath { .. }
            | ObjectError::NotSupported { .. }
            | ObjectError::NotModified { .. }
            | ObjectError::NotImplemented { .. }
            | ObjectError::UnknownConfigurationKey { .. } => Self::Impossible(ErrorKind::Other),
            error if unreadable_credentials(error).is_some() => Self::Impossible(ErrorKind::AccessDenied),
            error if is_plain_http(error) => Self::Impossible(ErrorKind::Other),
            error if is_unreachable(error) => Self::Unreachable,
            _ => Self::Unclear,
        }
    }
}
