//! [`Bounded`]: a timeout for the methods of a custom store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_tool_core::{Batch, ErrorKind, Node, ReadOptions, Store, StoreError, StorePath};
use tokio::time::timeout;

/// A store whose methods fail if they do not return within the timeout. They may still run after it.
#[derive(Debug)]
pub(crate) struct Bounded {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) timeout: Duration,
}

impl Bounded {
    async fn within<T>(
        &self,
        operation: &'static str,
        on_timeout: ErrorKind,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let missed = |_| StoreError::failure(on_timeout, operation, TimedOut(self.timeout));
        timeout(self.timeout, call).await.map_err(missed)?
    }
}

#[async_trait]
impl Store for Bounded {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        self.within("reading a path", ErrorKind::Busy, self.inner.read_opts(path, options)).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.within("applying a batch", ErrorKind::OutcomeUnknown, self.inner.apply(batch)).await
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the store did not return within the timeout of {} seconds", .0.as_secs_f64())]
struct TimedOut(Duration);
