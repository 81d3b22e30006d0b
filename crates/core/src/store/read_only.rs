//! [`ReadOnlyStore`]: a wrapper that refuses every change.

use async_trait::async_trait;

use crate::store::batch::Batch;
use crate::store::change::Change;
use crate::store::error::StoreError;
use crate::store::node::Node;
use crate::store::store_path::StorePath;
use crate::store::{ReadOptions, Store};

/// A wrapper that [refuses](StoreError::Refused) every change to files and records. The model reads the reason.
///
/// Code with access to the inner store can still change it.
///
/// ```
/// use memory_tool_core::{Engine, InMemoryStore, MemoryTool, ReadOnlyStore};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let tool = Engine::new(ReadOnlyStore::new(InMemoryStore::new()));
/// let input = serde_json::json!({"command": "create", "path": "/memories/a.txt", "file_text": "Hello"});
/// assert_eq!(
///     tool.call(input).await.unwrap_err().to_string(),
///     "Error: /memories is read-only. Its files can be viewed, but not changed.",
/// );
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ReadOnlyStore<S> {
    inner: S,
}

impl<S: Store> ReadOnlyStore<S> {
    /// Wraps `inner`.
    pub fn new(inner: S) -> Self {
        Self { inner }
    }
}

#[async_trait]
impl<S: Store> Store for ReadOnlyStore<S> {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        self.inner.read_opts(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        batch.validate()?;
        if batch.changes_nothing() {
            return self.check(&batch).await;
        }
        let root = StorePath::memories();
        let changed = batch.changes().iter().flat_map(Change::paths).next();
        Err(StoreError::read_only(changed.unwrap_or(&root), &root))
    }
}

impl<S: Store> ReadOnlyStore<S> {
    /// Checks preconditions with reads. It does not pass the batch on, because even a batch without changes can trigger
    /// maintenance in the inner store.
    async fn check(&self, batch: &Batch) -> Result<(), StoreError> {
        let Some((path, _)) = batch.preconditions().first() else { return Ok(()) };
        let options = ReadOptions::new().require_all(batch.preconditions().iter().cloned());
        self.inner.read_opts(path, options).await.map(drop)
    }
}

impl StoreError {
    /// Creates the refusal to change `path` in the read-only `directory`.
    pub fn read_only(path: &StorePath, directory: &StorePath) -> Self {
        let reason = format!("{directory} is read-only. Its files can be viewed, but not changed.");
        Self::refused(path, "read-only", reason)
    }
}
