//! Opening a [`BucketStore`]: its options, and what can be wrong.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use memory_tool_core::{BoxError, DEFAULT_MAX_FILE_BYTES, FailureKind, OpenMode};
use object_store::ObjectStore;
use object_store::path::Path;

use crate::bucket::Bucket;
use crate::deadline::Deadline;
use crate::keys::Keys;
use crate::machine::MachineCredentials;
use crate::probe;
use crate::shared::Shared;
use crate::store::BucketStore;

/// How long an operation may take, unless another time is set.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(30);

/// Options of a [`BucketStore`]. Made by [`BucketStore::builder`].
#[derive(Clone)]
#[must_use]
pub struct BucketStoreBuilder {
    bucket: Arc<dyn ObjectStore>,
    prefix: Path,
    deadline: Duration,
    mode: OpenMode,
    max_file_bytes: u64,
    machine_credentials: Option<MachineCredentials>,
}

impl BucketStoreBuilder {
    pub(crate) fn new(bucket: Arc<dyn ObjectStore>, prefix: Path) -> Self {
        Self {
            bucket,
            prefix,
            deadline: DEFAULT_DEADLINE,
            mode: OpenMode::default(),
            max_file_bytes: DEFAULT_MAX_FILE_BYTES,
            machine_credentials: None,
        }
    }

    /// The same with credentials that come from the machine.
    pub(crate) fn with_machine_credentials(mut self, machine_credentials: Option<MachineCredentials>) -> Self {
        self.machine_credentials = machine_credentials;
        self
    }

    /// How long an operation may take with all its attempts before it fails: as [`Busy`](memory_tool_core::FailureKind::Busy)
    /// where others were always first, with nothing changed, or as
    /// [`OutcomeUnknown`](memory_tool_core::FailureKind::OutcomeUnknown) where the bucket did not say what became of a write.
    /// Default: [`DEFAULT_DEADLINE`].
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Whether the store may be created, and whether it may be changed. Default: [`OpenMode::Create`]. A store exists if its
    /// index does, which the first write puts.
    ///
    /// In the mode [`OpenMode::ReadOnly`] no object is put or removed, not even to test the bucket.
    pub fn mode(mut self, mode: OpenMode) -> Self {
        self.mode = mode;
        self
    }

    /// The largest file in bytes that the store reads or writes. Default: [`DEFAULT_MAX_FILE_BYTES`], which is 64 MiB. It limits
    /// the bytes in the bucket: an encrypted file is larger than its contents.
    ///
    /// A larger file is listed, and can be deleted and renamed. Reading it fails as
    /// [`StoreError::Refused`](memory_tool_core::StoreError::Refused), and so does writing it.
    pub fn max_file_bytes(mut self, max_file_bytes: u64) -> Self {
        self.max_file_bytes = max_file_bytes;
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

    /// Opens the store, after a test of the bucket: an object beneath the prefix is put under conditions that hold and under
    /// some that do not, and then removed. Except in the mode [`OpenMode::Create`] the store must exist, and nothing is put before
    /// that is known.
    ///
    /// # Errors
    /// [`OpenError`] with the cause as its source.
    pub async fn open(self) -> Result<BucketStore, OpenError> {
        let prefix = self.prefix.clone();
        match self.open_shared().await {
            Ok(shared) => Ok(BucketStore { shared: Arc::new(shared) }),
            Err(source) => Err(OpenError { prefix, source }),
        }
    }

    /// Opens a store whose index can be read, and whose bucket keeps conditions if the store may be changed.
    async fn open_shared(self) -> Result<Shared, OpenFailure> {
        let Self { bucket, prefix, deadline, mode, max_file_bytes, machine_credentials } = self;
        if let Some(credentials) = machine_credentials {
            credentials.check().await?;
        }
        let bucket = Bucket { objects: bucket, keys: Keys::new(prefix) };
        let shared = Shared::new(bucket, deadline, mode, max_file_bytes)?;
        let deadline = Deadline::after(deadline);
        if shared.fetch(&deadline).await?.version.is_none() && mode != OpenMode::Create {
            return Err(OpenFailure::NotFound);
        }
        if mode != OpenMode::ReadOnly {
            probe::probe(&shared.bucket, &deadline).await?;
        }
        Ok(shared)
    }
}

impl fmt::Debug for BucketStoreBuilder {
    /// Without the client, which may show its credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut options = f.debug_struct("BucketStoreBuilder");
        options.field("prefix", &self.prefix).field("deadline", &self.deadline).field("mode", &self.mode);
        options.finish_non_exhaustive()
    }
}

/// Why a store could not be opened. For the operator: it names the place in the bucket.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the memory store beneath {prefix:?} in the bucket", prefix = prefix.as_ref())]
#[non_exhaustive]
pub struct OpenError {
    /// The prefix, as it was given.
    pub prefix: Path,
    /// The cause.
    #[source]
    pub source: OpenFailure,
}

impl OpenError {
    /// Whether the store does not exist, and the mode did not allow to create it.
    pub fn is_not_found(&self) -> bool {
        matches!(self.source, OpenFailure::NotFound)
    }
}

/// What is wrong with a bucket that cannot be used. No memory in it was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenFailure {
    /// There is no index, and the mode does not allow to create a store.
    #[error("there is no memory store")]
    NotFound,
    /// The environment names no credentials, and this machine has none of its own.
    #[error("no credentials found: {advice}; the metadata service of this machine returned none")]
    NoCredentials {
        /// What to set.
        advice: &'static str,
    },
    /// It puts an object although the condition does not hold, so writers would overwrite each other's changes.
    #[error("the object store ignores conditions: {it}")]
    IgnoresConditions {
        /// What it did.
        it: &'static str,
    },
    /// It has no conditional puts, or none that work.
    #[error("the object store has no conditional puts")]
    NoConditions {
        /// What it answered.
        #[source]
        source: BoxError,
    },
    /// The store was made, or brought up to date, by a newer version of this crate.
    #[error("the store has version {found} of the format, and this program knows version {known}")]
    NewerVersion {
        /// The version of the store.
        found: u64,
        /// The newest version that this program knows.
        known: u64,
    },
    /// The bucket or the way to it failed, or what is there is not an index.
    #[error("opening it failed")]
    Failed {
        /// What kind of failure it was.
        kind: FailureKind,
        /// The cause.
        #[source]
        source: BoxError,
    },
}
