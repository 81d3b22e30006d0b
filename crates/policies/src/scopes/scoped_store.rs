//! [`ScopedStore`]: one tenant's part of a store that many tenants share.

use async_trait::async_trait;
use memory_tool_core::{
    Batch, Change, Expected, FileEntry, Found, HookedStore, MemoryPath, Node, Store, StoreError, read_then_check,
};

use super::relocation::{Precondition, Relocated, cut_at_root};
use super::scope::Scope;

/// The memory of one [`Scope`] in a store that holds many: it reads, lists and changes the files of its scope, and there is
/// no path by which it reaches another's.
///
/// Files, versions, preconditions and batches are those of the inner store, as atomic and as durable. Emptying the memory
/// empties that scope alone. Errors name the paths of the scope, never the scope itself, nor where it lies.
///
/// The directory of the scope is part of the path in the inner store, and takes its bytes: with a name of ten lower-case
/// letters, paths of the scope may have up to 1,007 bytes instead of 1,024. A longer one is
/// [refused](StoreError::Refused) with a reason that says so.
///
/// What belongs to each scope by itself, such as a limit, goes over the scoped store; beneath it, it is for all of them
/// together.
///
/// ```
/// use std::sync::Arc;
///
/// use memory_tool_core::{Batch, InMemoryStore, MemoryPath, Node, Store};
/// use memory_tool_policies::{Scope, ScopedStore};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let shared = Arc::new(InMemoryStore::new());
/// let alice = ScopedStore::new(Arc::clone(&shared), Scope::from_trusted_name("alice")?);
/// let alice2 = ScopedStore::new(shared, Scope::from_trusted_name("alice2")?);
///
/// let path: MemoryPath = "/memories/notes.txt".parse()?;
/// alice.apply(Batch::new().write(path.clone(), b"Hello".to_vec())?).await?;
/// assert_eq!(alice2.read(&path).await?, Node::Absent);
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
    /// The memory of `scope` in `inner`. Nothing is read or made for it, so it may be done for each request.
    pub fn new(inner: S, scope: Scope) -> Self {
        let directory = Relocated::new(inner, MemoryPath::root(), scope.directory().clone());
        Self { scope, directory }
    }

    /// Whose memory it is.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    async fn apply_parts(&self, preconditions: Vec<Precondition>, changes: Vec<Change>) -> Result<(), StoreError> {
        let empties = matches!(&changes[..], [Change::Remove { path }] if path.is_root());
        match self.directory.apply(preconditions, changes).await {
            // The inner store has no directory of an empty scope that it could remove.
            Err(StoreError::NotFound { .. }) if empties => Ok(()),
            outcome => outcome,
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for ScopedStore<S> {
    async fn read(&self, path: &MemoryPath) -> Result<Node, StoreError> {
        if path.is_root() {
            return Ok(Node::Directory); // also while the inner store has none there
        }
        self.directory.read(path).await
    }

    async fn list(&self, directory: &MemoryPath) -> Result<Vec<FileEntry>, StoreError> {
        self.directory.list(directory).await
    }

    async fn read_or_list(&self, path: &MemoryPath) -> Result<Found, StoreError> {
        if path.is_root() {
            return Ok(Found::Directory(self.directory.list(path).await?)); // spares the inner store the reading
        }
        self.directory.read_or_list(path).await
    }

    async fn read_if(&self, path: &MemoryPath, preconditions: &[(MemoryPath, Expected)]) -> Result<Node, StoreError> {
        if path.is_root() || preconditions.iter().any(|(required, _)| required.is_root()) {
            return read_then_check(self, path, preconditions).await; // the inner store may have no root of this scope
        }
        self.directory.read_if(path, preconditions).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        let (mut preconditions, changes) = batch.into_parts();
        if let Some(unmet) = cut_at_root(&mut preconditions) {
            self.apply_parts(preconditions, Vec::new()).await?;
            return Err(unmet);
        }
        self.apply_parts(preconditions, changes).await
    }

    fn hooked(&self) -> Option<&dyn HookedStore> {
        None
    }
}
