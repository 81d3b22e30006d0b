//! Conversion of I/O errors to [`StoreError`]s.

use std::io;

use memory_tool_core::{FailureKind, StoreError};

/// An error before anything was changed.
pub(crate) fn failed(operation: &'static str, error: io::Error) -> StoreError {
    StoreError::failure(kind(&error), operation, error)
}

/// The kind of an I/O error.
pub(crate) fn kind(error: &io::Error) -> FailureKind {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => FailureKind::AccessDenied,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => FailureKind::Full,
        io::ErrorKind::InvalidFilename => FailureKind::UnsupportedName,
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => FailureKind::Busy,
        io::ErrorKind::InvalidData => FailureKind::Damaged,
        _ => FailureKind::Other,
    }
}

/// An error after a change that may not survive a loss of power.
pub(crate) fn unconfirmed(operation: &'static str, error: io::Error) -> StoreError {
    StoreError::failure(FailureKind::OutcomeUnknown, operation, error)
}
