//! [`Source`]: the source of a copy or export.

use std::sync::Arc;

use futures::stream::{self, Stream, StreamExt as _};
use memory_tool_core::{
    FailureKind, FileEntry, Listing, MemoryPath, Node, Problem, Store, StoreError, StoreExt as _, StoredFile,
    UnlistedItem,
};

use crate::transfer::error::TransferError;

/// The most files that are read at a time.
const MAX_CONCURRENT_FILES: usize = 16;
/// The most bytes of several files that are read at a time.
const MAX_CONCURRENT_BYTES: u64 = 8 * 1024 * 1024;

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

    /// All files, sorted by path, and the items that cannot be listed.
    pub(super) async fn list(&self) -> Result<(Vec<FileEntry>, Vec<UnlistedItem>), TransferError> {
        let root = self.store.read(MemoryPath::root()).await.map_err(TransferError::Reading)?;
        let Listing { mut files, unlisted, .. } = root.into_listing();
        files.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        Ok((files, unlisted))
    }

    /// Reads files. A failure that affects only one file is not an error. Several files are read at a time, because
    /// they share the requests of a bucket, and returned in their order.
    pub(super) fn read_all<'a>(
        &'a self,
        files: &'a [FileEntry],
    ) -> impl Stream<Item = Result<ReadOutcome, TransferError>> + 'a {
        let mut group_bytes = files.first().map_or(0, |file| file.size);
        let groups = files.chunk_by(move |_, next| {
            let fits = group_bytes.saturating_add(next.size) <= MAX_CONCURRENT_BYTES;
            group_bytes = if fits { group_bytes + next.size } else { next.size };
            fits
        });
        stream::iter(groups)
            .flat_map(|group| stream::iter(group).map(|file| self.read(&file.path)).buffered(MAX_CONCURRENT_FILES))
    }

    async fn read(&self, path: &MemoryPath) -> Result<ReadOutcome, TransferError> {
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
