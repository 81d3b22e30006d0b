//! [`UnprobedStore`]: a store that could not be asked whether it is encrypted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use memory_tool_core::{Batch, FailureKind, MemoryPath, Node, ReadOptions, RecordName, Store, StoreError, StoredFile};
use memory_tool_encrypted::EncryptedStore;

/// A store over a store that failed when it was asked whether it is encrypted, such as one that is busy for a while. It is asked again
/// before anything else is done, so that nothing is written unencrypted into an encrypted memory.
#[derive(Debug)]
pub(crate) struct UnprobedStore {
    inner: Arc<dyn Store>,
    is_plain: AtomicBool,
}

impl UnprobedStore {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, is_plain: AtomicBool::new(false) }
    }

    /// The store, once it is known not to be encrypted.
    async fn plain(&self) -> Result<&dyn Store, StoreError> {
        if !self.is_plain.load(Ordering::Relaxed) {
            if EncryptedStore::is_in(&*self.inner).await? {
                return Err(StoreError::failure(FailureKind::AccessDenied, "opening", KeysRequired));
            }
            self.is_plain.store(true, Ordering::Relaxed);
        }
        Ok(&*self.inner)
    }
}

#[async_trait]
impl Store for UnprobedStore {
    async fn read_opts(&self, path: &MemoryPath, options: ReadOptions) -> Result<Node, StoreError> {
        self.plain().await?.read_opts(path, options).await
    }

    async fn read_record(&self, name: &RecordName) -> Result<Option<StoredFile>, StoreError> {
        self.plain().await?.read_record(name).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.plain().await?.apply(batch).await
    }
}

/// The memory is encrypted, and was opened without keys: the source of an [`OpenError`](crate::OpenError).
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("it is encrypted: open it with its keys")]
#[expect(clippy::exhaustive_structs, reason = "there is nothing to say")]
pub struct KeysRequired;
