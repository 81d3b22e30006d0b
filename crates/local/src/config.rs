//! Opening a [`LocalStore`]: its options, and what can be wrong.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use memory_tool_core::{DEFAULT_MAX_FILE_BYTES, OpenMode};

use crate::store::LocalStore;

/// How long an operation waits for other processes, unless another time is set.
pub const DEFAULT_LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Options of a [`LocalStore`]. Made by [`LocalStore::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct LocalStoreBuilder {
    pub(crate) base: PathBuf,
    pub(crate) lock_timeout: Duration,
    pub(crate) max_file_bytes: u64,
    pub(crate) mode: OpenMode,
    pub(crate) trusts_other_users: bool,
}

impl LocalStoreBuilder {
    pub(crate) fn new(base: PathBuf) -> Self {
        Self {
            base,
            lock_timeout: DEFAULT_LOCK_TIMEOUT,
            max_file_bytes: DEFAULT_MAX_FILE_BYTES,
            mode: OpenMode::default(),
            trusts_other_users: false,
        }
    }

    /// Whether opening may create the store, and whether it may be changed. Default: [`OpenMode::Create`].
    ///
    /// A store opened as [`OpenMode::ReadOnly`] may lie on a read-only disk, belong to another user, or be a plain copy of
    /// `memories` without `.memory-tool`. It takes the shared lock if there is a lock file. While a batch that was cut short waits
    /// in the journal, its reads fail as [`Busy`](memory_tool_core::FailureKind::Busy): open the store for writing to complete it.
    pub fn mode(mut self, mode: OpenMode) -> Self {
        self.mode = mode;
        self
    }

    /// The size in bytes of the largest file that is read or written. A larger one is listed, renamed and removed as others are,
    /// but reading it is [refused](memory_tool_core::StoreError::Refused), before any of it is read. Default:
    /// [`DEFAULT_MAX_FILE_BYTES`].
    pub fn max_file_bytes(mut self, max_file_bytes: u64) -> Self {
        self.max_file_bytes = max_file_bytes;
        self
    }

    /// Opens the store also where `.memory-tool` belongs to another user, or where others than its owner can write to it.
    ///
    /// Such a store is otherwise refused unless it is opened for reading only, as who can write there can have any file of the
    /// memory read, replaced or removed, and can make every command wait. Use this on file systems that keep no owners and modes.
    pub fn trust_other_users(mut self) -> Self {
        self.trusts_other_users = true;
        self
    }

    /// How long an operation waits for the lock that another process holds before it fails as
    /// [`Busy`](memory_tool_core::FailureKind::Busy), with nothing changed. Default: [`DEFAULT_LOCK_TIMEOUT`].
    pub fn lock_timeout(mut self, lock_timeout: Duration) -> Self {
        self.lock_timeout = lock_timeout;
        self
    }

    /// Opens the store. Its directories are made where they are missing, unless the [mode](Self::mode) is another.
    ///
    /// # Errors
    /// [`OpenError`] with the cause as its source: there is no store and none may be made; the base is a file, may not be read or
    /// written, or holds a link or a file where the store's own directories belong; `.memory-tool` in it is not this user's
    /// alone; or `memories` in it is on another file system.
    pub async fn open(self) -> Result<LocalStore, OpenError> {
        LocalStore::open_with(self).await
    }
}

/// Why a store could not be opened. For the operator: it names the directory.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the memory store in the directory {}", base.display())]
#[non_exhaustive]
pub struct OpenError {
    /// The base directory, as it was given.
    pub base: PathBuf,
    /// The cause.
    #[source]
    pub source: io::Error,
}

impl OpenError {
    /// Whether there is no store in the directory, or no such directory. Never so for a store that may be created.
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }
}
