//! [`Precondition`]: a requirement on a path or record.

use crate::node::{Stat, Version};
use crate::path::MemoryPath;
use crate::record::RecordName;
use crate::store_error::StoreError;

/// A requirement of a batch or a read on a path or record.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "every store must check every precondition")]
pub enum Precondition {
    /// The path or record does not exist.
    Absent,
    /// The file or record has this version.
    Version(Version),
}

impl Precondition {
    /// Checks the precondition on a path.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`] if the path must not exist, and [`StoreError::VersionMismatch`] if the file has
    /// another version or does not exist.
    pub fn check(&self, path: &MemoryPath, found: &Stat) -> Result<(), StoreError> {
        match (self, found) {
            (Self::Absent, Stat::Absent) => Ok(()),
            (Self::Absent, _) => Err(StoreError::AlreadyExists { path: path.clone() }),
            (Self::Version(version), Stat::File(found)) if found == version => Ok(()),
            (Self::Version(_), _) => Err(StoreError::VersionMismatch { path: path.clone() }),
        }
    }

    /// Checks the precondition on a record. `found` is `None` if the record does not exist.
    ///
    /// # Errors
    /// [`StoreError::RecordMismatch`] if the precondition does not hold.
    pub fn check_record(&self, name: &RecordName, found: Option<&Version>) -> Result<(), StoreError> {
        match (self, found) {
            (Self::Absent, None) => Ok(()),
            (Self::Version(version), Some(found)) if found == version => Ok(()),
            _ => Err(StoreError::RecordMismatch { name: name.clone() }),
        }
    }
}
