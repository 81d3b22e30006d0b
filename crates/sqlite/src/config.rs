//! Opening a [`SqliteStore`]: its options, and what can be wrong.

use std::path::PathBuf;
use std::time::Duration;

use memory_tool_core::{BoxError, DEFAULT_MAX_FILE_BYTES, FailureKind, OpenMode};

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
    pub(crate) mode: OpenMode,
    pub(crate) max_file_bytes: u64,
}

impl SqliteStoreBuilder {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            store: StoreName::default(),
            busy_timeout: DEFAULT_BUSY_TIMEOUT,
            mode: OpenMode::default(),
            max_file_bytes: DEFAULT_MAX_FILE_BYTES,
        }
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

    /// Whether opening may create the file, and whether the store may change it. Default: [`OpenMode::Create`].
    ///
    /// Every database holds the memory `default`. A memory of another name exists while it holds a file.
    ///
    /// [`OpenMode::ReadOnly`] also works where nothing can be written, such as on a read-only disk. If no program has the
    /// database open, it is read without locks; if a program changes it during such a read, the read is repeated, until the busy
    /// timeout ends and it fails as [`Busy`](memory_tool_core::FailureKind::Busy).
    pub fn mode(mut self, mode: OpenMode) -> Self {
        self.mode = mode;
        self
    }

    /// The largest file in bytes that the store reads or writes. Default: [`DEFAULT_MAX_FILE_BYTES`], which is 64 MiB. It limits
    /// the bytes in the database: an encrypted file is larger than its contents.
    ///
    /// A larger file is listed, and can be deleted and renamed. Reading it fails as
    /// [`StoreError::Refused`](memory_tool_core::StoreError::Refused), and so does writing it.
    pub fn max_file_bytes(mut self, max_file_bytes: u64) -> Self {
        self.max_file_bytes = max_file_bytes;
        self
    }

    /// Opens the store. In the mode [`OpenMode::Create`] it creates the file and the directories above it if they are missing.
    /// Except in the mode [`OpenMode::ReadOnly`] it brings a file of an older version of this crate up to date.
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

impl OpenError {
    /// Whether the database or the memory in it does not exist, and the mode did not allow to create it.
    pub fn is_not_found(&self) -> bool {
        matches!(self.source, OpenFailure::NotFound | OpenFailure::NoSuchMemory { .. })
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
        name: StoreName,
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
    #[error("the database has version {found} of the schema, and this program knows those up to {known}")]
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
