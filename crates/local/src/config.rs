//! Opening a [`LocalStore`]: its options.

use std::path::PathBuf;

use memory_tool_core::{OpenError, OpenOptions};

use crate::store::LocalStore;

/// Options of a [`LocalStore`]. Made by [`LocalStore::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct LocalStoreBuilder {
    pub(crate) base: PathBuf,
    pub(crate) options: OpenOptions,
    pub(crate) trusts_other_users: bool,
}

impl LocalStoreBuilder {
    pub(crate) fn new(base: PathBuf) -> Self {
        Self { base, options: OpenOptions::new(), trusts_other_users: false }
    }

    /// The options that every backend takes.
    ///
    /// A store opened as [`ReadOnly`](memory_tool_core::OpenMode::ReadOnly) may lie on a read-only disk, belong to another user, or be
    /// a plain copy of `memories` without `.memory-tool`. It takes the shared lock if there is a lock file. While a batch that was cut
    /// short waits in the journal, its reads fail as [`Busy`](memory_tool_core::FailureKind::Busy): open the store for writing to
    /// complete it.
    pub fn options(mut self, options: OpenOptions) -> Self {
        self.options = options;
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

    /// Opens the store. Its directories are made where they are missing, unless the [mode](OpenOptions::mode) is another.
    ///
    /// # Errors
    /// [`OpenError`] with a [`std::io::Error`] as its source: there is no store and none may be made; the base is a file, may not be read or
    /// written, or holds a link or a file where the store's own directories belong; `.memory-tool` in it is not this user's
    /// alone; or `memories` in it is on another file system.
    pub async fn open(self) -> Result<LocalStore, OpenError> {
        LocalStore::open_with(self).await
    }
}
