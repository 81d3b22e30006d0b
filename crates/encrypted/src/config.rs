//! Opening an [`EncryptedStore`], with its options.

use std::fmt;

use memory_tool_core::{OpenError, OpenMode, OpenOptions, Store};

use crate::expected_name::ExpectedName;
use crate::failure::{EncryptionError, Failure};
use crate::inner::Inner;
use crate::keychain::Keychain;
use crate::keys::KeyRing;
use crate::padding::Padding;
use crate::store::EncryptedStore;

/// Options of an [`EncryptedStore`]. Made by [`EncryptedStore::builder`].
#[must_use]
pub struct EncryptedStoreBuilder {
    inner: Box<dyn Store>,
    keys: KeyRing,
    options: OpenOptions,
    name: ExpectedName,
    padding: Padding,
}

impl EncryptedStoreBuilder {
    pub(crate) fn new(inner: Box<dyn Store>, keys: KeyRing) -> Self {
        Self { inner, keys, options: OpenOptions::new(), name: ExpectedName::default(), padding: Padding::default() }
    }

    /// Sets the options that every backend takes.
    ///
    /// # Behavior
    /// 1. In the modes [`OpenMode::Existing`] and [`OpenMode::ReadOnly`], opening fails as [`EncryptionError::NotFound`] if there is no
    ///    encrypted memory. The keys are checked at the opening, because there is an index to check them against.
    /// 2. [`OpenMode::ReadOnly`] writes nothing: a damaged copy of the index is not repaired, and no data key is added. The mode
    ///    applies to this store alone: open the inner store in the same mode.
    /// 3. The timeout is how long an operation is tried again while others keep changing the store, before it fails as
    ///    [`Busy`](memory_tool_core::FailureKind::Busy), with nothing changed.
    /// 4. `max_file_bytes` is ignored: the inner store limits the size of what it reads and writes, which is here the ciphertext.
    pub fn options(mut self, options: OpenOptions) -> Self {
        self.options = options;
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
        self.name.name = Some(name.into());
        self
    }

    /// Opens the memory also where it is called `name`, or has no name if that is `None`. Whatever writes its index, as
    /// [`rekey`](EncryptedStore::rekey) does, gives it the name that it has to have. May be called again for another.
    pub fn former_name(mut self, name: Option<&str>) -> Self {
        self.name.former.push(name.map(str::to_owned));
        self
    }

    /// To what sizes files are filled up that are written from now on. Default: [`Padding::None`].
    pub fn padding(mut self, padding: Padding) -> Self {
        self.padding = padding;
        self
    }

    /// Opens the store. With [`OpenMode::Create`] the first write creates it: until then nothing says whether a key is the right one.
    ///
    /// # Errors
    /// [`OpenError`] with an [`EncryptionError`], or the [`StoreError`](memory_tool_core::StoreError) of the inner store, as its source.
    pub async fn open(self) -> Result<EncryptedStore, OpenError> {
        Ok(self.open_inner().await?)
    }

    async fn open_inner(self) -> Result<EncryptedStore, Failure> {
        let Self { inner, keys, options, name, padding } = self;
        let inner = Inner::new(inner, Keychain::new(keys), options, name, padding);
        let snapshot = inner.snapshot().await?;
        if options.mode != OpenMode::Create && !snapshot.index.exists() {
            return Err(EncryptionError::NotFound.into());
        }
        Ok(EncryptedStore::of(inner))
    }
}

impl fmt::Debug for EncryptedStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut builder = f.debug_struct("EncryptedStoreBuilder");
        builder.field("inner", &self.inner).field("keys", &self.keys).field("options", &self.options);
        builder.field("name", &self.name).field("padding", &self.padding).finish()
    }
}
