//! [`Precondition`]: a requirement on a path.

use crate::store::error::StoreError;
use crate::store::node::{Stat, Version};
use crate::store::store_path::StorePath;

/// A requirement of a batch or a read on a path.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "every store must check every precondition")]
pub enum Precondition {
    /// The path does not exist.
    Absent,
    /// The file has this version.
    Version(Version),
}

impl Precondition {
    /// Checks the precondition on a path.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`] if the path must not exist, and [`StoreError::VersionMismatch`] if the file has
    /// another version or does not exist.
    pub fn check(&self, path: &StorePath, found: &Stat) -> Result<(), StoreError> {
        match (self, found) {
            (Self::Absent, Stat::Absent) => Ok(()),
            (Self::Absent, _) => Err(StoreError::AlreadyExists { path: path.clone() }),
            (Self::Version(version), Stat::File(found)) if found == version => Ok(()),
            (Self::Version(_), _) => Err(StoreError::VersionMismatch { path: path.clone() }),
        }
    }
}
