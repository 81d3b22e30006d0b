//! The names of failures in events, metrics and audit records. They contain no part of a path or of a file.

use memory_tool_core::{FailureKind, StoreError};

pub(crate) fn name_of_store_error(error: &StoreError) -> &'static str {
    match error {
        StoreError::Failure { kind, .. } => name_of_failure(*kind),
        StoreError::AlreadyExists { .. } => "already_exists",
        StoreError::NotFound { .. } => "not_found",
        StoreError::VersionMismatch { .. } => "version_mismatch",
        StoreError::RecordMismatch { .. } => "record_mismatch",
        StoreError::NotADirectory { .. } => "not_a_directory",
        StoreError::NotAFile { .. } => "not_a_file",
        StoreError::NotText { .. } => "not_text",
        StoreError::SymbolicLink { .. } => "symbolic_link",
        StoreError::NotARegularFile { .. } => "not_a_regular_file",
        StoreError::OverQuota { .. } => "over_quota",
        StoreError::Refused { .. } => "refused",
        StoreError::Path(_) => "path",
        StoreError::InvalidBatch(_) => "invalid_batch",
        _ => "other",
    }
}

pub(crate) fn name_of_failure(kind: FailureKind) -> &'static str {
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
