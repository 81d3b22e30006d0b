//! A guard of memories with a history, for programs without the feature `layers`.

use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::{
    Batch, ErrorKind, Node, OpenError, Precondition, ReadOnlyStore, ReadOptions, Store, StoreError, StorePath,
};

use crate::backend::Backend;
use crate::builder::{Location, MemoryBuilder};
use crate::named_store::SharedStore;

impl MemoryBuilder {
    /// The store of the backend with the guard.
    pub(crate) async fn guard(&mut self, backend: &Backend) -> Result<SharedStore, OpenError> {
        let mut store = backend.store();
        if self.options.dry_run {
            self.on_change = None;
            store = self.dry_run_over(store).await?;
        }
        if !matches!(self.location, Location::Store(_)) {
            store = Arc::new(WithoutHistory(store));
        }
        Ok(if self.options.read_only { Arc::new(ReadOnlyStore::new(store)) } else { store })
    }
}

/// The record that each history has.
const HEAD: &str = "/records/history/head";

/// Refuses changes of a memory that has a history, because they would be missing from it.
#[derive(Debug)]
pub(crate) struct WithoutHistory(pub(crate) SharedStore);

#[async_trait]
impl Store for WithoutHistory {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        self.0.read_opts(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        let head: StorePath = HEAD.parse()?;
        self.0.apply(batch.require(&head, Precondition::Absent)).await.map_err(|error| match error {
            StoreError::AlreadyExists { path } if path == head => {
                let cause = "the memory has a history: build this program with the feature `layers` of memory-tool";
                StoreError::failure(ErrorKind::AccessDenied, "changing the memory", cause)
            }
            error => error,
        })
    }
}

#[cfg(test)]
mod tests {
    use memory_tool_core::{InMemoryStore, StoreExt as _};

    use super::*;

    #[tokio::test]
    async fn a_memory_with_a_history_can_be_read_but_not_changed() {
        let store: SharedStore = Arc::new(InMemoryStore::new());
        let guarded = WithoutHistory(Arc::clone(&store));
        guarded.write("/memories/a.txt", "text").await.unwrap();
        store.apply(Batch::new().write(HEAD.parse::<StorePath>().unwrap(), "{}")).await.unwrap();
        let refused = guarded.write("/memories/a.txt", "new").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AccessDenied);
        assert_eq!(guarded.read_to_string("/memories/a.txt").await.unwrap(), "text");
    }
}
