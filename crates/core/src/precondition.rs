//! [`Precondition`]: what a batch or a read requires of a path.

use crate::node::{Stat, Version};
use crate::path::MemoryPath;
use crate::record::RecordName;
use crate::store_error::StoreError;

/// What a batch or a read requires of a path or a record.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a store that does not know a precondition cannot check it")]
pub enum Precondition {
    /// Nothing is there.
    Absent,
    /// A file, or the record, is there at this version.
    Version(Version),
}

impl Precondition {
    /// Checks the precondition on what is at `path`.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`] where the path was to be free, [`StoreError::VersionMismatch`] where the file has another
    /// version or is gone.
    pub fn check(&self, path: &MemoryPath, found: &Stat) -> Result<(), StoreError> {
        match (self, found) {
            (Self::Absent, Stat::Absent) => Ok(()),
            (Self::Absent, _) => Err(StoreError::AlreadyExists { path: path.clone() }),
            (Self::Version(version), Stat::File(found)) if found == version => Ok(()),
            (Self::Version(_), _) => Err(StoreError::VersionMismatch { path: path.clone() }),
        }
    }

    /// Checks the precondition on the version of a record, which is `None` where there is no record.
    ///
    /// # Errors
    /// [`StoreError::RecordMismatch`].
    pub fn check_record(&self, name: &RecordName, found: Option<&Version>) -> Result<(), StoreError> {
        match (self, found) {
            (Self::Absent, None) => Ok(()),
            (Self::Version(version), Some(found)) if found == version => Ok(()),
            _ => Err(StoreError::RecordMismatch { name: name.clone() }),
        }
    }
}
