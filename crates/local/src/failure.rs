//! Conversion of I/O errors to [`StoreError`]s.

use std::io;

use memory_tool_core::{ErrorKind, StoreError, StorePath};

use crate::disk;

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

/// Whether the disk would refuse the step again, or is full. The batch is then undone. Other errors, such as a lost
/// connection to the disk, may pass.
pub(crate) fn is_permanent(error: &StoreError) -> bool {
    let StoreError::Failure { source, .. } = error else { return true };
    source.downcast_ref::<io::Error>().is_some_and(|error| error.raw_os_error().is_some() && is_refusal(error))
}

fn is_refusal(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    let is_named = matches!(
        error.kind(),
        Kind::CrossesDevices
            | Kind::InvalidFilename
            | Kind::InvalidInput
            | Kind::NotFound
            | Kind::PermissionDenied
            | Kind::QuotaExceeded
            | Kind::ResourceBusy
            | Kind::StorageFull
            | Kind::TooManyLinks
            | Kind::Unsupported
    );
    is_named || disk::is_refused_name(error)
}

/// Whether a file or directory cannot be moved as a whole, because parts of it are on another file system.
pub(crate) fn crosses_devices(error: &StoreError) -> bool {
    let StoreError::Failure { source, .. } = error else { return false };
    source.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::CrossesDevices)
}

/// An error after a change that may not survive a loss of power.
pub(crate) fn unconfirmed(operation: &'static str, error: io::Error) -> StoreError {
    StoreError::failure(ErrorKind::OutcomeUnknown, operation, error)
}

/// The error for a path that another program may have just created.
pub(crate) fn taken_or_failed(path: &StorePath, operation: &'static str, error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::IsADirectory => {
            StoreError::AlreadyExists { path: path.clone() }
        }
        _ => failed(operation, error),
    }
}
