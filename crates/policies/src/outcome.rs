//! [`Outcome`]: the result of a command or store operation, as reported in events, metrics and audit records.

use memory_tool_core::{Error, StoreError};

/// The result of a command or operation. Errors are given by [name](Error::name).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    Done,
    Refused {
        error: &'static str,
        /// The policy that refused it.
        policy: Option<&'static str>,
    },
    Failed(&'static str),
    /// The future was dropped before it completed.
    Dropped,
}

impl Outcome {
    pub(crate) fn error(self) -> Option<&'static str> {
        match self {
            Self::Refused { error, .. } | Self::Failed(error) => Some(error),
            Self::Done | Self::Dropped => None,
        }
    }

    pub(crate) fn policy(self) -> Option<&'static str> {
        match self {
            Self::Refused { policy, .. } => policy,
            Self::Done | Self::Failed(_) | Self::Dropped => None,
        }
    }
}

pub(crate) fn outcome_of_command<T>(result: &Result<T, Error>) -> Outcome {
    match result {
        Ok(_) => Outcome::Done,
        Err(error @ Error::Storage { .. }) => Outcome::Failed(error.name()),
        Err(error) => Outcome::Refused { error: error.name(), policy: error.policy() },
    }
}

pub(crate) fn outcome_of_operation<T>(result: &Result<T, StoreError>) -> Outcome {
    match result {
        Ok(_) => Outcome::Done,
        Err(error @ StoreError::Failure { .. }) => Outcome::Failed(error.name()),
        Err(error) => Outcome::Refused { error: error.name(), policy: error.policy() },
    }
}
