//! Opening a [`BucketStore`], with its options.

use std::fmt;
use std::sync::Arc;

use memory_tool_core::{OpenError, OpenMode, OpenOptions};
use object_store::ObjectStore;
use object_store::path::Path;

use crate::bucket::Bucket;
use crate::deadline::Deadline;
use crate::failure::Failure;
use crate::inner::Inner;
use crate::keys::Keys;
use crate::machine::MachineCredentials;
use crate::open_failure::OpenFailure;
use crate::probe;
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
    /// 1. A store exists if its index does, which the first write puts. In the mode [`OpenMode::ReadOnly`] no object is put or
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
    /// some that do not, and then removed. Except in the mode [`OpenMode::Create`] the store must exist, and nothing is put before
    /// that is known.
    ///
    /// # Errors
    /// [`OpenError`] with an [`OpenFailure`] as its source.
    pub async fn open(self) -> Result<BucketStore, OpenError> {
        let place = format!("under {:?} in the bucket", self.prefix.as_ref());
        match self.open_inner().await {
            Ok(inner) => Ok(BucketStore { inner: Arc::new(inner) }),
            Err(failure) => Err(OpenError::new(place, failure.kind(), failure)),
        }
    }

    /// Opens a store whose index can be read, and whose bucket keeps conditions if the store may be changed.
    async fn open_inner(self) -> Result<Inner, OpenFailure> {
        let Self { bucket, prefix, options, machine_credentials } = self;
        if let Some(credentials) = machine_credentials {
            credentials.check().await?;
        }
        let bucket = Bucket { objects: bucket, keys: Keys::new(prefix) };
        let inner = Inner::new(bucket, options).map_err(Failure::from)?;
        let deadline = Deadline::of_opening(options.timeout);
        if inner.fetch(&deadline).await?.version.is_none() && options.mode != OpenMode::Create {
            return Err(OpenFailure::NotFound);
        }
        if options.mode != OpenMode::ReadOnly {
            probe::probe(&inner.bucket, &deadline).await?;
        }
        Ok(inner)
    }
}

impl fmt::Debug for BucketStoreBuilder {
    /// Without the client, which may show its credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut builder = f.debug_struct("BucketStoreBuilder");
        builder.field("prefix", &self.prefix).field("options", &self.options).finish_non_exhaustive()
    }
}
