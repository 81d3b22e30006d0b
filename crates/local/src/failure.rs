//! How a failure of the operating system is reported: its kind for the model, itself for the operator.

use std::io;

use memory_tool_core::{FailureKind, StoreError};

/// A failure before anything was changed.
pub(crate) fn failed(operation: &'static str, error: io::Error) -> StoreError {
    StoreError::failure(kind(&error), operation, error)
}

/// The kind of a failure of the operating system.
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

/// A failure after the change was made, which may not survive a loss of power.
pub(crate) fn unconfirmed(operation: &'static str, error: io::Error) -> StoreError {
    StoreError::failure(FailureKind::OutcomeUnknown, operation, error)
}
