//! The names of failures in events, metrics and audit records. They contain no part of a path or of a file.

use memory_tool_core::StoreError;

pub(crate) fn name_of_store_error(error: &StoreError) -> &'static str {
    match error {
        StoreError::Failure { kind, .. } => kind.name(),
        StoreError::AlreadyExists { .. } => "already_exists",
        StoreError::NotFound { .. } => "not_found",
        StoreError::VersionMismatch { .. } => "version_mismatch",
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
