//! [`EncryptedStoreBuilder`]: opens an [`EncryptedStore`] with options.

use memory_tool_core::{OpenError, OpenMode, OpenOptions, Store};

use crate::failure::{EncryptionError, Failure};
use crate::index::ExpectedLabel;
use crate::inner::Inner;
use crate::keychain::Keychain;
use crate::keys::KeyRing;
use crate::padding::Padding;
use crate::store::EncryptedStore;

/// A builder for an [`EncryptedStore`], created by [`EncryptedStore::builder`].
#[derive(Debug)]
#[must_use]
pub struct EncryptedStoreBuilder {
    inner: Box<dyn Store>,
    keys: KeyRing,
    options: OpenOptions,
    label: ExpectedLabel,
    padding: Padding,
}

impl EncryptedStoreBuilder {
    pub(crate) fn new(inner: Box<dyn Store>, keys: KeyRing) -> Self {
        Self { inner, keys, options: OpenOptions::new(), label: ExpectedLabel::default(), padding: Padding::default() }
    }

    /// Sets the options that all backends share.
    ///
    /// # Behavior
    /// 1. In the modes [`OpenMode::Existing`] and [`OpenMode::ReadOnly`], opening fails with
    ///    [`EncryptionError::NotFound`] if there is no encrypted memory. Opening also checks the keys against the
    ///    existing index.
    /// 2. [`OpenMode::ReadOnly`] writes nothing. A damaged copy of the index is not repaired, and no data key is added.
    ///    The mode does not apply to the inner store: open that store in the same mode.
    /// 3. The timeout limits the retries of an operation that conflicts with other writers. After it, the operation
    ///    fails as [`Busy`](memory_tool_core::ErrorKind::Busy) and changes nothing.
    /// 4. `max_file_bytes` is ignored. The inner store limits the size of ciphertexts instead.
    pub fn options(mut self, options: OpenOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the label of the memory, such as its tenant. Default: no label.
    ///
    /// # Behavior
    /// 1. The label is stored in the encrypted index. Opening a memory with another label, or without its label, fails
    ///    with [`OtherLabel`](EncryptionError::OtherLabel). An attacker with write access to the inner store therefore
    ///    cannot replace a memory with another memory of the same key.
    /// 2. A new memory gets the label. A labeled memory can only be opened with its label.
    /// 3. To label or relabel a memory, pass its previous label to [`former_label`](Self::former_label) and
    ///    [rekey](EncryptedStore::rekey) it. To relabel it without downtime, first let every process accept both
    ///    labels, one of them as a `former_label`.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label.label = Some(label.into());
        self
    }

    /// Also accepts a memory with this label, or an unlabeled memory. Only [`rekey`](EncryptedStore::rekey) relabels
    /// the memory. Each call adds a label.
    pub fn former_label(mut self, label: Option<&str>) -> Self {
        self.label.former.push(label.map(str::to_owned));
        self
    }

    /// Sets the padding of files that are written from now on. Default: [`Padding::None`].
    pub fn padding(mut self, padding: Padding) -> Self {
        self.padding = padding;
        self
    }

    /// Opens the store. In [`OpenMode::Create`], the first write creates the store. A store that does not exist yet
    /// accepts any key.
    ///
    /// # Errors
    /// [`OpenError`] with an [`EncryptionError`] or the [`StoreError`](memory_tool_core::StoreError) of the inner store
    /// as its source.
    pub async fn open(self) -> Result<EncryptedStore, OpenError> {
        Ok(self.open_inner().await?)
    }

    async fn open_inner(self) -> Result<EncryptedStore, Failure> {
        let Self { inner, keys, options, label, padding } = self;
        let inner = Inner::new(inner, Keychain::new(keys), options, label, padding);
        let snapshot = inner.snapshot().await?;
        if options.mode != OpenMode::Create && !snapshot.index.exists() {
            return Err(EncryptionError::NotFound.into());
        }
        Ok(EncryptedStore::of(inner))
    }
}
