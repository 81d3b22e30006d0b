//! Opening a [`SqliteStore`]: its options, and what can be wrong.

use std::path::PathBuf;
use std::time::Duration;

use memory_tool_core::{BoxError, FailureKind};

use crate::name::StoreName;
use crate::store::SqliteStore;

/// How long an operation waits for other writers, unless another time is set.
pub const DEFAULT_BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// Options of a [`SqliteStore`]. Made by [`SqliteStore::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct SqliteStoreBuilder {
    pub(crate) path: PathBuf,
    pub(crate) store: StoreName,
    pub(crate) busy_timeout: Duration,
}

impl SqliteStoreBuilder {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, store: StoreName::default(), busy_timeout: DEFAULT_BUSY_TIMEOUT }
    }

    /// Which of the memories in the file to open. Default: `default`.
    pub fn store(mut self, store: StoreName) -> Self {
        self.store = store;
        self
    }

    /// How long an operation waits for a lock that others hold before it fails as
    /// [`Busy`](memory_tool_core::FailureKind::Busy), with nothing changed. Default: [`DEFAULT_BUSY_TIMEOUT`].
    pub fn busy_timeout(mut self, busy_timeout: Duration) -> Self {
        self.busy_timeout = busy_timeout;
        self
    }

    /// Opens the store. Makes the file and the directories above it where they are missing, and brings a file of an older
    /// version of this crate up to date.
    ///
    /// # Errors
    /// [`OpenError`] with the cause as its source.
    pub async fn open(self) -> Result<SqliteStore, OpenError> {
        SqliteStore::open_with(self).await
    }
}

/// Why a store could not be opened. For the operator: it names the file.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the memory store in the database {}", path.display())]
#[non_exhaustive]
pub struct OpenError {
    /// The database file, as it was given.
    pub path: PathBuf,
    /// The cause.
    #[source]
    pub source: OpenFailure,
}

/// What is wrong with a database that cannot be opened. It was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenFailure {
    /// The file is something else.
    #[error("the file is not a SQLite database")]
    NotADatabase,
    /// The database belongs to another program.
    #[error("the database is not a memory store")]
    NotAStore,
    /// The database was made, or brought up to date, by a newer version of this crate.
    #[error("the database has version {found} of the schema, and this program knows those up to {known}")]
    NewerSchema {
        /// The version of the file.
        found: u32,
        /// The newest version that this program knows.
        known: u32,
    },
    /// SQLite cannot keep a write-ahead log there, as on a file system without shared memory.
    #[error("SQLite cannot keep a write-ahead log beside the file, but only a journal of mode `{mode}`")]
    NoWriteAheadLog {
        /// The mode that SQLite has instead.
        mode: String,
    },
    /// SQLite or the operating system failed.
    #[error("opening it failed")]
    Failed {
        /// What kind of failure it was.
        kind: FailureKind,
        /// The cause.
        #[source]
        source: BoxError,
    },
}
