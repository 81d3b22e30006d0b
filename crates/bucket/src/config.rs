//! Opening a [`BucketStore`], with its options.

use std::fmt;
use std::sync::Arc;

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

/// Options of a [`BucketStore`]. Made by [`BucketStore::builder`].
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

    /// The same with credentials that come from the machine.
    pub(crate) fn with_machine_credentials(mut self, machine_credentials: Option<MachineCredentials>) -> Self {
        self.machine_credentials = machine_credentials;
        self
    }

    /// Sets the options that every backend takes.
    ///
    /// # Behavior
    /// 1. A store exists if its index does, which the first write puts. In the mode [`OpenMode::ReadOnly`](memory_tool_core::OpenMode::ReadOnly) no object is put or
    ///    removed, not even to test the bucket.
    /// 2. The timeout is the time that an operation may take with all its attempts. Then it fails: as
    ///    [`Busy`](memory_tool_core::FailureKind::Busy) if others were always first, with nothing changed, or as
    ///    [`OutcomeUnknown`](memory_tool_core::FailureKind::OutcomeUnknown) if the bucket did not answer whether a write was made.
    /// 3. The largest file is limited by the bytes in the bucket: an encrypted file is larger than its contents.
    pub fn options(mut self, options: OpenOptions) -> Self {
        self.options = options;
        self
    }

    /// The bucket that the store will be in, for whatever else there is to do with it.
    #[must_use]
    pub fn bucket(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.bucket)
    }

    /// What the keys of all objects of the store begin with.
    #[must_use]
    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// Opens the store, after a test of the bucket: an object under the prefix is put under preconditions that hold and under
    /// some that do not, and then removed. Except in the mode [`OpenMode::Create`](memory_tool_core::OpenMode::Create) the store must exist, and nothing is put before
    /// that is known.
    ///
    /// # Errors
    /// [`OpenError`] with an [`OpenFailure`] as its source.
    pub async fn open(self) -> Result<BucketStore, OpenError> {
        let place = format!("under {:?} in the bucket", self.prefix.as_ref());
        match self.open_inner().await {
            Ok(inner) => Ok(BucketStore { inner }),
            Err(failure) => Err(OpenError::new(place, failure.kind(), failure)),
        }
    }

    /// Repairs a store whose log or checkpoint is damaged, from the checkpoints, commits and contents that are left. An intact store is left
    /// alone. Others may have the store open, and see the repaired store with their next command. Only one repair may run at a time, and no `gc` beside it.
    ///
    /// What the report says is lost may still be in the bucket until the next [`gc`](BucketStore::gc), so copy the bucket first.
    ///
    /// # Errors
    /// [`OpenError`] with an [`OpenFailure`] as its source, [`NotFound`](OpenFailure::NotFound) if nothing of a store is there.
    pub async fn repair(self) -> Result<RepairReport, OpenError> {
        let place = format!("under {:?} in the bucket", self.prefix.as_ref());
        let repaired = self.repair_inner().await;
        repaired.map_err(|failure| OpenError::new(place, failure.kind(), failure))
    }

    async fn repair_inner(self) -> Result<RepairReport, OpenFailure> {
        let inner = self.connect().await?;
        inner.refuse_nothing().await?;
        Ok(inner.repair().await?)
    }

    async fn open_inner(self) -> Result<Arc<Inner>, OpenFailure> {
        let inner = self.connect().await?;
        inner.open().await?;
        Ok(inner)
    }

    /// The store, of which nothing is known yet.
    async fn connect(self) -> Result<Arc<Inner>, OpenFailure> {
        if let Some(credentials) = self.machine_credentials {
            credentials.check().await?;
        }
        Ok(Arc::new(Inner::new(Bucket { objects: self.bucket, keys: Keys::new(self.prefix) }, self.options)))
    }
}

impl fmt::Debug for BucketStoreBuilder {
    /// Without the client, which may show its credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut builder = f.debug_struct("BucketStoreBuilder");
        builder.field("prefix", &self.prefix).field("options", &self.options).finish_non_exhaustive()
    }
}
