//! [`GuardedStore`]: a memory that is changed only while it is the same one, and is not archived.

use std::sync::Arc;

use async_trait::async_trait;
use memory_tool::proposals::Proposals;
use memory_tool::store::{Batch, Precondition, ReadOptions, StorePath};
use memory_tool::{ErrorKind, Node, Store, StoreError};

use super::record::StoreRecord;

/// The name of the policy in refusals.
const POLICY: &str = "server";

/// Attempts of a change while others change the records of the memory. Each time, one of them succeeded.
const MAX_ATTEMPTS: usize = 100;

/// A wrapper that makes "exists" and "not archived" part of each change, because another server can archive or delete
/// the memory at any time.
#[derive(Debug)]
pub(crate) struct GuardedStore {
    pub(crate) inner: Arc<dyn Store>,
    /// Whether a change may create the memory.
    pub(crate) creates: bool,
    /// Whether an archived memory allows it.
    pub(crate) removes: bool,
    /// The birth of the memory in milliseconds since 1970, if it has a record.
    pub(crate) created_at: Option<u64>,
}

impl GuardedStore {
    /// The preconditions of a batch.
    async fn required(&self) -> Result<Vec<(StorePath, Precondition)>, StoreError> {
        let (record, state) = StoreRecord::read(&*self.inner).await?;
        if !self.removes && record.as_ref().is_some_and(|record| record.archived_at.is_some()) {
            let reason = "The memory is archived, so it is read-only.";
            return Err(StoreError::refused(&StorePath::memories(), POLICY, reason));
        }
        if self.created_at.is_some() && record.as_ref().map(|record| record.created_at) != self.created_at {
            return Err(deleted());
        }
        let mut required = vec![(StoreRecord::path(), state)];
        if !self.creates && record.is_none() {
            required.push((history_head(), self.head().await?));
        }
        Ok(required)
    }

    /// The state of the history, which every memory has that a server changed. A deletion removes it.
    async fn head(&self) -> Result<Precondition, StoreError> {
        if let Node::File(head) = self.inner.read_opts(&history_head(), ReadOptions::new()).await? {
            return Ok(Precondition::Version(head.version));
        }
        if has_files(&self.inner).await? { Ok(Precondition::Absent) } else { Err(deleted()) }
    }
}

/// Whether a memory has files, or proposals of some.
pub(super) async fn has_files(store: &Arc<dyn Store>) -> Result<bool, StoreError> {
    let files = store.read_opts(&StorePath::memories(), ReadOptions::new()).await?.into_listing().files;
    Ok(!files.is_empty() || !Proposals::new(Arc::clone(store)).list().await?.is_empty())
}

fn deleted() -> StoreError {
    StoreError::refused(&StorePath::memories(), POLICY, "The memory does not exist: it was deleted.")
}

fn history_head() -> StorePath {
    let join = |path: StorePath, name: &str| path.join(name).unwrap_or(path);
    ["history", "head"].into_iter().fold(StorePath::records(), join)
}

#[async_trait]
impl Store for GuardedStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        self.inner.read_opts(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        let mut last = None;
        for _ in 0..MAX_ATTEMPTS {
            let required = self.required().await?;
            let is_own = |path: &StorePath| {
                let is_of_caller = batch.preconditions().iter().any(|(required, _)| required == path);
                !is_of_caller && required.iter().any(|(required, _)| required == path)
            };
            let guarded =
                required.iter().cloned().fold(batch.clone(), |batch, (path, state)| batch.require(path, state));
            match self.inner.apply(guarded).await {
                // If the records have not changed again, the batch itself is outdated.
                Err(StoreError::VersionMismatch { path } | StoreError::AlreadyExists { path })
                    if is_own(&path) && last.as_ref() != Some(&required) => {}
                outcome => return outcome,
            }
            last = Some(required);
        }
        Err(StoreError::failure(ErrorKind::Busy, "changing the memory", "others kept changing its records"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use memory_tool::Memory;

    use super::*;

    /// The act of another server between the check of a change and its commit.
    #[derive(Clone, Copy, Debug)]
    enum Interruption {
        Archives,
        Deletes,
    }

    /// A store on which another server is faster, once.
    #[derive(Debug)]
    struct Overtaken {
        inner: Arc<dyn Store>,
        changes: AtomicUsize,
        interruption: Interruption,
    }

    #[async_trait]
    impl Store for Overtaken {
        async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
            self.inner.read_opts(path, options).await
        }

        async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
            if self.changes.fetch_add(1, Ordering::Relaxed) == 0 {
                self.inner.apply(self.interruption.batch()).await?;
            }
            self.inner.apply(batch).await
        }
    }

    impl Interruption {
        fn batch(self) -> Batch {
            match self {
                Self::Archives => {
                    let record = StoreRecord { archived_at: Some(1), ..StoreRecord::default() };
                    Batch::new().write(StoreRecord::path(), serde_json::to_vec(&record).unwrap())
                }
                Self::Deletes => Batch::new().remove(StorePath::memories()).remove(StorePath::records()),
            }
        }
    }

    #[tokio::test]
    async fn a_change_is_refused_if_the_memory_is_archived_or_deleted_before_its_commit() {
        for interruption in [Interruption::Archives, Interruption::Deletes] {
            for is_recorded in [false, true] {
                let memory = Memory::builder("in-process:").history().build().await.unwrap();
                memory.write("/memories/a", "text").await.unwrap();
                if is_recorded {
                    let record = serde_json::to_vec(&StoreRecord::default()).unwrap();
                    memory.store().apply(Batch::new().write(StoreRecord::path(), record)).await.unwrap();
                }
                let guarded = memory.layered(|inner| {
                    let inner = Arc::new(Overtaken { inner, changes: AtomicUsize::new(0), interruption });
                    Arc::new(GuardedStore { inner, creates: false, removes: false, created_at: None })
                });
                let refused = guarded.write("/memories/b", "text").await.unwrap_err();
                assert!(matches!(refused, StoreError::Refused { .. }), "{interruption:?}: {refused:?}");
                assert!(!memory.exists("/memories/b").await.unwrap());
                let undone = guarded.history().unwrap().undo(1).await;
                assert!(undone.is_err(), "{interruption:?}: {undone:?}");
            }
        }
    }
}
