//! [`BucketStore`]: the store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_tool_core::{Batch, Expected, FileEntry, Found, MemoryPath, Node, Store, StoreError};
use object_store::ObjectStore;
use object_store::path::Path;

use crate::config::{BucketStoreBuilder, OpenError};
use crate::gc::GcReport;
use crate::shared::Shared;

/// Claude's memory in a bucket of an object store, beneath a prefix.
///
/// Any number of processes on any number of machines may open one prefix: they lose nothing and see each other's changes at
/// once. Cloning is cheap, and the clones are one store. The methods must be called within a tokio runtime that has its timer
/// enabled.
///
/// ```
/// use std::sync::Arc;
///
/// use memory_tool_core::{Engine, MemoryTool};
/// use memory_tool_object_store::BucketStore;
/// use object_store::memory::InMemory;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// let bucket = Arc::new(InMemory::new());
/// let alice = Engine::new(BucketStore::open(bucket.clone(), "memories/alice".into()).await?);
/// let input = serde_json::json!({"command": "create", "path": "/memories/a.txt", "file_text": "Hello"});
/// assert_eq!(alice.call(input).await?.to_string(), "File created successfully at: /memories/a.txt");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct BucketStore {
    pub(crate) shared: Arc<Shared>,
}

impl BucketStore {
    /// Opens the store beneath `prefix` with the default options. It comes into being with the first write.
    ///
    /// # Errors
    /// Those of [`BucketStoreBuilder::open`].
    pub async fn open(bucket: Arc<dyn ObjectStore>, prefix: Path) -> Result<Self, OpenError> {
        Self::builder(bucket, prefix).open().await
    }

    /// A store beneath `prefix` with options of your own.
    pub fn builder(bucket: Arc<dyn ObjectStore>, prefix: Path) -> BucketStoreBuilder {
        BucketStoreBuilder::new(bucket, prefix)
    }

    /// Removes the objects that no file refers to any more and that are older than `older_than`, such as those of deleted files.
    /// [`DEFAULT_GRACE`](crate::DEFAULT_GRACE) is a good age. Others may use the store meanwhile.
    ///
    /// # Behavior
    /// 1. No object that a file refers to, or ever will, is removed, whatever the age. The objects are listed; then a write to
    ///    the index notes that there was a collection; then those are removed that are in the list, but not in that index. A
    ///    write of somebody else that was planned before the note can no longer be made, because the index that it was to
    ///    replace is gone. It is planned anew, sees the note, and puts its contents once more under other names, which are not
    ///    in the list. No clock is part of this, so a machine that was suspended between two steps does no harm.
    /// 2. The age spares those that write at the time from putting their contents twice.
    /// 3. Where there is nothing to remove, nothing is written.
    ///
    /// # Errors
    /// [`StoreError::Failure`]. What was not removed is found by the next collection.
    pub async fn gc(&self, older_than: Duration) -> Result<GcReport, StoreError> {
        self.shared.gc(older_than).await.map_err(|failure| failure.during("collecting unused objects"))
    }
}

#[async_trait]
impl Store for BucketStore {
    async fn read(&self, path: &MemoryPath) -> Result<Node, StoreError> {
        self.shared.read(path).await.map_err(|failure| failure.during("reading"))
    }

    async fn list(&self, directory: &MemoryPath) -> Result<Vec<FileEntry>, StoreError> {
        self.shared.list(directory).await.map_err(|failure| failure.during("listing"))
    }

    async fn read_or_list(&self, path: &MemoryPath) -> Result<Found, StoreError> {
        self.shared.read_or_list(path).await.map_err(|failure| failure.during("reading"))
    }

    async fn read_if(&self, path: &MemoryPath, preconditions: &[(MemoryPath, Expected)]) -> Result<Node, StoreError> {
        self.shared.read_if(path, preconditions).await.map_err(|failure| failure.during("reading"))
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.shared.apply(batch).await.map_err(|failure| failure.during("applying a batch"))
    }
}
