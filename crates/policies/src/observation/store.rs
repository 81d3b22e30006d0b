//! [`ObservedStore`]: tells of each operation of a store.

use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::{Batch, MemoryPath, Node, ReadOptions, RecordName, Store, StoreError, StoredFile};
use tracing::debug_span;
use tracing::field::{Empty, display};

use crate::observation::record::{Kind, Record};
use crate::outcome::outcome_of_operation;

/// A store over a store that tells of each operation. What, [the page of the crate](crate#observation) says.
#[derive(Clone, Debug)]
pub struct ObservedStore<S> {
    inner: S,
    store: Arc<str>,
    tells_paths: bool,
}

impl<S: Store> ObservedStore<S> {
    /// Tells of the operations of `inner`. `store` is what they are told of: whose memory it is, in a word that may be logged.
    pub fn new(inner: S, store: impl Into<Arc<str>>) -> Self {
        Self { inner, store: store.into(), tells_paths: false }
    }

    /// Tells the paths that are read as well. They may say as much as a content does.
    #[must_use]
    pub fn with_paths(mut self) -> Self {
        self.tells_paths = true;
        self
    }

    async fn observe<T>(
        &self,
        operation: &'static str,
        path: Option<&MemoryPath>,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let span = debug_span!("memory_store", store = &*self.store, operation, path = Empty);
        if let Some(path) = path.filter(|_| self.tells_paths) {
            span.record("path", display(path));
        }
        let record = Record::begin(Kind::Operation, &self.store, operation, span);
        record.of(work, |result, _| outcome_of_operation(result)).await
    }
}

#[async_trait]
impl<S: Store> Store for ObservedStore<S> {
    async fn read_opts(&self, path: &MemoryPath, options: ReadOptions) -> Result<Node, StoreError> {
        self.observe("read", Some(path), self.inner.read_opts(path, options)).await
    }

    async fn read_record(&self, name: &RecordName) -> Result<Option<StoredFile>, StoreError> {
        self.observe("read_record", None, self.inner.read_record(name)).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.observe("apply", None, self.inner.apply(batch)).await
    }
}
