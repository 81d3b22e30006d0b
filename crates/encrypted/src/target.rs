//! [`Target`]: a file or a record.

use memory_tool_core::{FailureKind, MemoryPath, RecordName, StoreError};

use crate::failure::Failure;

/// A file or a record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Target {
    File(MemoryPath),
    Record(RecordName),
}

impl Target {
    /// The error for a precondition on the target that does not hold.
    pub(crate) fn mismatch(&self) -> StoreError {
        match self.clone() {
            Self::File(path) => StoreError::VersionMismatch { path },
            Self::Record(name) => StoreError::RecordMismatch { name },
        }
    }

    /// Converts a refusal of the inner store, for example because a file is too large. The error names the path of the
    /// file, which the model knows.
    pub(crate) fn refused(&self, policy: &'static str, reason: String) -> Failure {
        match self {
            Self::File(path) => StoreError::refused(path, policy, reason).into(),
            Self::Record(_) => Failure::new(FailureKind::Full, reason),
        }
    }
}
