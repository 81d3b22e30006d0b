//! [`ActorStore`]: names the actor of changes.

use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::{Actor, Batch, Node, ReadOptions, Store, StoreError, StorePath};

/// A wrapper that sets the actor of batches without one.
#[derive(Debug)]
pub(crate) struct ActorStore {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) actor: Actor,
}

#[async_trait]
impl Store for ActorStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        self.inner.read_opts(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        let batch = if batch.actor().is_some() { batch } else { batch.by(self.actor.clone()) };
        self.inner.apply(batch).await
    }
}
