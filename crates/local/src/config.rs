//! Options for opening a [`LocalStore`].

use std::path::PathBuf;

use memory_tool_core::{OpenError, OpenOptions};

use crate::layout::Trust;
use crate::store::LocalStore;

/// Options of a [`LocalStore`]. Created by [`LocalStore::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct LocalStoreBuilder {
    pub(crate) base: PathBuf,
    pub(crate) options: OpenOptions,
    pub(crate) trust: Trust,
}

impl LocalStoreBuilder {
    pub(crate) fn new(base: PathBuf) -> Self {
        Self { base, options: OpenOptions::new(), trust: Trust::default() }
    }

    /// Sets the options that every backend takes.
    ///
    /// In the mode [`ReadOnly`](memory_tool_core::OpenMode::ReadOnly), the store may be on a read-only disk, belong to
    /// another user, or be a plain copy of `memories` without `.memory-tool`. Reads take the shared lock if the lock
    /// file exists. While an interrupted batch is pending in the journal, they fail as
    /// [`Busy`](memory_tool_core::ErrorKind::Busy): open the store for writing to complete it.
    pub fn options(mut self, options: OpenOptions) -> Self {
        self.options = options;
        self
    }

    /// Opens the store even if another user owns the base, `memories` or `.memory-tool`, or can write to it.
    ///
    /// By default, such a store can only be opened in read-only mode: write access to one of these directories is
    /// enough to replace or add files of the memory, and write access to `.memory-tool` also to block every command.
    /// Use this for the shared directory of a team, and on file systems without owners and modes.
    pub fn trust_other_users(mut self) -> Self {
        self.trust.other_users = true;
        self
    }

    /// Opens the store even on a network file system, or on one that stores files in a bucket.
    ///
    /// By default, such a store can only be opened in read-only mode: NFS, SMB, 9p, rclone, s3fs, gcsfuse and similar
    /// file systems may lose acknowledged writes or ignore locks. With this option, let only one machine use the
    /// directory. The option also disables the warning about locks on other file systems of FUSE.
    pub fn trust_file_system(mut self) -> Self {
        self.trust.file_system = true;
        self
    }

    /// Opens the store. In the mode [`Create`](memory_tool_core::OpenMode::Create), missing directories are created.
    ///
    /// # Errors
    /// [`OpenError`] with a [`std::io::Error`] as its source:
    ///
    /// - The store does not exist, and the mode does not create it.
    /// - The base is a file, or access to it is denied.
    /// - The base contains a link or a file with the name of one of the store's directories.
    /// - Another user owns the base, `memories` or `.memory-tool`, or can write to it.
    /// - `memories` is on another file system or subvolume.
    /// - The file system needs [`trust_file_system`](Self::trust_file_system).
    /// - A new store is on a file system without modes, locks or exact names.
    pub async fn open(self) -> Result<LocalStore, OpenError> {
        LocalStore::open_with(self).await
    }
}
