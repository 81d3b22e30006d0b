//! What a store returns: a [`Node`] at a path, a [`StoredFile`], and the [`FileEntry`] of a listing.

use std::time::SystemTime;

use crate::path::MemoryPath;

/// What is at a path.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a path holds a file, is a directory, or is free: there is no fourth")]
pub enum Node {
    /// Nothing.
    Absent,
    /// A directory: every file under it, at any depth, in any order. The root is always one, and may be empty; any other
    /// directory holds at least one file (`[P5]`).
    Directory(Vec<FileEntry>),
    /// A file.
    File(StoredFile),
}

impl Node {
    /// The file, if it is one.
    pub fn into_file(self) -> Option<StoredFile> {
        match self {
            Self::File(file) => Some(file),
            Self::Absent | Self::Directory(_) => None,
        }
    }

    /// The files under the directory; none if it is not one.
    pub fn into_entries(self) -> Vec<FileEntry> {
        match self {
            Self::Directory(entries) => entries,
            Self::Absent | Self::File(_) => Vec::new(),
        }
    }

    /// What is there, without the contents.
    pub fn stat(&self) -> Stat {
        match self {
            Self::Absent => Stat::Absent,
            Self::Directory(_) => Stat::Directory,
            Self::File(file) => Stat::File(file.version.clone()),
        }
    }
}

/// What is at a path, without the contents: all that a [precondition](crate::Precondition) depends on.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the same three as `Node`")]
pub enum Stat {
    /// Nothing.
    Absent,
    /// A directory.
    Directory,
    /// A file at this version.
    File(Version),
}

/// A file or a record as it was read: its bytes, and the version to name when replacing it.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct StoredFile {
    /// The bytes, as they were written.
    pub content: Vec<u8>,
    /// The version of these bytes.
    pub version: Version,
}

impl StoredFile {
    /// A file of `content` at `version`.
    pub fn new(content: Vec<u8>, version: Version) -> Self {
        Self { content, version }
    }
}

/// Distinguishes one state of a file from another. Only the store interprets its bytes: callers compare and return them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Version(Box<[u8]>);

impl Version {
    /// A version made of whatever the store distinguishes states by: a counter, a digest, an entity tag.
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes that the store made it of.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// One file of a listing.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct FileEntry {
    /// The file's path.
    pub path: MemoryPath,
    /// Its size in bytes.
    pub size: u64,
    /// When the file was created, if the store knows. Replacing the contents or renaming the file does not change it.
    pub created: Option<SystemTime>,
    /// When its contents were last written, if the store knows.
    pub modified: Option<SystemTime>,
    /// Whether its contents are known to be lost or altered. Such a file cannot be read; it can be removed, renamed and written.
    pub is_damaged: bool,
}

impl FileEntry {
    /// An entry for the file at `path`, without times.
    pub fn new(path: MemoryPath, size: u64) -> Self {
        Self { path, size, created: None, modified: None, is_damaged: false }
    }

    /// An entry for a damaged file at `path`, of which the store has `size` bytes.
    pub fn damaged(path: MemoryPath, size: u64) -> Self {
        Self { is_damaged: true, ..Self::new(path, size) }
    }

    /// Sets `created`.
    #[must_use]
    pub fn with_created(mut self, created: impl Into<Option<SystemTime>>) -> Self {
        self.created = created.into();
        self
    }

    /// Sets `modified`.
    #[must_use]
    pub fn with_modified(mut self, modified: impl Into<Option<SystemTime>>) -> Self {
        self.modified = modified.into();
        self
    }
}
