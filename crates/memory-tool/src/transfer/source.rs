//! [`Source`]: the source of a copy or export.

use std::sync::Arc;

use memory_tool_core::{
    FailureKind, Listing, MemoryPath, Node, Problem, Store, StoreError, StoreExt as _, StoredFile, UnlistedItem,
};

use crate::transfer::error::TransferError;

/// The source of a copy or export.
pub(super) struct Source {
    store: Arc<dyn Store>,
}

/// The result of reading a listed file.
pub(super) enum ReadOutcome {
    File(StoredFile),
    /// It was removed after the listing.
    Removed,
    /// It cannot be read, but other files can.
    Unreadable {
        reason: String,
    },
}

impl Source {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// The paths of all files, sorted, and the items that cannot be listed.
    pub(super) async fn list(&self) -> Result<(Vec<MemoryPath>, Vec<UnlistedItem>), TransferError> {
        let root = self.store.read(MemoryPath::root()).await.map_err(TransferError::Reading)?;
        let Listing { files, unlisted, .. } = root.into_listing();
        let mut paths: Vec<_> = files.into_iter().map(|entry| entry.path).collect();
        paths.sort_unstable();
        Ok((paths, unlisted))
    }

    /// Reads a file. A failure that affects only this file is not an error.
    pub(super) async fn read(&self, path: &MemoryPath) -> Result<ReadOutcome, TransferError> {
        let error = match self.store.read(path).await {
            Ok(Node::File(file)) => return Ok(ReadOutcome::File(file)),
            Ok(Node::Absent | Node::Directory(_)) => return Ok(ReadOutcome::Removed),
            Err(error) => error,
        };
        // On a disk with a bad sector, other files can still be read. If even a listing fails, stop.
        if !is_about_one_file(&error) && self.store.list(MemoryPath::root()).await.is_err() {
            return Err(TransferError::Reading(error));
        }
        Ok(ReadOutcome::Unreadable { reason: Problem::of(&error).message })
    }
}

/// Whether the error affects only one file.
pub(super) fn is_about_one_file(error: &StoreError) -> bool {
    match error {
        StoreError::Failure { kind, .. } => matches!(kind, FailureKind::Damaged | FailureKind::UnsupportedName),
        _ => true,
    }
}
