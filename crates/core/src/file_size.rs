//! How large a file may be before a store refuses to read or write it.

use crate::path::MemoryPath;
use crate::store_error::{FailureKind, StoreError};

/// The size in bytes of the largest file that a store reads or writes, unless another limit is set: 64 MiB.
///
/// Every backend reads a file into RAM as a whole. Without a limit, one file that another program put there could use up the
/// memory of the process. Claude's own files are a thousand times smaller, so the limit is far above all of them.
pub const DEFAULT_MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// The policy that a refusal for the size of a file names.
const POLICY: &str = "file size";

impl StoreError {
    /// The refusal to read a file of `size` bytes, because that is more than `limit`.
    pub fn too_large_to_read(path: &MemoryPath, size: u64, limit: u64) -> Self {
        let reason = format!(
            "The file is too large to read: it has {size} bytes and the limit is {limit}. You can delete or rename it."
        );
        Self::refused(path, POLICY, reason)
    }

    /// The refusal to write a file of `size` bytes, because that is more than `limit`.
    pub fn too_large_to_write(path: &MemoryPath, size: u64, limit: u64) -> Self {
        let reason = format!("The file would have {size} bytes; the limit is {limit}. Split it into smaller files.");
        Self::refused(path, POLICY, reason)
    }

    /// The failure to read or write a record of `size` bytes, because that is more than `limit`.
    pub fn record_too_large(size: u64, limit: u64) -> Self {
        let cause = format!("it has {size} bytes; the limit is {limit}");
        Self::failure(FailureKind::Full, "reading or writing a record", cause)
    }
}
