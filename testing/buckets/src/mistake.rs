//! [`Mistake`]: broken bucket stores, to check that the tests detect them.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use memory_tool_bucket::BucketStore;
use memory_tool_core::{
    Batch, Change, ErrorKind, FileEntry, Node, ReadOptions, Store, StoreError, StoreExt, StorePath,
};

/// A fault of a store.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Mistake {
    /// Sometimes reports success without applying the change.
    ForgetsChanges,
    /// Ignores preconditions, and overwrites concurrent changes.
    OverwritesChanges,
    /// Reports an unknown outcome as a failure.
    HidesUnknownOutcomes,
    /// Sometimes returns an old version of a file.
    ShowsOldFiles,
    /// Renames and removes directories file by file.
    SplitsChanges,
}

impl Mistake {
    /// All mistakes.
    pub const ALL: [Self; 5] = [
        Self::ForgetsChanges,
        Self::OverwritesChanges,
        Self::HidesUnknownOutcomes,
        Self::ShowsOldFiles,
        Self::SplitsChanges,
    ];

    /// The environment variable that makes a process use this mistake.
    pub fn variable(self) -> (&'static str, String) {
        ("MEMORY_TOOL_TEST_MISTAKE", format!("{self:?}"))
    }

    /// Wraps the store in the mistake that the environment selects, if any.
    pub fn wrap(store: BucketStore) -> Box<dyn Store> {
        let is_selected = |mistake: &Self| {
            let (name, value) = mistake.variable();
            std::env::var(name).is_ok_and(|selected| selected == value)
        };
        match Self::ALL.into_iter().find(is_selected) {
            Some(mistake) => {
                Box::new(Broken { store, mistake, changes: AtomicUsize::default(), old: Mutex::default() })
            }
            None => Box::new(store),
        }
    }
}

/// One of this many changes is forgotten.
const CHANGES_PER_FORGOTTEN: usize = 20;

#[derive(Debug)]
struct Broken {
    store: BucketStore,
    mistake: Mistake,
    changes: AtomicUsize,
    /// Nodes to return again.
    old: Mutex<BTreeMap<StorePath, Node>>,
}

#[async_trait]
impl Store for Broken {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        if !matches!(self.mistake, Mistake::ShowsOldFiles) {
            return self.store.read_opts(path, options).await;
        }
        let old = self.old.lock().unwrap().remove(path);
        if let Some(old) = old {
            return Ok(old);
        }
        let node = self.store.read_opts(path, options).await?;
        if matches!(node, Node::Directory(_)) {
            return Ok(node);
        }
        self.old.lock().unwrap().insert(path.clone(), node.clone());
        Ok(node)
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        match self.mistake {
            Mistake::ForgetsChanges => {
                let earlier = self.changes.fetch_add(1, Ordering::Relaxed);
                if earlier.is_multiple_of(CHANGES_PER_FORGOTTEN) { Ok(()) } else { self.store.apply(batch).await }
            }
            Mistake::OverwritesChanges => self.store.apply(without_preconditions(batch)).await,
            Mistake::HidesUnknownOutcomes => self.store.apply(batch).await.map_err(hide_unknown_outcome),
            Mistake::ShowsOldFiles => self.store.apply(batch).await,
            Mistake::SplitsChanges => {
                for part in self.split(batch).await? {
                    self.store.apply(part).await?;
                }
                Ok(())
            }
        }
    }
}

impl Broken {
    /// Splits a batch on a directory into one batch per file.
    async fn split(&self, batch: Batch) -> Result<Vec<Batch>, StoreError> {
        let [change @ (Change::Remove { path } | Change::Rename { from: path, .. })] = batch.changes() else {
            return Ok(vec![batch]);
        };
        let files = self.store.list(path).await?;
        let part = |file: FileEntry| match change {
            Change::Rename { from, to } => {
                Batch::new().rename(file.path.clone(), file.path.replace_prefix(from, to).unwrap())
            }
            _ => Batch::new().remove(file.path),
        };
        Ok(if files.is_empty() { vec![batch] } else { files.into_iter().map(part).collect() })
    }
}

fn without_preconditions(batch: Batch) -> Batch {
    batch.into_changes().into_iter().fold(Batch::new(), Batch::change)
}

fn hide_unknown_outcome(error: StoreError) -> StoreError {
    match error {
        StoreError::Failure { kind: ErrorKind::OutcomeUnknown, operation, source } => {
            StoreError::Failure { kind: ErrorKind::Busy, operation, source }
        }
        other => other,
    }
}
