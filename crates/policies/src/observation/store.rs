//! [`ObservedStore`]: reports each operation of a store.

use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::{Batch, Node, ReadOptions, Store, StoreError, StorePath};
use tracing::debug_span;
use tracing::field::{Empty, display};

use crate::observation::report::{Kind, Report};
use crate::outcome::outcome_of_operation;

/// A store that reports each operation of its inner store.
///
/// Each operation has a span `memory_store` with the fields `store`, `operation` (`read` or `apply`)
/// and, after [`with_paths`](Self::with_paths), `path`. In it there is one event, with the fields `outcome`, `error`,
/// `policy` and `duration_us` of [`ObservedTool`](crate::ObservedTool). Its level is `DEBUG`, or `ERROR` for a failure.
///
/// When the engine retries an edit because of a concurrent change, each failed attempt is an `apply` with the error
/// `version_mismatch`.
///
/// With the feature `metrics`, the counter `memory_store_operations_total` has the labels `store`, `operation`,
/// `outcome`, `error` and `policy`. The histogram `memory_store_operation_seconds` has the labels `store` and
/// `operation`.
#[derive(Clone, Debug)]
pub struct ObservedStore<S> {
    inner: S,
    store: Arc<str>,
    reports_paths: bool,
}

impl<S: Store> ObservedStore<S> {
    /// Reports the operations of `inner`. `store` names the memory in spans and metrics, so it must be safe to log.
    pub fn new(inner: S, store: impl Into<Arc<str>>) -> Self {
        Self { inner, store: store.into(), reports_paths: false }
    }

    /// Also reports the paths of reads. Paths may be as sensitive as contents.
    #[must_use]
    pub fn with_paths(mut self) -> Self {
        self.reports_paths = true;
        self
    }

    async fn observe<T>(
        &self,
        operation: &'static str,
        path: Option<&StorePath>,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let span = debug_span!("memory_store", store = &*self.store, operation, path = Empty);
        if let Some(path) = path.filter(|_| self.reports_paths) {
            span.record("path", display(path));
        }
        let report = Report::begin(Kind::Operation, &self.store, operation, span);
        report.run(work, |result, _| outcome_of_operation(result)).await
    }
}

#[async_trait]
impl<S: Store> Store for ObservedStore<S> {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        self.observe("read", Some(path), self.inner.read_opts(path, options)).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.observe("apply", None, self.inner.apply(batch)).await
    }
}
