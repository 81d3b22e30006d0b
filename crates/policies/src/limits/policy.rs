//! [`Limits`]: how much a memory may hold.

use memory_tool_core::Capacity;

/// The largest file in bytes: as large as Anthropic's hosted memory stores keep them. Claude reads it in seven views.
pub const DEFAULT_MAX_FILE_BYTES: u64 = 102_400;
/// How many files a memory has at most: as many as Anthropic's hosted memory stores keep.
pub const DEFAULT_MAX_FILES: u64 = 2_000;
/// How many bytes all files have together, a choice of this project: 16 MiB, which is 8 KB for each of as many files as there may
/// be.
pub const DEFAULT_MAX_BYTES: u64 = 16 * 1024 * 1024;
/// How deep a file lies at most, a choice of this project: `/memories/a.txt` is 1. A `view` shows two levels at a time, so what lies
/// deeper takes Claude many steps to find.
pub const DEFAULT_MAX_DEPTH: u64 = 8;

/// How much a memory may hold (`[X4]`). Each limit is optional, and has a default that suits an agent.
///
/// ```
/// use memory_tool_policies::{DEFAULT_MAX_FILE_BYTES, Limits};
///
/// let limits = Limits::default().with_files(100).with_bytes(None);
/// assert_eq!(limits.file_bytes, Some(DEFAULT_MAX_FILE_BYTES));
/// assert_eq!(limits.bytes, None);
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Limits {
    /// How many bytes a file has at most. Default: [`DEFAULT_MAX_FILE_BYTES`].
    pub file_bytes: Option<u64>,
    /// How many files there are at most. Default: [`DEFAULT_MAX_FILES`].
    pub files: Option<u64>,
    /// How many bytes all files have together at most. Default: [`DEFAULT_MAX_BYTES`].
    pub bytes: Option<u64>,
    /// How deep a file lies at most. Default: [`DEFAULT_MAX_DEPTH`].
    pub depth: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file_bytes: Some(DEFAULT_MAX_FILE_BYTES),
            files: Some(DEFAULT_MAX_FILES),
            bytes: Some(DEFAULT_MAX_BYTES),
            depth: Some(DEFAULT_MAX_DEPTH),
        }
    }
}

impl Limits {
    /// No limit at all, to begin with when few are wanted.
    pub fn none() -> Self {
        Self { file_bytes: None, files: None, bytes: None, depth: None }
    }

    /// Sets `file_bytes`; `None` is no limit.
    #[must_use]
    pub fn with_file_bytes(mut self, file_bytes: impl Into<Option<u64>>) -> Self {
        self.file_bytes = file_bytes.into();
        self
    }

    /// Sets `files`; `None` is no limit.
    #[must_use]
    pub fn with_files(mut self, files: impl Into<Option<u64>>) -> Self {
        self.files = files.into();
        self
    }

    /// Sets `bytes`; `None` is no limit.
    #[must_use]
    pub fn with_bytes(mut self, bytes: impl Into<Option<u64>>) -> Self {
        self.bytes = bytes.into();
        self
    }

    /// Sets `depth`; `None` is no limit.
    #[must_use]
    pub fn with_depth(mut self, depth: impl Into<Option<u64>>) -> Self {
        self.depth = depth.into();
        self
    }

    pub(super) fn capacity(self) -> Capacity {
        let Self { file_bytes, files, bytes, depth } = self;
        let mut capacity = Capacity::new();
        (capacity.file_bytes, capacity.files, capacity.bytes, capacity.depth) = (file_bytes, files, bytes, depth);
        capacity
    }
}
