//! [`default_quota`]: limits for one agent.

use memory_tool_core::Quota;

/// The default limit on the size of a file in bytes, the same as in Anthropic's hosted memory stores. Claude reads such
/// a file in seven views.
pub const DEFAULT_QUOTA_FILE_BYTES: u64 = 102_400;
/// The default limit on the number of files, the same as in Anthropic's hosted memory stores.
pub const DEFAULT_QUOTA_FILES: u64 = 2_000;
/// The default limit on the total size in bytes: 16 MiB, which is 8 KB per file for 2,000 files.
pub const DEFAULT_QUOTA_BYTES: u64 = 16 * 1024 * 1024;
/// The default limit on the depth of a file; the depth of `/memories/a.txt` is 1. A `view` shows two levels at a time,
/// so Claude needs many steps to find deeper files.
pub const DEFAULT_QUOTA_DEPTH: u64 = 8;

/// Returns a [`Quota`] for the memory of one agent: [`DEFAULT_QUOTA_FILE_BYTES`], [`DEFAULT_QUOTA_FILES`],
/// [`DEFAULT_QUOTA_BYTES`] and [`DEFAULT_QUOTA_DEPTH`]. Start from [`Quota::new`], which has no limits, if you want
/// only some of them.
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
