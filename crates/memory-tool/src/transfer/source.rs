//! [`Source`]: the memory that files are read from.

use std::sync::Arc;

use memory_tool_core::{FailureKind, MemoryPath, Node, Problem, Store, StoreError, StoreExt as _, StoredFile};

use crate::transfer::error::TransferError;

/// A store that files are read from.
pub(super) struct Source {
    store: Arc<dyn Store>,
}

/// What became of a file that was listed.
pub(super) enum Listed {
    File(StoredFile),
    /// It was removed since then.
    Gone,
    /// It cannot be read, and others can.
    Unreadable {
        reason: String,
    },
}

impl Source {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// The paths of all files, sorted.
    pub(super) async fn list(&self) -> Result<Vec<MemoryPath>, TransferError> {
        sorted_paths(&*self.store).await.map_err(TransferError::Reading)
    }

    /// Reads a file. A failure of this file alone is no error: the others can still be read.
    pub(super) async fn read(&self, path: &MemoryPath) -> Result<Listed, TransferError> {
        let error = match self.store.read(path).await {
            Ok(Node::File(file)) => return Ok(Listed::File(file)),
            Ok(Node::Absent | Node::Directory(_)) => return Ok(Listed::Gone),
            Err(error) => error,
        };
        // From a disk with a bad sector, the rest can be saved; a store that does not even list its files is lost.
        if !is_about_one_file(&error) && self.store.list(MemoryPath::root()).await.is_err() {
            return Err(TransferError::Reading(error));
        }
        Ok(Listed::Unreadable { reason: Problem::of(&error).message })
    }
}

pub(super) async fn sorted_paths(store: &dyn Store) -> Result<Vec<MemoryPath>, StoreError> {
    Ok(store.list(MemoryPath::root()).await?.into_iter().map(|entry| entry.path).collect())
}

/// Whether other files of the store can be expected to do better.
pub(super) fn is_about_one_file(error: &StoreError) -> bool {
    match error {
        StoreError::Failure { kind, .. } => matches!(kind, FailureKind::Damaged | FailureKind::UnsupportedName),
        _ => true,
    }
}
