//! [`BucketStore`]: the store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_tool_core::{
    Batch, Node, OpenError, ReadOptions, Store, StoreError, StorePath, VerifyProgress, VerifyReport,
};
use object_store::ObjectStore;
use object_store::path::Path;

use crate::config::BucketStoreBuilder;
use crate::failure::Failure;
use crate::gc::GcReport;
use crate::inner::Inner;
use crate::other_prefixes::OtherPrefixes;

/// Claude's memory under a prefix of a bucket.
///
/// Any number of processes on any number of machines may open one prefix. No change is lost, and each sees the changes
/// of the others immediately. Clones are cheap and share one state. The methods must be called within a tokio runtime
/// with its timer enabled. Files have the times of their commits, to the second.
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
    /// Opens the store under `prefix` with the default options, and creates it if it does not exist.
    ///
    /// # Errors
    /// The errors of [`BucketStoreBuilder::open`].
    pub async fn open(bucket: Arc<dyn ObjectStore>, prefix: Path) -> Result<Self, OpenError> {
        Self::builder(bucket, prefix).open().await
    }

    /// Returns the options of the store under `prefix`.
    pub fn builder(bucket: Arc<dyn ObjectStore>, prefix: Path) -> BucketStoreBuilder {
        BucketStoreBuilder::new(bucket, prefix)
    }

    /// Removes contents that no file or record refers to, and older checkpoints, and trims commits that a checkpoint
    /// covers. Contents and commits that are younger than `older_than` stay. [`DEFAULT_GRACE`](crate::DEFAULT_GRACE) is
    /// a good age. Others may use the store at the same time.
    ///
    /// # Behavior
    /// 1. Contents of a file, record or kept commit are never removed, at any age. The collection lists the contents,
    ///    then notes itself in a commit, then removes the listed contents that are unused after that commit. A commit
    ///    that another writer planned before the note cannot be made any more, because its number is taken. The writer
    ///    plans again, sees the note, and puts its contents again under names that are not in the list. No clock is
    ///    involved, so a machine that was suspended between two steps does no harm.
    /// 2. The age saves concurrent writers from putting their contents twice. Deleted and replaced contents stay in
    ///    commits and objects for this time. With an age of zero, all contents that were deleted before the call are
    ///    removed. Otherwise, packs of small contents are packed again if at least half of a pack is unused.
    /// 3. A small marker replaces each trimmed commit, and its number stays taken.
    /// 4. A collection without anything to remove writes no object.
    ///
    /// # Errors
    /// [`StoreError::Failure`], also if the log is damaged. The next collection completes an interrupted one.
    pub async fn gc(&self, older_than: Duration) -> Result<GcReport, StoreError> {
        self.inner.gc(older_than).await.map_err(|failure| failure.during("collecting unused objects"))
    }

    /// Lets [`gc`](Self::gc) remove the objects that it keeps since a [repair](BucketStoreBuilder::repair) reported
    /// losses: those from before the repair, and copies of the replaced commits. Does nothing if there was no loss.
    ///
    /// # Errors
    /// [`StoreError::Failure`].
    pub async fn accept_loss(&self) -> Result<(), StoreError> {
        self.inner.accept_loss().await.map_err(|failure| failure.during("accepting the loss"))
    }

    /// Checks the store for damage: reads every file and every record, and reads the log like a new process. Others may
    /// use the store at the same time.
    ///
    /// # Errors
    /// [`StoreError::Failure`] if the bucket fails before anything was found. Damage is a problem in the report.
    /// A store with an unreadable log cannot be opened; [`BucketStoreBuilder::repair`] repairs it.
    pub async fn verify(&self, progress: impl FnMut(VerifyProgress) + Send) -> Result<VerifyReport, StoreError> {
        let during = |failure: Failure| failure.during("verifying");
        let problems = self.inner.verify_log().await.map_err(during)?;
        VerifyReport::from(problems).and(self.inner.verify_contents(progress).await.map_err(during))
    }

    /// Finds other stores near this one: prefixes of stores right under the same parent or right under the prefix of
    /// this store. Use it to detect a mistyped prefix.
    ///
    /// It lists both places, with one `LIST` for each 1,000 names, and makes a `HEAD` for each of the first 100 names.
    ///
    /// # Errors
    /// [`StoreError::Failure`] if the bucket fails.
    /// [`ErrorKind::AccessDenied`](memory_tool_core::ErrorKind::AccessDenied) means that the credentials are
    /// restricted to this store.
    pub async fn other_prefixes(&self) -> Result<OtherPrefixes, StoreError> {
        self.inner.other_prefixes().await.map_err(|failure| failure.during("looking for other stores"))
    }
}

#[async_trait]
impl Store for BucketStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        self.inner.read(path, &options).await.map_err(|failure| failure.during("reading"))
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.inner.apply(batch).await.map_err(|failure| failure.during("applying a batch"))
    }
}
