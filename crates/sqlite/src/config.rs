//! Options for opening a [`SqliteStore`].

use std::path::PathBuf;

use memory_tool_core::{MemoryName, OpenError, OpenOptions};

use crate::store::SqliteStore;

/// Options of a [`SqliteStore`]. Created by [`SqliteStore::builder`].
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

    /// Sets the memory to open. Default: `default`.
    pub fn memory(mut self, memory: MemoryName) -> Self {
        self.memory = memory;
        self
    }

    /// Sets the options that every backend takes.
    ///
    /// Every database contains the memory `default`. Any other memory exists while it has a file.
    ///
    /// The mode [`ReadOnly`](memory_tool_core::OpenMode::ReadOnly) also works on a read-only disk. A database that no
    /// program has open is read without locks. If a program changes it during the read, the read is repeated until the
    /// timeout, and then fails as [`Busy`](memory_tool_core::ErrorKind::Busy).
    ///
    /// The limit on file sizes applies to the stored bytes: encryption makes a file larger.
    pub fn options(mut self, options: OpenOptions) -> Self {
        self.options = options;
        self
    }

    /// Opens the store. In the mode [`Create`](memory_tool_core::OpenMode::Create), the database and its directories
    /// are created if they are missing. Except in the mode [`ReadOnly`](memory_tool_core::OpenMode::ReadOnly), a
    /// database of an older version of this crate is upgraded.
    ///
    /// # Errors
    /// [`OpenError`] with an [`OpenFailure`](crate::OpenFailure) as its source.
    pub async fn open(self) -> Result<SqliteStore, OpenError> {
        SqliteStore::open_with(self).await
    }
}
