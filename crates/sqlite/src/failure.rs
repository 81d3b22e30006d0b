//! How a failure is reported: its kind for the model, itself for the operator.

use std::io;

use memory_tool_core::{BoxError, ErrorKind, FailureKind, PathError, StoreError};
use rusqlite::ErrorCode;

use crate::name::MemoryName;

/// Why work on a database was not done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The state of the files does not allow it.
    Refused(StoreError),
    /// The database failed. What it was doing, if that is known here.
    Failed { kind: FailureKind, operation: Option<&'static str>, source: BoxError },
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, source: impl Into<BoxError>) -> Self {
        Self::Failed { kind, operation: None, source: source.into() }
    }

    /// The failure of a commit. Where the disk failed, the change may be in the log all the same, for the next to find.
    pub(crate) fn of_commit(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::SystemIoFailure) => Self::new(FailureKind::OutcomeUnknown, error),
            _ => error.into(),
        }
    }

    /// The error that says what the store was doing.
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
        Self::new(kind(&error), error)
    }
}

impl From<NotOpened> for Failure {
    fn from(NotOpened(failure): NotOpened) -> Self {
        match failure {
            OpenFailure::Failed { kind, source } => Self::Failed { kind, operation: None, source },
            _ => Self::new(FailureKind::Other, failure),
        }
    }
}

/// What is wrong with a database that cannot be opened. It was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenFailure {
    /// There is no file, or it is empty, and the mode does not allow to create a database.
    #[error("there is no database")]
    NotFound,
    /// The database holds no file of that memory, and the mode does not allow to create it.
    #[error("the database holds no memory `{name}`")]
    NoSuchMemory {
        /// The name of the memory.
        name: MemoryName,
    },
    /// The file is something else.
    #[error("the file is not a SQLite database")]
    NotADatabase,
    /// The database belongs to another program.
    #[error("the database is not a memory store")]
    NotAStore,
    /// The schema has, or lacks, a table, index, trigger or view that this crate did not make so.
    #[error("the database schema is not that of a memory store: {object} is missing, modified or unexpected")]
    ForeignSchema {
        /// The first such object.
        object: String,
    },
    /// The database was made, or brought up to date, by a newer version of this crate.
    #[error("the database has schema version {found}; this program supports versions up to {known}")]
    NewerSchema {
        /// The version of the file.
        found: u32,
        /// The newest version that this program knows.
        known: u32,
    },
    /// The database was made by an older version of this crate, and the mode does not allow to bring it up to date.
    #[error("the database has schema version {found}: open it for writing once to upgrade it to version {known}")]
    OlderSchema {
        /// The version of the file.
        found: u32,
        /// The version that this program reads.
        known: u32,
    },
    /// SQLite cannot keep a write-ahead log there, as on a file system without shared memory.
    #[error("SQLite cannot keep a write-ahead log beside the file; the journal mode is `{mode}`")]
    NoWriteAheadLog {
        /// The mode that SQLite has instead.
        mode: String,
    },
    /// SQLite or the operating system failed.
    #[error("SQLite or the operating system failed")]
    Failed {
        /// What kind of failure it was.
        kind: FailureKind,
        /// The cause.
        #[source]
        source: BoxError,
    },
}

impl OpenFailure {
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound | Self::NoSuchMemory { .. } => ErrorKind::NotFound,
            Self::NotADatabase | Self::NotAStore | Self::ForeignSchema { .. } => ErrorKind::Invalid,
            Self::NewerSchema { .. } | Self::OlderSchema { .. } | Self::NoWriteAheadLog { .. } => {
                ErrorKind::Unsupported
            }
            Self::Failed { kind, .. } => ErrorKind::Storage(*kind),
        }
    }
}

/// Why a database was not opened. An [`OpenFailure`] itself is public, and what it can be made from would be so, too.
#[derive(Debug)]
pub(crate) struct NotOpened(pub(crate) OpenFailure);

impl From<OpenFailure> for NotOpened {
    fn from(failure: OpenFailure) -> Self {
        Self(failure)
    }
}

impl From<rusqlite::Error> for NotOpened {
    fn from(error: rusqlite::Error) -> Self {
        Self(match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => OpenFailure::NotADatabase,
            _ => OpenFailure::Failed { kind: kind(&error), source: error.into() },
        })
    }
}

impl From<io::Error> for NotOpened {
    fn from(error: io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => FailureKind::AccessDenied,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FailureKind::Full,
            _ => FailureKind::Other,
        };
        Self(OpenFailure::Failed { kind, source: error.into() })
    }
}

/// The kind of a failure before anything was changed.
fn kind(error: &rusqlite::Error) -> FailureKind {
    use rusqlite::Error;
    match error {
        Error::SqliteFailure(error, _) => kind_of_code(error.code),
        Error::FromSqlConversionFailure(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::InvalidColumnType(..)
        | Error::Utf8Error(..) => FailureKind::Damaged,
        _ => FailureKind::Other,
    }
}

fn kind_of_code(code: ErrorCode) -> FailureKind {
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => FailureKind::Busy,
        ErrorCode::AuthorizationForStatementDenied
        | ErrorCode::CannotOpen
        | ErrorCode::PermissionDenied
        | ErrorCode::ReadOnly => FailureKind::AccessDenied,
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => FailureKind::Damaged,
        ErrorCode::DiskFull | ErrorCode::TooBig => FailureKind::Full,
        _ => FailureKind::Other,
    }
}
