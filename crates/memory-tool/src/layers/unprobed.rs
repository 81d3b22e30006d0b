//! [`UnprobedStore`]: a wrapper around a store that may be encrypted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use memory_tool_core::{Batch, ErrorKind, Node, ReadOptions, Store, StoreError, StorePath};
use memory_tool_encrypted::EncryptedStore;

/// A wrapper around a store that failed, for example because it was busy, when it was probed for encryption.
///
/// It repeats the probe before the first operation, so it never writes plain data to an encrypted memory.
#[derive(Debug)]
pub(crate) struct UnprobedStore {
    inner: Arc<dyn Store>,
    is_plain: AtomicBool,
}

impl UnprobedStore {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, is_plain: AtomicBool::new(false) }
    }

    /// The store, after a probe has found that it is not encrypted.
    async fn plain(&self) -> Result<&dyn Store, StoreError> {
        if !self.is_plain.load(Ordering::Relaxed) {
            if EncryptedStore::is_in(&*self.inner).await? {
                return Err(StoreError::failure(ErrorKind::AccessDenied, "opening", KeysRequired));
            }
            self.is_plain.store(true, Ordering::Relaxed);
        }
        Ok(&*self.inner)
    }
}

#[async_trait]
impl Store for UnprobedStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        self.plain().await?.read_opts(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.plain().await?.apply(batch).await
    }
}

/// The memory is encrypted and was opened without keys. This is the source of an [`OpenError`](crate::OpenError).
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the memory is encrypted: open it with its keys")]
#[expect(clippy::exhaustive_structs, reason = "the error has no details")]
pub struct KeysRequired;
