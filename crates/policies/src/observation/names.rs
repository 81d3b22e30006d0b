//! What refusals and failures are called in events and metrics: names without anything of a path or a content.

use memory_tool_core::{Error, FailureKind, StoreError};

use crate::observation::record::Outcome;

/// What became of a command.
pub(crate) fn outcome_of_command<T>(result: &Result<T, Error>) -> Outcome {
    match result {
        Ok(_) => Outcome::Done,
        Err(Error::Storage { kind, .. }) => Outcome::Failed(name_of_failure(*kind)),
        Err(error) => Outcome::Refused(name_of_refusal(error)),
    }
}

/// What became of an operation of a store.
pub(crate) fn outcome_of_operation<T>(result: &Result<T, StoreError>) -> Outcome {
    match result {
        Ok(_) => Outcome::Done,
        Err(error @ StoreError::Failure { .. }) => Outcome::Failed(name_of_store_error(error)),
        Err(error) => Outcome::Refused(name_of_store_error(error)),
    }
}

/// What a refusal or failure of a store is called.
pub(crate) fn name_of_store_error(error: &StoreError) -> &'static str {
    match error {
        StoreError::Failure { kind, .. } => name_of_failure(*kind),
        StoreError::AlreadyExists { .. } => "already_exists",
        StoreError::NotFound { .. } => "not_found",
        StoreError::VersionMismatch { .. } => "version_mismatch",
        StoreError::NotADirectory { .. } => "not_a_directory",
        StoreError::SymbolicLink { .. } => "symbolic_link",
        StoreError::NotARegularFile { .. } => "not_a_regular_file",
        StoreError::OverCapacity { .. } => "over_capacity",
        StoreError::Refused { .. } => "refused",
        StoreError::Path(_) => "path",
        StoreError::InvalidBatch(_) => "invalid_batch",
        _ => "other",
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
        Error::EmptyOldStr { .. } => "empty_old_str",
        Error::NoMatch { .. } => "no_match",
        Error::MultipleMatches { .. } => "multiple_matches",
        Error::InvalidInsertLine { .. } => "invalid_insert_line",
        Error::Conflict { .. } => "conflict",
        Error::Refused { .. } => "refused",
        _ => "other",
    }
}

fn name_of_failure(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::AccessDenied => "access_denied",
        FailureKind::Busy => "busy",
        FailureKind::Damaged => "damaged",
        FailureKind::Full => "full",
        FailureKind::OutcomeUnknown => "outcome_unknown",
        FailureKind::UnsupportedName => "unsupported_name",
        _ => "other",
    }
}
