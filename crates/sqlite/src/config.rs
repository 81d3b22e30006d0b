//! Opening a [`SqliteStore`]: its options.

use std::path::PathBuf;

use memory_tool_core::{OpenError, OpenOptions};

use crate::name::MemoryName;
use crate::store::SqliteStore;

/// Options of a [`SqliteStore`]. Made by [`SqliteStore::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct SqliteStoreBuilder {
    pub(crate) path: PathBuf,
    pub(crate) memory: MemoryName,
    pub(crate) options: OpenOptions,
}

impl SqliteStoreBuilder {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, memory: MemoryName::default(), options: OpenOptions::new() }
    }

    /// Which of the memories in the file to open. Default: `default`.
    pub fn memory(mut self, memory: MemoryName) -> Self {
        self.memory = memory;
        self
    }

    /// The options that every backend takes.
    ///
    /// Every database holds the memory `default`. A memory of another name exists while it holds a file.
    ///
    /// The mode [`ReadOnly`](memory_tool_core::OpenMode::ReadOnly) also works where nothing can be written, such as on a read-only
    /// disk. If no program has the database open, it is read without locks; if a program changes it during such a read, the read is
    /// repeated, until the timeout ends and it fails as [`Busy`](memory_tool_core::FailureKind::Busy).
    ///
    /// The largest file is counted in the bytes of the database: an encrypted file is larger than its contents.
    pub fn options(mut self, options: OpenOptions) -> Self {
        self.options = options;
        self
    }

    /// Opens the store. In the mode [`Create`](memory_tool_core::OpenMode::Create) it creates the file and the directories above it if
    /// they are missing. Except in the mode [`ReadOnly`](memory_tool_core::OpenMode::ReadOnly) it brings a file of an older version of
    /// this crate up to date.
    ///
    /// # Errors
    /// [`OpenError`] with an [`OpenFailure`](crate::OpenFailure) as its source.
    pub async fn open(self) -> Result<SqliteStore, OpenError> {
        SqliteStore::open_with(self).await
    }
}
