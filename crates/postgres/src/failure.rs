//! Errors: conversion to a kind for the model and a source for the operator.

use std::time::Duration;

use deadpool_postgres::PoolError;
use memory_tool_core::{BoxError, ErrorKind, MemoryName, PathError, StoreError};
use tokio_postgres::error::{Error, Severity, SqlState};

/// The error of the functions on a replica, and with another isolation.
const UNSUITABLE: &str = "MT001";

/// An error of an operation on a database.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The state of the files does not allow the operation.
    Refused(StoreError),
    /// The server or the connection failed, and nothing was changed.
    Failed { kind: ErrorKind, source: BoxError, retry: Retry },
    /// The connection failed after the change was sent.
    Lost(BoxError),
}

/// Whether an operation that changed nothing is repeated.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Retry {
    Never,
    /// Never, because the time is over.
    TimedOut,
    /// Until the timeout: the server is restarting, has no free connection or closed this one, or another transaction
    /// was first.
    UntilTimeout,
}

/// A call that failed.
pub(crate) struct Broken {
    pub(crate) error: Error,
    /// Whether the server has begun to respond, and thus may have committed. `apply_batch` returns at least one row.
    pub(crate) had_rows: bool,
}

impl Broken {
    pub(crate) fn is_unsuitable(&self) -> bool {
        self.error.code().is_some_and(|code| code.code() == UNSUITABLE)
    }
}

impl Failure {
    pub(crate) fn new(kind: ErrorKind, source: impl Into<BoxError>) -> Self {
        Self::Failed { kind, source: source.into(), retry: Retry::Never }
    }

    /// The operation did not end within the timeout.
    pub(crate) fn timeout(timeout: Duration) -> Self {
        let source = format!("the server did not respond within {timeout:?}").into();
        Self::Failed { kind: ErrorKind::Busy, source, retry: Retry::TimedOut }
    }

    /// The error of a call that changes files. After a lost connection the outcome is unknown. The same applies to an
    /// internal error, because poolers report such errors too. A session that an administrator ends before the first
    /// row, for example during the wait for a lock, changed nothing.
    pub(crate) fn of_change(broken: Broken) -> Self {
        let Broken { error, had_rows } = broken;
        let is_proof = !had_rows && (error.code() == Some(&SqlState::ADMIN_SHUTDOWN) || is_full_pooler(&error));
        let is_unknown = is_of_connection(&error) || error.code() == Some(&SqlState::INTERNAL_ERROR);
        if is_unknown && !is_proof { Self::Lost(error.into()) } else { error.into() }
    }

    /// The repetition after a lost connection.
    pub(crate) fn closed(error: &BoxError) -> Self {
        Self::Failed { kind: ErrorKind::Busy, source: error.to_string().into(), retry: Retry::UntilTimeout }
    }

    pub(crate) fn of_connecting(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => {
                let is_temporary = is_unreachable(&error) || is_temporary(&error);
                let (kind, retry) =
                    if is_temporary { (ErrorKind::Busy, Retry::UntilTimeout) } else { (kind(&error), Retry::Never) };
                Self::Failed { kind, source: error.into(), retry }
            }
            error @ PoolError::Timeout(_) => Self::new(ErrorKind::Busy, error),
            error => Self::new(ErrorKind::Other, error),
        }
    }

    pub(crate) fn into_source(self) -> BoxError {
        match self {
            Self::Refused(error) => error.into(),
            Self::Failed { source, .. } | Self::Lost(source) => source,
        }
    }

    /// Converts to a [`StoreError`] of the operation.
    pub(crate) fn during(self, operation: &'static str) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Failed { kind, source, .. } => StoreError::Failure { kind, operation, source },
            Self::Lost(source) => StoreError::Failure { kind: ErrorKind::OutcomeUnknown, operation, source },
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<PathError> for Failure {
    fn from(error: PathError) -> Self {
        Self::Refused(error.into())
    }
}

/// An error of a call that only reads.
impl From<Broken> for Failure {
    fn from(broken: Broken) -> Self {
        broken.error.into()
    }
}

/// An error that proves that nothing was changed.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let (kind, retry) = if is_temporary(&error) {
            (kind(&error), Retry::UntilTimeout)
        } else if is_of_connection(&error) {
            (ErrorKind::Busy, Retry::UntilTimeout)
        } else {
            (kind(&error), Retry::Never)
        };
        Self::Failed { kind, source: error.into(), retry }
    }
}

/// Whether the connection is unusable after the error. A pooler does not send the severity in a form to parse.
fn is_of_connection(error: &Error) -> bool {
    error.as_db_error().is_none_or(|error| match error.parsed_severity() {
        Some(severity) => matches!(severity, Severity::Fatal | Severity::Panic),
        None => matches!(error.severity(), "FATAL" | "PANIC"),
    })
}

/// Whether the server or the pooler is restarting, or refuses connections for another reason.
fn is_unreachable(error: &Error) -> bool {
    use std::io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, NotFound, UnexpectedEof,
    };
    const UNREACHABLE: [std::io::ErrorKind; 6] =
        [BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, NotFound, UnexpectedEof];
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<std::io::Error>());
    error.is_closed() || source.is_some_and(|source| UNREACHABLE.contains(&source.kind()))
}

/// The messages of a pooler without a free connection to the server. All its errors have the same code.
const OF_FULL_POOLER: [&str; 4] =
    ["query_wait_timeout", "no more connections allowed", "server_login_retry", "cannot connect to server"];

fn is_full_pooler(error: &Error) -> bool {
    error.as_db_error().is_some_and(|error| {
        *error.code() == SqlState::PROTOCOL_VIOLATION
            && OF_FULL_POOLER.iter().any(|text| error.message().contains(text))
    })
}

fn is_temporary(error: &Error) -> bool {
    const TEMPORARY: [SqlState; 6] = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
    ];
    let is_crash = error.as_db_error().is_some_and(|error| error.message().contains("server conn crashed"));
    error.code().is_some_and(|code| TEMPORARY.contains(code)) || is_full_pooler(error) || is_crash
}

/// The kind of a failure before anything was changed.
fn kind(error: &Error) -> ErrorKind {
    if is_full_pooler(error) {
        return ErrorKind::Busy;
    }
    error.code().map_or(ErrorKind::Other, kind_of_code)
}

fn kind_of_code(code: &SqlState) -> ErrorKind {
    match code.code() {
        "40001" | "40P01" | "53300" | "55P03" | "57014" | "57P01" | "57P02" | "57P03" | "57P05" | "25P03" => {
            ErrorKind::Busy
        }
        "25006" | "42501" | "MT001" => ErrorKind::AccessDenied,
        "53100" | "54000" => ErrorKind::Full,
        "XX001" | "XX002" => ErrorKind::Damaged,
        class if class.starts_with("28") => ErrorKind::AccessDenied,
        _ => ErrorKind::Other,
    }
}

/// The reason why a store cannot be opened. The database is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenFailure {
    /// The tables do not exist, and the mode does not create them.
    #[error("the database holds no memory store in this schema")]
    NotFound,
    /// The database contains no file of the memory, and the mode does not create it.
    #[error("the database holds no memory `{name}`")]
    NoSuchMemory {
        /// The name of the memory.
        name: MemoryName,
    },
    /// The tables are missing or old, and the role may not create or change them.
    #[error(
        "the tables are missing or of an older version, and this role may not change them. As their owner, run \
         memory-tool migrate"
    )]
    MayNotMigrate {
        /// The error of the server.
        #[source]
        source: BoxError,
    },
    /// The tables were created or upgraded by a newer version of this crate.
    #[error("the tables have version {found}; this program supports versions up to {known}")]
    NewerSchema {
        /// The version of the tables.
        found: u32,
        /// The newest version that this program supports.
        known: u32,
    },
    /// The tables were created by an older version of this crate, and the mode does not allow an upgrade.
    #[error("the tables have version {found}: run memory-tool migrate to upgrade them to version {known}")]
    OlderSchema {
        /// The version of the tables.
        found: u32,
        /// The version that this program needs.
        known: u32,
    },
    /// The name of the schema is invalid.
    #[error("invalid schema name: use a to z, 0 to 9 and _, at most 63 characters, and no digit first")]
    SchemaName,
    /// The server is too old.
    #[error("the server has version {major}; PostgreSQL {OLDEST} or newer is required")]
    OldServer {
        /// The major version of the server.
        major: u32,
    },
    /// The server is another product that accepts the protocol of PostgreSQL, without its locks or sessions.
    #[error("the server is not supported: {version}")]
    Server {
        /// The version that the server reports.
        version: String,
    },
    /// Another role owns the schema, and could act with the rights of this role.
    #[error(
        "the schema or an object in it belongs to the role {owner}, which is not this role, the owner of the database \
         or a superuser. If you trust it, add owner={owner} to the URL"
    )]
    Owner {
        /// The role that owns the schema or an object in it.
        owner: String,
    },
    /// The encoding of the database cannot hold every text.
    #[error("the encoding of the database is {encoding}; UTF8 is required")]
    Encoding {
        /// The encoding.
        encoding: String,
    },
    /// A pooler ends each transaction after one statement, which suffices only with the isolation `READ COMMITTED`.
    #[error(
        "the pooler shares connections between statements, and the default isolation is {isolation}. Use transaction \
         pooling, or set default_transaction_isolation to 'read committed'"
    )]
    StatementPooling {
        /// The default isolation of the role.
        isolation: String,
    },
    /// The server is a replica, which allows no changes.
    #[error("the server is a read-only replica: connect to the primary, or open the memory for reading")]
    Replica,
    /// The URL, an environment variable, the password file or a certificate cannot be used.
    #[error("invalid settings of the connection")]
    Settings(
        /// The mistake.
        #[source]
        BoxError,
    ),
    /// The server or the connection failed.
    #[error("the server or the connection failed")]
    Failed {
        /// The kind of failure.
        kind: ErrorKind,
        /// The cause.
        #[source]
        source: BoxError,
    },
}

/// The oldest supported major version of PostgreSQL.
pub(crate) const OLDEST: u32 = 14;

impl OpenFailure {
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound | Self::NoSuchMemory { .. } => ErrorKind::NotFound,
            Self::SchemaName | Self::Settings(_) => ErrorKind::Invalid,
            Self::NewerSchema { .. }
            | Self::OlderSchema { .. }
            | Self::OldServer { .. }
            | Self::Server { .. }
            | Self::StatementPooling { .. }
            | Self::Encoding { .. } => ErrorKind::Unsupported,
            Self::MayNotMigrate { .. } | Self::Owner { .. } | Self::Replica => ErrorKind::AccessDenied,
            Self::Failed { kind, .. } => *kind,
        }
    }
}

impl From<Failure> for OpenFailure {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(error) => Self::Failed { kind: error.kind(), source: error.into() },
            Failure::Failed { kind, source, .. } => Self::Failed { kind, source },
            Failure::Lost(source) => Self::Failed { kind: ErrorKind::Other, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_the_server_have_kinds() {
        for (codes, kind) in [
            (&["55P03", "57014", "53300", "57P01", "57P03", "25P03"][..], ErrorKind::Busy),
            (&["28P01", "28000", "42501", "25006", "MT001"], ErrorKind::AccessDenied),
            (&["53100"], ErrorKind::Full),
            (&["XX001", "XX002"], ErrorKind::Damaged),
            (&["42P01", "XX000"], ErrorKind::Other),
        ] {
            for code in codes {
                assert_eq!(kind_of_code(&SqlState::from_code(code)), kind, "{code}");
            }
        }
    }
}
