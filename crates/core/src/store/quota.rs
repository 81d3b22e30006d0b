//! [`Quota`]: limits of a directory, and [`Usage`], which is compared with it.

use std::fmt;

use crate::store::node::FileEntry;
use crate::store::store_path::StorePath;

/// Limits of a directory (`[X4]`), for [`Batch::limit`](crate::Batch::limit). `None` means no limit.
///
/// A store checks the quota atomically with the batch, so concurrent writers cannot exceed it together.
///
/// # Behavior
/// 1. A batch that does not increase the limited usage always passes. Files over a limit can be read, shortened, moved
///    and removed.
/// 2. A file larger than `file_bytes` can be replaced by a file of at most its size. A file deeper than `depth` can be
///    edited, and moved to a path of at most its depth.
/// 3. Every listed file counts, including files that other programs created.
///
/// ```
/// use memory_tool_core::{Batch, InMemoryStore, StorePath, Quota, Store, StoreError};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let store = InMemoryStore::new();
/// let limited = Batch::new().limit(StorePath::memories(), Quota::new().with_bytes(8));
///
/// store.apply(limited.clone().write("/memories/a.txt".parse::<StorePath>()?, "Hello")).await?;
/// let refused = store.apply(limited.write("/memories/b.txt".parse::<StorePath>()?, "Hello")).await;
/// assert!(matches!(refused, Err(StoreError::OverQuota { limit: 8, requested: 10, remaining: 3, .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
#[must_use]
pub struct Quota {
    /// The maximum number of files.
    pub files: Option<u64>,
    /// The maximum total size in bytes.
    pub bytes: Option<u64>,
    /// The maximum size of a file in bytes.
    pub file_bytes: Option<u64>,
    /// The maximum depth of a file. A file directly in the directory has depth 1.
    pub depth: Option<u64>,
}

impl Quota {
    /// Creates a quota without limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `files`.
    pub fn with_files(mut self, files: u64) -> Self {
        self.files = Some(files);
        self
    }

    /// Sets `bytes`.
    pub fn with_bytes(mut self, bytes: u64) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// Sets `file_bytes`.
    pub fn with_file_bytes(mut self, file_bytes: u64) -> Self {
        self.file_bytes = Some(file_bytes);
        self
    }

    /// Sets `depth`.
    pub fn with_depth(mut self, depth: u64) -> Self {
        self.depth = Some(depth);
        self
    }
}

/// The usage of a file or directory. It can be collected from the entries of a listing.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Usage {
    /// The number of files.
    pub files: u64,
    /// The total size in bytes.
    pub bytes: u64,
    /// The number of segments in the deepest path, counted from `/memories`.
    pub depth: u64,
}

impl Usage {
    /// Creates a usage from its parts.
    pub fn new(files: u64, bytes: u64, depth: u64) -> Self {
        Self { files, bytes, depth }
    }

    /// The usage of a file at `path` with `bytes` bytes.
    pub fn of_file(path: &StorePath, bytes: u64) -> Self {
        Self::new(1, bytes, path.depth())
    }

    pub(crate) fn add(&mut self, other: Self) {
        // A listing can contain wrong sizes from other programs, so the sum could overflow.
        self.files = self.files.saturating_add(other.files);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.depth = self.depth.max(other.depth);
    }
}

impl FromIterator<Usage> for Usage {
    fn from_iter<I: IntoIterator<Item = Usage>>(parts: I) -> Self {
        parts.into_iter().fold(Self::default(), |mut sum, part| {
            sum.add(part);
            sum
        })
    }
}

impl FromIterator<FileEntry> for Usage {
    fn from_iter<I: IntoIterator<Item = FileEntry>>(files: I) -> Self {
        files.into_iter().map(|file| Self::of_file(&file.path, file.size)).collect()
    }
}

/// The part of a [`Quota`] that a batch would exceed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum QuotaKind {
    /// [`Quota::files`].
    Files,
    /// [`Quota::bytes`].
    Bytes,
    /// [`Quota::file_bytes`].
    FileBytes,
    /// [`Quota::depth`].
    Depth,
}

impl fmt::Display for QuotaKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Files => "files",
            Self::Bytes => "bytes in total",
            Self::FileBytes => "bytes in one file",
            Self::Depth => "levels of directories and files",
        })
    }
}
