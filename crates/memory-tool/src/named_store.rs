//! [`NamedStore`]: names the actor and the command of reads and changes.

use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::{Actor, Batch, Node, ReadOptions, Store, StoreError, StorePath};

pub(crate) type SharedStore = Arc<dyn Store>;

/// A wrapper that sets the actor and the command of batches and the command of reads, unless they are set already.
#[derive(Debug)]
pub(crate) struct NamedStore {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) actor: Option<Actor>,
    pub(crate) command: Option<&'static str>,
}

#[async_trait]
impl Store for NamedStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        let command = self.command.filter(|_| options.command().is_none());
        self.inner.read_opts(path, command.into_iter().fold(options, ReadOptions::for_command)).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        let actor = self.actor.clone().filter(|_| batch.actor().is_none());
        let command = self.command.filter(|_| batch.command().is_none());
        let batch = actor.into_iter().fold(batch, Batch::by);
        self.inner.apply(command.into_iter().fold(batch, Batch::for_command)).await
    }
}
