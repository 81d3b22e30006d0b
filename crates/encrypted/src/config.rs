//! Opening an [`EncryptedStore`]: its options, and what can be wrong.

use std::fmt;
use std::time::Duration;

use memory_tool_core::{OpenMode, Store, StoreError};

use crate::failure::{EncryptionError, Failure};
use crate::keychain::Keychain;
use crate::keys::KeyRing;
use crate::naming::Naming;
use crate::padding::Padding;
use crate::shared::Shared;
use crate::store::EncryptedStore;

/// How long an operation goes on while others change the store, unless another time is set.
pub const DEFAULT_BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// Options of an [`EncryptedStore`]. Made by [`EncryptedStore::builder`].
#[must_use]
pub struct EncryptedStoreBuilder {
    inner: Box<dyn Store>,
    keys: KeyRing,
    mode: OpenMode,
    naming: Naming,
    padding: Padding,
    busy_timeout: Duration,
}

impl EncryptedStoreBuilder {
    pub(crate) fn new(inner: Box<dyn Store>, keys: KeyRing) -> Self {
        Self {
            inner,
            keys,
            mode: OpenMode::default(),
            naming: Naming::default(),
            padding: Padding::default(),
            busy_timeout: DEFAULT_BUSY_TIMEOUT,
        }
    }

    /// What opening may do to the store beneath. Default: [`OpenMode::Create`].
    ///
    /// # Behavior
    /// 1. [`OpenMode::Existing`] and [`OpenMode::ReadOnly`] fail as [`OpenError::NotFound`] where there is no encrypted memory. The
    ///    keys are checked at the opening, because there is an index to check them against.
    /// 2. [`OpenMode::ReadOnly`] writes nothing: a damaged copy of the index is not repaired, and no data key is added. It is about
    ///    this store; open the store beneath in the same mode.
    pub fn mode(mut self, mode: OpenMode) -> Self {
        self.mode = mode;
        self
    }

    /// What the memory is called, such as the tenant whose it is. Default: it has no name.
    ///
    /// # Behavior
    /// 1. The name is encrypted with the index. A memory of another name, or of none, is refused as
    ///    [`OtherName`](EncryptionError::OtherName): so nobody who can write to the store beneath can put another memory that was
    ///    encrypted under the same key in the place of this one.
    /// 2. A memory that comes into being gets the name. One that has a name is opened by that name alone.
    /// 3. To name a memory, or to rename it, say in [`former_name`](Self::former_name) what it was called, and
    ///    [rekey](EncryptedStore::rekey) it.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.naming.name = Some(name.into());
        self
    }

    /// Opens the memory also where it is called `name`, or has no name if that is `None`. Whatever writes its index, as
    /// [`rekey`](EncryptedStore::rekey) does, gives it the name that it has to have. May be called again for another.
    pub fn former_name(mut self, name: Option<&str>) -> Self {
        self.naming.former.push(name.map(str::to_owned));
        self
    }

    /// To what sizes files are filled up that are written from now on. Default: [`Padding::None`].
    pub fn padding(mut self, padding: Padding) -> Self {
        self.padding = padding;
        self
    }

    /// How long an operation goes on while others change the store again and again, before it fails as
    /// [`Busy`](memory_tool_core::FailureKind::Busy), with nothing changed. Default: [`DEFAULT_BUSY_TIMEOUT`].
    pub fn busy_timeout(mut self, busy_timeout: Duration) -> Self {
        self.busy_timeout = busy_timeout;
        self
    }

    /// Opens the store. With [`OpenMode::Create`] the first write creates it: until then nothing says whether a key is the right one.
    ///
    /// # Errors
    /// [`OpenError`] with the cause as its source.
    pub async fn open(self) -> Result<EncryptedStore, OpenError> {
        let Self { inner, keys, mode, naming, padding, busy_timeout } = self;
        let shared = Shared::new(inner, Keychain::new(keys), mode, naming, padding, busy_timeout);
        let snapshot = shared.snapshot().await?;
        if mode != OpenMode::Create && !snapshot.index.exists() {
            return Err(OpenError::NotFound);
        }
        Ok(EncryptedStore::of(shared))
    }
}

impl fmt::Debug for EncryptedStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut options = f.debug_struct("EncryptedStoreBuilder");
        options.field("inner", &self.inner).field("keys", &self.keys).field("mode", &self.mode);
        options
            .field("naming", &self.naming)
            .field("padding", &self.padding)
            .field("busy_timeout", &self.busy_timeout)
            .finish()
    }
}

/// Why a store could not be opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no encrypted memory, and the [mode](EncryptedStoreBuilder::mode) does not create one.
    #[error("there is no encrypted memory here")]
    NotFound,
    /// What is stored is not an encrypted memory that the key ring opens.
    #[error("cannot open the encrypted memory store")]
    Encryption(#[source] EncryptionError),
    /// The store beneath failed, or the system did.
    #[error("cannot read the store beneath the encryption")]
    Store(#[source] StoreError),
}

impl OpenError {
    /// Whether there was nothing to open, and the [mode](EncryptedStoreBuilder::mode) does not create it.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound)
    }
}

impl From<Failure> for OpenError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Encryption(error) => Self::Encryption(error),
            other => Self::Store(other.during("opening")),
        }
    }
}
