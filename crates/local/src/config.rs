//! Opening a [`LocalStore`]: its options, and what can be wrong.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::store::LocalStore;

/// How long an operation waits for other processes, unless another time is set.
pub const DEFAULT_LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Options of a [`LocalStore`]. Made by [`LocalStore::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct LocalStoreBuilder {
    pub(crate) base: PathBuf,
    pub(crate) lock_timeout: Duration,
}

impl LocalStoreBuilder {
    pub(crate) fn new(base: PathBuf) -> Self {
        Self { base, lock_timeout: DEFAULT_LOCK_TIMEOUT }
    }

    /// How long an operation waits for the lock that another process holds before it fails as
    /// [`Busy`](memory_tool_core::FailureKind::Busy), with nothing changed. Default: [`DEFAULT_LOCK_TIMEOUT`].
    pub fn lock_timeout(mut self, lock_timeout: Duration) -> Self {
        self.lock_timeout = lock_timeout;
        self
    }

    /// Opens the store, and makes its directories where they are missing.
    ///
    /// # Errors
    /// [`OpenError`] with the cause as its source: the base is a file, may not be read or written, holds a link or a file
    /// where the store's own directories belong, or `memories` in it is on another file system.
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
