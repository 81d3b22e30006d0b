//! [`Target`]: a file or a record, as errors name it.

use memory_tool_core::{FailureKind, MemoryPath, RecordName, StoreError};

use crate::failure::Failure;

/// A file or a record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Target {
    File(MemoryPath),
    Record(RecordName),
}

impl Target {
    /// The error of a precondition that does not hold.
    pub(crate) fn mismatch(&self) -> StoreError {
        match self.clone() {
            Self::File(path) => StoreError::VersionMismatch { path },
            Self::Record(name) => StoreError::RecordMismatch { name },
        }
    }

    /// The refusal of the inner store, such as of a file that is too large. The model knows a file by its own path.
    pub(crate) fn refused(&self, policy: &'static str, reason: String) -> Failure {
        match self {
            Self::File(path) => StoreError::refused(path, policy, reason).into(),
            Self::Record(_) => Failure::new(FailureKind::Full, reason),
        }
    }
}
