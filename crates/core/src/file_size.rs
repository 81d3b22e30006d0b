//! The size limit of files.

use crate::path::MemoryPath;
use crate::store_error::{FailureKind, StoreError};

/// The default size limit of files that a store reads or writes: 64 MiB.
///
/// Backends read whole files into RAM, so a huge file from another program could otherwise exhaust the RAM of the
/// process. Files that Claude writes are usually a thousand times smaller.
pub const DEFAULT_MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// The name of the policy in refusals.
const POLICY: &str = "file size";

impl StoreError {
    /// Creates the refusal to read a file of `size` bytes.
    pub fn too_large_to_read(path: &MemoryPath, size: u64, limit: u64) -> Self {
        let reason = format!(
            "The file is too large to read: it has {size} bytes and the limit is {limit}. You can delete or rename it."
        );
        Self::refused(path, POLICY, reason)
    }

    /// Creates the refusal to write a file of `size` bytes.
    pub fn too_large_to_write(path: &MemoryPath, size: u64, limit: u64) -> Self {
        let reason = format!("The file would have {size} bytes; the limit is {limit}. Split it into smaller files.");
        Self::refused(path, POLICY, reason)
    }

    /// Creates the failure to read or write a record of `size` bytes.
    pub fn record_too_large(size: u64, limit: u64) -> Self {
        let cause = format!("it has {size} bytes; the limit is {limit}");
        Self::failure(FailureKind::Full, "reading or writing a record", cause)
    }
}
