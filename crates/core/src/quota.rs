//! [`Quota`]: how much may lie under a directory, and the [`Usage`] that it is compared with.

use std::fmt;

use crate::node::FileEntry;
use crate::path::MemoryPath;

/// How much may lie under a directory once a batch is applied (`[X4]`): see [`Batch::limit`](crate::Batch::limit). `None` is no limit.
///
/// A store checks it together with the batch, in one step. So concurrent writers never pass it together, and the numbers of a
/// refusal are those of that moment.
///
/// # Behavior
/// 1. A batch that does not add to what is limited always passes: files over a limit can be read, shortened, moved and removed.
/// 2. So a file that is longer than `file_bytes` may be replaced by one that is not longer. A file that lies too deep may be edited,
///    and moved to where it lies no deeper.
/// 3. Every file of a listing counts, whoever wrote it.
///
/// ```
/// use memory_tool_core::{Batch, InMemoryStore, MemoryPath, Quota, Store, StoreError};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let store = InMemoryStore::new();
/// let limited = Batch::new().limit(MemoryPath::root(), Quota::new().with_bytes(8));
///
/// store.apply(limited.clone().write("/memories/a.txt".parse()?, "Hello")).await?;
/// let refused = store.apply(limited.write("/memories/b.txt".parse()?, "Hello")).await;
/// assert!(matches!(refused, Err(StoreError::OverQuota { limit: 8, asked: 10, left: 3, .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Quota {
    /// The number of files.
    pub files: Option<u64>,
    /// The bytes of all files together.
    pub bytes: Option<u64>,
    /// The bytes of one file.
    pub file_bytes: Option<u64>,
    /// How deep a file lies: a file in the directory itself has depth 1.
    pub depth: Option<u64>,
}

impl Quota {
    /// A quota without limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `files`.
    #[must_use]
    pub fn with_files(mut self, files: u64) -> Self {
        self.files = Some(files);
        self
    }

    /// Sets `bytes`.
    #[must_use]
    pub fn with_bytes(mut self, bytes: u64) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// Sets `file_bytes`.
    #[must_use]
    pub fn with_file_bytes(mut self, file_bytes: u64) -> Self {
        self.file_bytes = Some(file_bytes);
        self
    }

    /// Sets `depth`.
    #[must_use]
    pub fn with_depth(mut self, depth: u64) -> Self {
        self.depth = Some(depth);
        self
    }
}

/// How much lies at or under a path. Collected from the entries of a listing.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Usage {
    /// The number of files.
    pub files: u64,
    /// The bytes that they have together.
    pub bytes: u64,
    /// The number of names in the longest of their paths, counted from `/memories`.
    pub depth: u64,
}

impl Usage {
    /// This many files with this many bytes, of which the deepest lies this many names under `/memories`.
    pub fn new(files: u64, bytes: u64, depth: u64) -> Self {
        Self { files, bytes, depth }
    }

    /// The usage of one file of `bytes` at `path`.
    pub fn of_file(path: &MemoryPath, bytes: u64) -> Self {
        Self::new(1, bytes, path.depth())
    }

    pub(crate) fn add(&mut self, other: Self) {
        // The sizes may be what others wrote, so their sum may be anything.
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

/// Which part of a [`Quota`] a batch would pass.
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
