//! Conversion of I/O errors to [`StoreError`]s.

use std::io;

use memory_tool_core::{ErrorKind, StoreError};

/// An error before anything was changed.
pub(crate) fn failed(operation: &'static str, error: io::Error) -> StoreError {
    StoreError::failure(kind(&error), operation, error)
}

/// The kind of an I/O error.
pub(crate) fn kind(error: &io::Error) -> ErrorKind {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ErrorKind::AccessDenied,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => ErrorKind::Full,
        io::ErrorKind::InvalidFilename => ErrorKind::UnsupportedName,
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => ErrorKind::Busy,
        io::ErrorKind::InvalidData => ErrorKind::Damaged,
        _ => ErrorKind::Other,
    }
}

/// An error after a change that may not survive a loss of power.
pub(crate) fn unconfirmed(operation: &'static str, error: io::Error) -> StoreError {
    StoreError::failure(ErrorKind::OutcomeUnknown, operation, error)
}
