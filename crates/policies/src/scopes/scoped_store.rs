//! [`ScopedStore`]: one tenant's part of a store that many tenants share.

use async_trait::async_trait;
use memory_tool_core::{Batch, Change, MemoryPath, Node, ReadOptions, RecordName, Store, StoreError, StoredFile};

use super::relocation::{Relocated, cut_at_root};
use super::scope::Scope;

/// Attempts to empty a scope to which others add the first file each time.
const MAX_ATTEMPTS: usize = 1_000;

/// The memory of one [`Scope`] in a store that holds many: it reads and changes the files of its scope, and no path leads to
/// those of another.
///
/// Files, versions, preconditions and batches are those of the inner store, as atomic and as durable. Emptying the memory
/// empties that scope alone. Errors name the paths of the scope, never the scope itself or its directory. Records are apart, too:
/// the inner store has them as `scopes/`, the last name of [`Scope::directory`], `/` and their own name.
///
/// The directory of the scope is part of the path in the inner store, and takes its bytes: with a name of ten lower-case
/// letters, paths of the scope may have up to 1,007 bytes instead of 1,024. A longer one is
/// [refused](StoreError::Refused) with a reason that says so.
///
/// A policy for each scope by itself, such as a limit, goes over the scoped store; under it, it is for all scopes together.
///
/// ```
/// use std::sync::Arc;
///
/// use memory_tool_core::{InMemoryStore, Node, StoreExt};
/// use memory_tool_policies::{Scope, ScopedStore};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let shared = Arc::new(InMemoryStore::new());
/// let alice = ScopedStore::new(Arc::clone(&shared), Scope::from_trusted_name("alice")?);
/// let alice2 = ScopedStore::new(shared, Scope::from_trusted_name("alice2")?);
///
/// alice.write("/memories/notes.txt", "Hello").await?;
/// assert_eq!(alice2.read("/memories/notes.txt").await?, Node::Absent);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ScopedStore<S> {
    scope: Scope,
    directory: Relocated<S>,
}

impl<S: Store> ScopedStore<S> {
    /// The memory of `scope` in `inner`. It reads and writes nothing yet, so make one for each request.
    pub fn new(inner: S, scope: Scope) -> Self {
        let records = format!("scopes/{}/", scope.directory().file_name().unwrap_or_default());
        let directory = Relocated::new(inner, MemoryPath::root(), scope.directory().clone());
        Self { scope, directory: directory.with_record_prefix(records) }
    }

    /// Whose memory it is.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Applies a batch that empties the scope, also where the inner store has no directory of the scope to remove.
    async fn empty(&self, batch: Batch) -> Result<(), StoreError> {
        for _ in 0..MAX_ATTEMPTS {
            match self.directory.apply(batch.clone()).await {
                Err(StoreError::NotFound { .. }) if batch.record_changes().is_empty() => return Ok(()),
                Err(StoreError::NotFound { .. }) => {}
                outcome => return outcome,
            }
            match self.directory.apply_records_if_absent(batch.clone()).await {
                Err(StoreError::AlreadyExists { path }) if path.is_root() => {} // it has a first file now
                outcome => return outcome,
            }
        }
        Err(StoreError::VersionMismatch { path: MemoryPath::root() })
    }
}

#[async_trait]
impl<S: Store> Store for ScopedStore<S> {
    async fn read_opts(&self, path: &MemoryPath, options: ReadOptions) -> Result<Node, StoreError> {
        match self.directory.read(path, options).await? {
            Node::Absent | Node::File(_) if path.is_root() => Ok(Node::Directory(Vec::new())),
            node => Ok(node),
        }
    }

    async fn read_record(&self, name: &RecordName) -> Result<Option<StoredFile>, StoreError> {
        self.directory.read_record(name).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        batch.validate()?;
        if let Some((before, unmet)) = cut_at_root(&batch) {
            self.directory.apply(before).await?;
            return Err(unmet);
        }
        match batch.changes() {
            [Change::Remove { path }] if path.is_root() => self.empty(batch).await,
            _ => self.directory.apply(batch).await,
        }
    }
}
