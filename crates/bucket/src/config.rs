//! Opening a [`BucketStore`], with its options.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use memory_tool_core::{OpenError, OpenOptions};
use object_store::ObjectStore;
use object_store::path::Path;

use crate::bucket::Bucket;
use crate::inner::Inner;
use crate::keys::Keys;
use crate::machine::MachineCredentials;
use crate::open_failure::OpenFailure;
use crate::repair::RepairReport;
use crate::store::BucketStore;

/// The default age for a collection. It is far longer than a write takes, so an older unused object belongs to no write
/// in progress.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(24 * 60 * 60);

/// Options of a [`BucketStore`], created by [`BucketStore::builder`] or [`from_url`](Self::from_url).
#[derive(Clone)]
#[must_use]
pub struct BucketStoreBuilder {
    bucket: Arc<dyn ObjectStore>,
    prefix: Path,
    options: OpenOptions,
    machine_credentials: Option<MachineCredentials>,
}

impl BucketStoreBuilder {
    pub(crate) fn new(bucket: Arc<dyn ObjectStore>, prefix: Path) -> Self {
        Self { bucket, prefix, options: OpenOptions::new(), machine_credentials: None }
    }

    /// Adds credentials from the metadata service of the machine.
    pub(crate) fn with_machine_credentials(mut self, machine_credentials: Option<MachineCredentials>) -> Self {
        self.machine_credentials = machine_credentials;
        self
    }

    /// Sets the options that every backend has.
    ///
    /// # Behavior
    /// 1. A store exists after the first opening in the mode [`Create`](memory_tool_core::OpenMode::Create). In the
    ///    mode [`ReadOnly`](memory_tool_core::OpenMode::ReadOnly), no object is put or removed, not even to test the
    ///    bucket.
    /// 2. The timeout is the time that an operation may take with all its attempts. After it, a write fails as
    ///    [`Busy`](memory_tool_core::ErrorKind::Busy) if others were always first and nothing was changed, or as
    ///    [`OutcomeUnknown`](memory_tool_core::ErrorKind::OutcomeUnknown) if the bucket did not confirm the outcome.
    /// 3. The largest file is measured in the bucket, and an encrypted file is larger than its plain text.
    /// 4. With an interval for garbage collection, the session [collects](BucketStore::gc) what is older than
    ///    [`DEFAULT_GRACE`](crate::DEFAULT_GRACE), unless another session did so within the interval. It stops when the
    ///    last clone of the store is dropped. Failures are `tracing` warnings.
    pub fn options(mut self, options: OpenOptions) -> Self {
        self.options = options;
        self
    }

    /// The bucket of the store, for other requests to it.
    #[must_use]
    pub fn bucket(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.bucket)
    }

    /// The prefix of all objects of the store.
    #[must_use]
    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// Opens the store: reads its latest checkpoint and the commits after it. In the mode
    /// [`Create`](memory_tool_core::OpenMode::Create), a missing store is created. In other modes, it must exist.
    /// Except in the mode [`ReadOnly`](memory_tool_core::OpenMode::ReadOnly), the opening also tests that the bucket
    /// refuses to create an object that exists.
    ///
    /// # Errors
    /// [`OpenError`] with an [`OpenFailure`] as its source. A damaged store is an error, also if only its log is
    /// missing.
    pub async fn open(self) -> Result<BucketStore, OpenError> {
        let place = self.place();
        let opened = async {
            let inner = self.connect().await?;
            inner.open().await?;
            inner.start_collector();
            Ok(BucketStore { inner })
        };
        opened.await.map_err(|failure: OpenFailure| OpenError::new(place, failure.kind(), failure))
    }

    /// Repairs a store whose log or checkpoint is damaged, from the checkpoints, commits and contents that are left. An
    /// intact store is not changed. Sessions of others see the repaired store with their next command. Only one repair
    /// may run at a time, and no `gc` at the same time.
    ///
    /// Copy the bucket first. Until the next [`gc`](BucketStore::gc), it may still contain objects that the report
    /// names as lost.
    ///
    /// # Errors
    /// [`OpenError`] with an [`OpenFailure`] as its source, [`NotFound`](OpenFailure::NotFound) if no object of a store
    /// exists.
    pub async fn repair(self) -> Result<RepairReport, OpenError> {
        let place = self.place();
        let repaired = async {
            let inner = self.connect().await?;
            inner.refuse_nothing().await?;
            Ok(inner.repair().await?)
        };
        repaired.await.map_err(|failure: OpenFailure| OpenError::new(place, failure.kind(), failure))
    }

    /// The sorted prefixes of all stores at or right under the prefix. Sends a `LIST` for each 1,000 names and a `HEAD`
    /// for each name.
    ///
    /// # Errors
    /// [`OpenError`] with an [`OpenFailure`] as its source.
    pub async fn prefixes(self) -> Result<Vec<Path>, OpenError> {
        let place = self.place();
        let found = async { Ok(self.connect().await?.prefixes().await?) };
        found.await.map_err(|failure: OpenFailure| OpenError::new(place, failure.kind(), failure))
    }

    fn place(&self) -> String {
        format!("under {:?} in the bucket", self.prefix.as_ref())
    }

    /// The store before its state is loaded.
    async fn connect(self) -> Result<Arc<Inner>, OpenFailure> {
        if let Some(credentials) = self.machine_credentials {
            credentials.check().await?;
        }
        let keys = Keys::new(self.prefix);
        if let Some(name) = keys.reserved_name() {
            return Err(OpenFailure::ReservedName { name });
        }
        Ok(Arc::new(Inner::new(Bucket { objects: self.bucket, keys }, self.options)))
    }
}

impl fmt::Debug for BucketStoreBuilder {
    /// Omits the client, which may contain credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut builder = f.debug_struct("BucketStoreBuilder");
        builder.field("prefix", &self.prefix).field("options", &self.options).finish_non_exhaustive()
    }
}
