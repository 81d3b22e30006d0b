//! [`Outcome`]: the result of a command or store operation, as reported in events, metrics and audit records.

use memory_tool_core::{Error, StoreError};

use crate::error_names::name_of_store_error;

/// The result of a command or operation. Errors are given by [name](crate::error_names).
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
        Err(Error::Storage { kind, .. }) => Outcome::Failed(kind.name()),
        Err(error) => {
            let policy = if let Error::Refused { policy, .. } = error { Some(*policy) } else { None };
            Outcome::Refused { error: name_of_refusal(error), policy }
        }
    }
}

pub(crate) fn outcome_of_operation<T>(result: &Result<T, StoreError>) -> Outcome {
    match result {
        Ok(_) => Outcome::Done,
        Err(error @ StoreError::Failure { .. }) => Outcome::Failed(name_of_store_error(error)),
        Err(error) => {
            let policy = match error {
                StoreError::Refused { policy, .. } => Some(*policy),
                StoreError::OverQuota { .. } => Some("quota"), // as in the error of the command
                _ => None,
            };
            Outcome::Refused { error: name_of_store_error(error), policy }
        }
    }
}

fn name_of_refusal(error: &Error) -> &'static str {
    match error {
        Error::Input(_) => "input",
        Error::Path(_) => "path",
        Error::SymbolicLink { .. } => "symbolic_link",
        Error::NotARegularFile { .. } => "not_a_regular_file",
        Error::NotFound { .. } => "not_found",
        Error::AlreadyExists { .. } => "already_exists",
        Error::DestinationExists { .. } => "destination_exists",
        Error::ParentIsFile { .. } => "parent_is_file",
        Error::RenameIntoItself { .. } => "rename_into_itself",
        Error::RootIsFixed { .. } => "root_is_fixed",
        Error::InvalidViewRange { .. } => "invalid_view_range",
        Error::TooManyLines { .. } => "too_many_lines",
        Error::NotText { .. } => "not_text",
        Error::NulCharacter { .. } => "nul_character",
        Error::EmptyOldStr { .. } => "empty_old_str",
        Error::NoMatch { .. } => "no_match",
        Error::MultipleMatches { .. } => "multiple_matches",
        Error::InvalidInsertLine { .. } => "invalid_insert_line",
        Error::Conflict { .. } => "conflict",
        Error::Refused { .. } => "refused",
        _ => "other",
    }
}
