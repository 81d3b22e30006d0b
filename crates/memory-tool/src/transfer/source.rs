//! [`Source`]: the source of a copy or export.

use std::sync::Arc;

use futures::stream::{self, Stream, StreamExt as _};
use memory_tool_core::{
    ErrorKind, FileEntry, Listing, Node, Problem, ReadOptions, Store, StoreError, StoreExt as _, StorePath, StoredFile,
    UnlistedItem,
};

use crate::transfer::error::TransferError;

const MAX_CONCURRENT_FILES: usize = 16;
/// The most bytes of several files that are read at a time.
const MAX_CONCURRENT_BYTES: u64 = 8 * 1024 * 1024;

/// The source of a copy or export.
pub(crate) struct Source {
    pub(crate) store: Arc<dyn Store>,
    /// The options of the reads of files.
    pub(crate) options: ReadOptions,
}

/// The result of reading a listed file.
pub(crate) enum ReadOutcome {
    /// The file.
    File(StoredFile),
    /// It was removed after the listing.
    Removed,
    /// It cannot be read, but other files can.
    Unreadable { reason: String },
}

impl Source {
    pub(super) fn of(store: Arc<dyn Store>) -> Self {
        Self { store, options: ReadOptions::new() }
    }

    /// All files, sorted by path, and the items that cannot be listed.
    pub(super) async fn list(&self) -> Result<(Vec<FileEntry>, Vec<UnlistedItem>), TransferError> {
        let root = self.store.read(StorePath::memories()).await.map_err(TransferError::Reading)?;
        let Listing { mut files, unlisted, .. } = root.into_listing();
        files.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        Ok((files, unlisted))
    }

    /// Lists the files and items at or under these paths, which have to exist. Without a path, it lists all.
    pub(super) async fn list_within(
        &self,
        within: &[StorePath],
    ) -> Result<(Vec<FileEntry>, Vec<UnlistedItem>), TransferError> {
        let (mut files, mut unlisted) = self.list().await?;
        if within.is_empty() {
            return Ok((files, unlisted));
        }
        let is_at_or_under = |path: &StorePath, place: &StorePath| path == place || path.is_under(place);
        let exists = |place: &StorePath| place.is_root() || files.iter().any(|file| is_at_or_under(&file.path, place));
        if let Some(place) = within.iter().find(|place| !exists(place)) {
            return Err(TransferError::Reading(StoreError::NotFound { path: place.clone() }));
        }
        files.retain(|file| within.iter().any(|place| is_at_or_under(&file.path, place)));
        unlisted.retain(|item| within.iter().any(|place| is_at_or_under(&item.directory, place)));
        Ok((files, unlisted))
    }

    /// Reads files. A failure that affects only one file is not an error. Several files are read at a time, because
    /// they share the requests of a bucket, and returned in their order.
    pub(crate) fn read_all<'a>(
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

    async fn read(&self, path: &StorePath) -> Result<ReadOutcome, TransferError> {
        let error = match self.store.read_opts(path, self.options.clone()).await {
            Ok(Node::File(file)) => return Ok(ReadOutcome::File(file)),
            Ok(Node::Absent | Node::Directory(_)) => return Ok(ReadOutcome::Removed),
            Err(error) => error,
        };
        // On a disk with a bad sector, other files can still be read. If even a listing fails, stop.
        if !is_about_one_file(&error) && self.store.list(StorePath::memories()).await.is_err() {
            return Err(TransferError::Reading(error));
        }
        Ok(ReadOutcome::Unreadable { reason: Problem::of(&error).message })
    }
}

/// Whether the error affects only one file.
pub(super) fn is_about_one_file(error: &StoreError) -> bool {
    match error {
        StoreError::Failure { kind, .. } => matches!(kind, ErrorKind::Damaged | ErrorKind::UnsupportedName),
        _ => true,
    }
}

/// The error of the store in an error of [`Source::read_all`].
pub(crate) fn reading_failed(error: TransferError) -> StoreError {
    match error {
        TransferError::Reading(error) => error,
        error => StoreError::failure(ErrorKind::Other, "reading a file", error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use async_trait::async_trait;
    use memory_tool_core::{Batch, InMemoryStore, ReadOptions, StorePath};

    use super::*;

    /// A store that measures how many bytes are read at a time.
    #[derive(Debug, Default)]
    struct MeasuringStore {
        inner: InMemoryStore,
        present: AtomicU64,
        most: AtomicU64,
    }

    #[async_trait]
    impl Store for MeasuringStore {
        async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
            let node = self.inner.read_opts(path, options).await?;
            if let Node::File(file) = &node {
                let bytes = file.content.len() as u64;
                let present = self.present.fetch_add(bytes, Ordering::Relaxed) + bytes;
                self.most.fetch_max(present, Ordering::Relaxed);
                tokio::task::yield_now().await;
                self.present.fetch_sub(bytes, Ordering::Relaxed);
            }
            Ok(node)
        }

        async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
            self.inner.apply(batch).await
        }
    }

    #[tokio::test]
    async fn files_are_read_in_order_and_up_to_a_number_of_bytes() {
        let store = Arc::new(MeasuringStore::default());
        let sizes = [5, 5, 3, 3, 2, 1, 9, 1, 1].map(|megabytes| megabytes << 20);
        for (number, size) in sizes.into_iter().enumerate() {
            store.write(format!("/memories/{number}"), vec![b'x'; size]).await.unwrap();
        }
        let source = Source::of(Arc::clone(&store) as Arc<dyn Store>);
        let (files, _) = source.list().await.unwrap();
        let read: Vec<_> = source.read_all(&files).collect().await;
        let lengths = read.into_iter().map(|read| match read {
            Ok(ReadOutcome::File(file)) => file.content.len(),
            _ => 0,
        });
        assert_eq!(lengths.collect::<Vec<_>>(), sizes);
        // A single file may have more.
        assert_eq!(store.most.load(Ordering::Relaxed), 9 << 20);
    }
}
