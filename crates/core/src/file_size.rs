//! How large a file may be before a store refuses to read or write it.

use crate::error::StoreError;
use crate::path::MemoryPath;
use crate::store::{Batch, Change};

/// The size in bytes of the largest file that a store reads or writes, unless another limit is set: 64 MiB.
///
/// Every backend reads a file into RAM as a whole. Without a limit, one file that another program put there could use up the
/// memory of the process. Claude's own files are a thousand times smaller, so the limit is far above all of them.
pub const DEFAULT_MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

impl StoreError {
    /// The refusal to read a file of `size` bytes, because that is more than `limit`.
    pub fn too_large_to_read(path: &MemoryPath, size: u64, limit: u64) -> Self {
        let reason = format!(
            "The file is too large to read: it has {size} bytes and the limit is {limit}. You can delete or rename it"
        );
        Self::Refused { path: path.clone(), reason }
    }

    /// The refusal to write a file of `size` bytes, because that is more than `limit`.
    pub fn too_large_to_write(path: &MemoryPath, size: u64, limit: u64) -> Self {
        let reason = format!("The file would have {size} bytes; the limit is {limit}. Split it into smaller files");
        Self::Refused { path: path.clone(), reason }
    }
}

impl Batch {
    /// Checks that no file that the batch writes is larger than `limit` bytes: a store writes no file that it does not read.
    ///
    /// # Errors
    /// [`StoreError::Refused`] for the first such file.
    ///
    /// ```
    /// use memory_tool_core::{Batch, StoreError};
    ///
    /// let batch = Batch::new().write("/memories/a.txt".parse()?, vec![0; 9])?;
    /// assert!(batch.check_file_sizes(9).is_ok());
    /// assert!(matches!(batch.check_file_sizes(8), Err(StoreError::Refused { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_file_sizes(&self, limit: u64) -> Result<(), StoreError> {
        self.changes().iter().try_for_each(|change| match change {
            Change::Write { path, content } if content.len() as u64 > limit => {
                Err(StoreError::too_large_to_write(path, content.len() as u64, limit))
            }
            Change::Write { .. } | Change::Remove { .. } | Change::Rename { .. } => Ok(()),
        })
    }
}
