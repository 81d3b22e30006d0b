//! The size limit of files.

use crate::store::error::{ErrorKind, StoreError};
use crate::store::store_path::StorePath;

/// The default size limit of files that a store reads or writes: 64 MiB.
///
/// Backends read whole files into RAM, so a huge file from another program could otherwise exhaust the RAM of the
/// process. Files that Claude writes are usually a thousand times smaller.
pub const DEFAULT_MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// The name of the policy in refusals.
const POLICY: &str = "file size";

impl StoreError {
    /// Creates the refusal to read a file of `size` bytes. For a record, it is a failure.
    pub fn too_large_to_read(path: &StorePath, size: u64, limit: u64) -> Self {
        let reason = format!(
            "The file is too large to read: it has {size} bytes and the limit is {limit}. You can delete or rename it."
        );
        Self::too_large(path, reason)
    }

    /// Creates the refusal to write a file of `size` bytes. For a record, it is a failure.
    pub fn too_large_to_write(path: &StorePath, size: u64, limit: u64) -> Self {
        let reason = format!("The file would have {size} bytes; the limit is {limit}. Split it into smaller files.");
        Self::too_large(path, reason)
    }

    fn too_large(path: &StorePath, reason: String) -> Self {
        if path.is_record() {
            let cause = format!("{path}: {reason}");
            return Self::failure(ErrorKind::Full, "reading or writing a record", cause);
        }
        Self::refused(path, POLICY, reason)
    }
}
