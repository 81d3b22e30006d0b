//! Errors: conversion to a kind for the model and a source for the operator.

use std::io;

use memory_tool_core::{BoxError, ErrorKind, MemoryName, PathError, StoreError};
use rusqlite::{ErrorCode, ffi};

/// An error of an operation on a database.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The state of the files does not allow the operation.
    Refused(StoreError),
    /// The database failed. `operation` is set if it is known at this point.
    Failed { kind: ErrorKind, operation: Option<&'static str>, source: BoxError },
}

impl Failure {
    pub(crate) fn new(kind: ErrorKind, source: impl Into<BoxError>) -> Self {
        Self::Failed { kind, operation: None, source: source.into() }
    }

    /// The error of a change whose commit succeeded after the files had been removed or replaced.
    pub(crate) fn displaced() -> Self {
        ConnectError(OpenFailure::displaced(ErrorKind::OutcomeUnknown)).into()
    }

    /// The error of a commit. After a disk error, the change may already be in the log.
    pub(crate) fn of_commit(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::SystemIoFailure) => Self::new(ErrorKind::OutcomeUnknown, error),
            _ => error.into(),
        }
    }

    /// Converts to a [`StoreError`] of the operation.
    pub(crate) fn during(self, operation: &'static str) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Failed { kind, operation: inner, source } => {
                StoreError::Failure { kind, operation: inner.unwrap_or(operation), source }
            }
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Failure { kind, operation, source } => {
                Self::Failed { kind, operation: Some(operation), source }
            }
            refusal => Self::Refused(refusal),
        }
    }
}

impl From<PathError> for Failure {
    fn from(error: PathError) -> Self {
        Self::Refused(error.into())
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        ConnectError::from(error).into()
    }
}

impl From<ConnectError> for Failure {
    fn from(ConnectError(failure): ConnectError) -> Self {
        match failure {
            OpenFailure::Failed { kind, source } => Self::Failed { kind, operation: None, source },
            OpenFailure::ReadOnly { .. } => Self::new(ErrorKind::AccessDenied, failure),
            OpenFailure::NotADatabase => Self::new(ErrorKind::Damaged, failure),
            _ => Self::new(ErrorKind::Other, failure),
        }
    }
}

/// The reason why a database cannot be opened. The database is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenFailure {
    /// The file does not exist or is empty, and the mode does not create a database.
    #[error("there is no database")]
    NotFound,
    /// The database contains no file of the memory, and the mode does not create it.
    #[error("the database holds no memory `{name}`")]
    NoSuchMemory {
        /// The name of the memory.
        name: MemoryName,
    },
    /// The file is not a SQLite database.
    #[error("the file is not a SQLite database")]
    NotADatabase,
    /// The database belongs to another program.
    #[error("the database is not a memory store")]
    NotAStore,
    /// A table, index, trigger or view is missing or modified.
    #[error("the database schema does not match a memory store: {object} is missing or modified")]
    ForeignSchema {
        /// The first such object.
        object: String,
    },
    /// Another program added tables, indexes, triggers or views.
    #[error("the database has objects that no memory store has: run `{removal}` in it")]
    AddedObjects {
        /// The SQL statements that remove them.
        removal: String,
    },
    /// The database was created or upgraded by a newer version of this crate.
    #[error("the database has schema version {found}; this program supports versions up to {known}")]
    NewerSchema {
        /// The schema version of the database.
        found: u32,
        /// The newest version that this program supports.
        known: u32,
    },
    /// The database was created by an older version of this crate, and the mode does not allow an upgrade.
    #[error("the database has schema version {found}: open it for writing once to upgrade it to version {known}")]
    OlderSchema {
        /// The schema version of the database.
        found: u32,
        /// The version that this program reads.
        known: u32,
    },
    /// SQLite cannot keep a write-ahead log, for example on a file system without shared memory.
    #[error("SQLite cannot keep a write-ahead log beside the file; the journal mode is `{mode}`")]
    NoWriteAheadLog {
        /// The journal mode that SQLite uses instead.
        mode: String,
    },
    /// The file system or the access rights do not allow changes.
    #[error("the database file or its directory is read-only for this program")]
    ReadOnly {
        /// The error of SQLite.
        #[source]
        source: BoxError,
    },
    /// SQLite or the operating system failed.
    #[error("SQLite or the operating system failed")]
    Failed {
        /// The kind of failure.
        kind: ErrorKind,
        /// The cause.
        #[source]
        source: BoxError,
    },
}

impl OpenFailure {
    /// The error if another program removed or replaced the database or its log while they were open.
    pub(crate) fn displaced(kind: ErrorKind) -> Self {
        let source = "the database, its -wal or its -shm file was removed or replaced while it was open".into();
        Self::Failed { kind, source }
    }

    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound | Self::NoSuchMemory { .. } => ErrorKind::NotFound,
            Self::NotADatabase | Self::NotAStore | Self::ForeignSchema { .. } | Self::AddedObjects { .. } => {
                ErrorKind::Invalid
            }
            Self::NewerSchema { .. } | Self::OlderSchema { .. } | Self::NoWriteAheadLog { .. } => {
                ErrorKind::Unsupported
            }
            Self::ReadOnly { .. } => ErrorKind::AccessDenied,
            Self::Failed { kind, .. } => *kind,
        }
    }
}

/// A private wrapper of [`OpenFailure`] for conversions that must not be public.
#[derive(Debug)]
pub(crate) struct ConnectError(pub(crate) OpenFailure);

impl From<OpenFailure> for ConnectError {
    fn from(failure: OpenFailure) -> Self {
        Self(failure)
    }
}

/// An error that may go away when the operation is repeated.
pub(crate) trait CanBeBusy {
    fn is_busy(&self) -> bool;
}

impl CanBeBusy for ConnectError {
    fn is_busy(&self) -> bool {
        matches!(self.0, OpenFailure::Failed { kind: ErrorKind::Busy, .. })
    }
}

impl CanBeBusy for Failure {
    fn is_busy(&self) -> bool {
        matches!(self, Self::Failed { kind: ErrorKind::Busy, .. })
    }
}

impl From<rusqlite::Error> for ConnectError {
    fn from(error: rusqlite::Error) -> Self {
        Self(match error.sqlite_error_code() {
            _ if kind(&error) == ErrorKind::Busy => OpenFailure::Failed { kind: ErrorKind::Busy, source: error.into() },
            Some(ErrorCode::NotADatabase) => OpenFailure::NotADatabase,
            Some(ErrorCode::ReadOnly) => OpenFailure::ReadOnly { source: error.into() },
            _ => OpenFailure::Failed { kind: kind(&error), source: error.into() },
        })
    }
}

impl From<io::Error> for ConnectError {
    fn from(error: io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ErrorKind::AccessDenied,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::Full,
            _ => ErrorKind::Other,
        };
        Self(OpenFailure::Failed { kind, source: error.into() })
    }
}

/// The kind of a failure before anything was changed.
fn kind(error: &rusqlite::Error) -> ErrorKind {
    use rusqlite::Error;
    match error {
        Error::SqliteFailure(error, _) => {
            kind_of_extended_code(error.extended_code).unwrap_or(kind_of_code(error.code))
        }
        Error::FromSqlConversionFailure(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::InvalidColumnType(..)
        | Error::Utf8Error(..) => ErrorKind::Damaged,
        _ => ErrorKind::Other,
    }
}

/// The kind of a failure whose code is too coarse.
fn kind_of_extended_code(code: i32) -> Option<ErrorKind> {
    match code {
        // A reader saw the shared memory during a commit or before its creation, and may not repair it.
        ffi::SQLITE_READONLY_RECOVERY | ffi::SQLITE_READONLY_CANTINIT => Some(ErrorKind::Busy),
        ffi::SQLITE_IOERR_SHMSIZE => Some(ErrorKind::Full), // the shared memory cannot grow
        _ => None,
    }
}

fn kind_of_code(code: ErrorCode) -> ErrorKind {
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => ErrorKind::Busy,
        ErrorCode::AuthorizationForStatementDenied
        | ErrorCode::CannotOpen
        | ErrorCode::PermissionDenied
        | ErrorCode::ReadOnly => ErrorKind::AccessDenied,
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => ErrorKind::Damaged,
        ErrorCode::DiskFull | ErrorCode::TooBig => ErrorKind::Full,
        _ => ErrorKind::Other,
    }
}
