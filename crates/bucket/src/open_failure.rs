//! [`OpenFailure`]: why a store in a bucket could not be opened.

use memory_tool_core::{BoxError, ErrorKind, FailureKind};

use crate::failure::Failure;
use crate::format::Damage;

/// What is wrong with a bucket that cannot be used: the source of an [`OpenError`](memory_tool_core::OpenError). No memory in it
/// was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenFailure {
    /// There is no index, and the mode does not allow to create a store.
    #[error("there is no memory store")]
    NotFound,
    /// The environment names no credentials, and this machine has none of its own.
    #[error("no {cloud} credentials: {advice}; the metadata service of this machine returned none")]
    NoCredentials {
        /// The name of the cloud.
        cloud: &'static str,
        /// What to set.
        advice: &'static str,
    },
    /// It puts an object although the condition does not hold, so writers would overwrite each other's changes.
    #[error("the object store ignores conditions: {it}")]
    IgnoresConditions {
        /// What it did.
        it: &'static str,
    },
    /// It has no conditional puts, or none that work.
    #[error("the object store has no conditional puts")]
    NoConditions {
        /// What it answered.
        #[source]
        source: BoxError,
    },
    /// The store was made, or brought up to date, by a newer version of this crate.
    #[error("the store has version {found} of the format, and this program knows version {known}")]
    NewerVersion {
        /// The version of the store.
        found: u64,
        /// The newest version that this program knows.
        known: u64,
    },
    /// The bucket or the way to it failed, or what is there is not an index.
    #[error("opening it failed")]
    Failed {
        /// What kind of failure it was.
        kind: FailureKind,
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
            Self::NoCredentials { .. } => ErrorKind::Storage(FailureKind::AccessDenied),
            Self::IgnoresConditions { .. } | Self::NoConditions { .. } | Self::NewerVersion { .. } => {
                ErrorKind::Unsupported
            }
            Self::Failed { kind, .. } => ErrorKind::Storage(*kind),
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
            Failure::Refused(error) => Self::Failed { kind: FailureKind::Other, source: error.into() },
        }
    }
}
