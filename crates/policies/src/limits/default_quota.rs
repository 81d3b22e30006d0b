//! [`default_quota`]: the limits that suit an agent.

use memory_tool_core::Quota;

/// The largest file in bytes: as large as Anthropic's hosted memory stores keep them. Claude reads it in seven views.
pub const DEFAULT_QUOTA_FILE_BYTES: u64 = 102_400;
/// How many files a memory has at most: as many as Anthropic's hosted memory stores keep.
pub const DEFAULT_QUOTA_FILES: u64 = 2_000;
/// How many bytes all files have together, a choice of this project: 16 MiB, which is 8 KB for each of as many files as there may
/// be.
pub const DEFAULT_QUOTA_BYTES: u64 = 16 * 1024 * 1024;
/// How deep a file lies at most, a choice of this project: `/memories/a.txt` is 1. A `view` shows two levels at a time, so what lies
/// deeper takes Claude many steps to find.
pub const DEFAULT_QUOTA_DEPTH: u64 = 8;

/// A [`Quota`] that suits the memory of one agent: [`DEFAULT_QUOTA_FILE_BYTES`], [`DEFAULT_QUOTA_FILES`], [`DEFAULT_QUOTA_BYTES`] and
/// [`DEFAULT_QUOTA_DEPTH`]. Start from [`Quota::new`] instead if you want only a few limits.
///
/// ```
/// use memory_tool_policies::{DEFAULT_QUOTA_FILE_BYTES, default_quota};
///
/// let mut quota = default_quota().with_files(100);
/// quota.bytes = None; // no limit
/// assert_eq!(quota.file_bytes, Some(DEFAULT_QUOTA_FILE_BYTES));
/// ```
pub fn default_quota() -> Quota {
    Quota::new()
        .with_file_bytes(DEFAULT_QUOTA_FILE_BYTES)
        .with_files(DEFAULT_QUOTA_FILES)
        .with_bytes(DEFAULT_QUOTA_BYTES)
        .with_depth(DEFAULT_QUOTA_DEPTH)
}
