//! [`OpenFailure`]: why a store in a bucket could not be opened.

use memory_tool_core::{BoxError, ErrorKind};

use crate::failure::Failure;
use crate::format::Damage;

/// The reason why a store in a bucket cannot be opened or repaired. It is the source of an
/// [`OpenError`](memory_tool_core::OpenError). No memory was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenFailure {
    /// The store does not exist, and the mode does not allow creating it.
    #[error("there is no memory store")]
    NotFound,
    /// A store above would count the objects of this one as its own, and could remove them.
    #[error("the prefix contains the name `{name}`, which a store above it uses for its own objects: choose another")]
    ReservedName {
        /// The name in the prefix.
        name: &'static str,
    },
    /// Neither the environment nor the metadata service of this machine has credentials.
    #[error("no {cloud} credentials: {advice}; the metadata service of this machine returned none")]
    NoCredentials {
        /// The name of the cloud.
        cloud: &'static str,
        /// The variables to set.
        advice: &'static str,
    },
    /// The bucket ignores the condition of a put, so writers would overwrite each other's changes.
    #[error("the object store ignores conditions: {it}")]
    IgnoresConditions {
        /// The observed behavior.
        it: &'static str,
    },
    /// The bucket has no working conditional puts.
    #[error("the object store has no conditional puts")]
    NoConditions {
        /// The error of the bucket.
        #[source]
        source: BoxError,
    },
    /// The credentials may read the store, but not change it. The mode
    /// [`ReadOnly`](memory_tool_core::OpenMode::ReadOnly) needs no more.
    #[error("the credentials may only read the store: allow them to write, or open the store in read-only mode")]
    CannotWrite {
        /// The error of the bucket.
        #[source]
        source: BoxError,
    },
    /// A newer version of this crate created or updated the store.
    #[error("the store has version {found} of the format, and this program knows version {known}")]
    NewerVersion {
        /// The version of the store.
        found: u64,
        /// The newest version that this program knows.
        known: u64,
    },
    /// The bucket or the connection failed, or the store is damaged.
    #[error("{}", match kind {
        ErrorKind::Damaged => "the store is damaged",
        _ => "the bucket or the connection failed",
    })]
    Failed {
        /// The kind of failure.
        kind: ErrorKind,
        /// The cause.
        #[source]
        source: BoxError,
    },
}

impl OpenFailure {
    /// The kind of error, the same for every backend.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound => ErrorKind::NotFound,
            Self::NoCredentials { .. } | Self::CannotWrite { .. } => ErrorKind::AccessDenied,
            Self::ReservedName { .. }
            | Self::IgnoresConditions { .. }
            | Self::NoConditions { .. }
            | Self::NewerVersion { .. } => ErrorKind::Unsupported,
            Self::Failed { kind, .. } => *kind,
        }
    }
}

impl From<Failure> for OpenFailure {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Failed { kind, source } => match source.downcast::<Damage>() {
                Ok(error) => match *error {
                    Damage::NewerVersion { found, known, .. } => Self::NewerVersion { found, known },
                    error => Self::Failed { kind, source: error.into() },
                },
                Err(source) => Self::Failed { kind, source },
            },
            Failure::Refused(error) => Self::Failed { kind: ErrorKind::Other, source: error.into() },
        }
    }
}
