//! [`BucketStore`]: the store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_tool_core::{
    Batch, MemoryPath, Node, OpenError, ReadOptions, RecordName, Store, StoreError, StoredFile, VerifyProgress,
    VerifyReport,
};
use object_store::ObjectStore;
use object_store::path::Path;

use crate::config::BucketStoreBuilder;
use crate::gc::GcReport;
use crate::inner::Inner;

/// Claude's memory in a bucket of an object store, beneath a prefix.
///
/// Any number of processes on any number of machines may open one prefix: they lose nothing and see each other's changes at
/// once. Cloning is cheap, and the clones are one store. The methods must be called within a tokio runtime that has its timer
/// enabled. The entries of a listing have no times, since the index does not record any.
///
/// ```
/// use std::sync::Arc;
///
/// use memory_tool_core::{Engine, MemoryTool};
/// use memory_tool_bucket::BucketStore;
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
    pub(crate) inner: Arc<Inner>,
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

    /// Removes what is older than `older_than` and no longer needed: contents that no file and no record refers to, commits that a
    /// checkpoint covers, and older checkpoints. [`DEFAULT_GRACE`](crate::DEFAULT_GRACE) is a good age. Others may use the store
    /// meanwhile.
    ///
    /// # Behavior
    /// 1. No contents that a file, a record or a kept commit refers to, or ever will, are removed, whatever the age. The contents
    ///    are listed; then a commit notes the collection; then those are removed that are in the list, but not in use
    ///    after that commit. A commit of somebody else that was planned before the note can no longer be made, because its number is
    ///    taken. It is planned again, sees the note, and puts its contents once more under other names, which are not in the list.
    ///    No clock is part of this, so a machine that was suspended between two steps does no harm.
    /// 2. The age spares those that write at the time from putting their contents twice. It is also the time for which the commits,
    ///    and thus deleted and replaced contents, stay in the bucket. With an age of zero, nothing that was deleted or
    ///    replaced before the call stays.
    /// 3. A trimmed commit is replaced by a marker, so that its number stays taken.
    /// 4. If there is nothing to remove, nothing is written.
    ///
    /// # Errors
    /// [`StoreError::Failure`], also if the log is damaged. What was not removed is found by the next collection.
    pub async fn gc(&self, older_than: Duration) -> Result<GcReport, StoreError> {
        self.inner.gc(older_than).await.map_err(|failure| failure.during("collecting unused objects"))
    }

    /// Checks the store for damage: reads every file and every record, and the log as a new process would read it. Others may
    /// use the store meanwhile.
    ///
    /// # Errors
    /// [`StoreError::Failure`] if the bucket fails. Damage is a problem of the report instead. A store whose log cannot be
    /// read cannot be opened; [`BucketStoreBuilder::repair`] repairs it.
    pub async fn verify(&self, progress: impl FnMut(VerifyProgress) + Send) -> Result<VerifyReport, StoreError> {
        let mut report = VerifyReport::default().read_files(self, progress).await?;
        let records = self.inner.verify_log_and_records().await.map_err(|failure| failure.during("verifying"))?;
        report.problems.extend(records);
        Ok(report)
    }
}

#[async_trait]
impl Store for BucketStore {
    async fn read_opts(&self, path: &MemoryPath, options: ReadOptions) -> Result<Node, StoreError> {
        self.inner.read(path, &options).await.map_err(|failure| failure.during("reading"))
    }

    async fn read_record(&self, name: &RecordName) -> Result<Option<StoredFile>, StoreError> {
        self.inner.read_record(name).await.map_err(|failure| failure.during("reading a record"))
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.inner.apply(batch).await.map_err(|failure| failure.during("applying a batch"))
    }
}
