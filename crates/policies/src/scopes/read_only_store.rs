//! [`ReadOnlyStore`]: a store that nobody changes.

use async_trait::async_trait;
use memory_tool_core::{Batch, Change, Expected, FileEntry, Found, HookedStore, MemoryPath, Node, Store, StoreError};

/// A store that can be read and listed, while every change is [refused](StoreError::Refused) with a reason that the model
/// reads. Whoever holds the inner store itself goes on changing it.
///
/// ```
/// use memory_tool_core::{Engine, InMemoryStore, MemoryTool};
/// use memory_tool_policies::ReadOnlyStore;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let tool = Engine::new(ReadOnlyStore::new(InMemoryStore::new()));
/// let input = serde_json::json!({"command": "create", "path": "/memories/a.txt", "file_text": "Hello"});
/// assert_eq!(
///     tool.call(input).await.unwrap_err().to_string(),
///     "Error: /memories is read-only: what is in it can be viewed, but not changed",
/// );
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ReadOnlyStore<S> {
    inner: S,
}

impl<S: Store> ReadOnlyStore<S> {
    /// The files of `inner`, to be read.
    pub fn new(inner: S) -> Self {
        Self { inner }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for ReadOnlyStore<S> {
    async fn read(&self, path: &MemoryPath) -> Result<Node, StoreError> {
        self.inner.read(path).await
    }

    async fn list(&self, directory: &MemoryPath) -> Result<Vec<FileEntry>, StoreError> {
        self.inner.list(directory).await
    }

    async fn read_or_list(&self, path: &MemoryPath) -> Result<Found, StoreError> {
        self.inner.read_or_list(path).await
    }

    async fn read_if(&self, path: &MemoryPath, preconditions: &[(MemoryPath, Expected)]) -> Result<Node, StoreError> {
        self.inner.read_if(path, preconditions).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        match batch.changes().first() {
            None => self.inner.apply(batch).await, // preconditions alone change nothing
            Some(Change::Write { path, .. } | Change::Remove { path } | Change::Rename { from: path, .. }) => {
                Err(refusal(path, &MemoryPath::root()))
            }
        }
    }

    fn hooked(&self) -> Option<&dyn HookedStore> {
        None
    }
}

/// Why `path`, which lies in the read-only `directory`, is not changed.
pub(crate) fn refusal(path: &MemoryPath, directory: &MemoryPath) -> StoreError {
    let reason = format!("{directory} is read-only: what is in it can be viewed, but not changed");
    StoreError::Refused { path: path.clone(), reason }
}
