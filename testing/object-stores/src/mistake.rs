//! [`Mistake`]: stores in a bucket that break their promise, to see that a test notices.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use memory_tool_core::{
    Batch, Change, FailureKind, FileEntry, MemoryPath, Node, ReadOptions, RecordChange, RecordName, Store, StoreError,
    StoreExt, StoredFile,
};
use memory_tool_object_store::BucketStore;

/// What a store does wrong.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Mistake {
    /// It says that a change was made which it did not make, now and then.
    ForgetsChanges,
    /// It overwrites what somebody else has written since its author looked.
    OverwritesChanges,
    /// It says that nothing was changed where it does not know.
    HidesUnknownOutcomes,
    /// It shows a file as it was, now and then.
    ShowsOldFiles,
    /// It renames and removes directories file by file.
    SplitsChanges,
}

impl Mistake {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::ForgetsChanges,
        Self::OverwritesChanges,
        Self::HidesUnknownOutcomes,
        Self::ShowsOldFiles,
        Self::SplitsChanges,
    ];

    /// The variable by which a process is told to make the mistake.
    pub fn variable(self) -> (&'static str, String) {
        ("MEMORY_TOOL_TEST_MISTAKE", format!("{self:?}"))
    }

    /// The store, or one that makes the mistake that this process is told to make.
    pub fn wrap(store: BucketStore) -> Box<dyn Store> {
        let is_told = |mistake: &Self| {
            let (name, value) = mistake.variable();
            std::env::var(name).is_ok_and(|told| told == value)
        };
        match Self::ALL.into_iter().find(is_told) {
            Some(mistake) => {
                Box::new(Broken { store, mistake, changes: AtomicUsize::default(), shown: Mutex::default() })
            }
            None => Box::new(store),
        }
    }
}

/// How many changes are made for one that is forgotten.
const CHANGES_PER_FORGOTTEN: usize = 20;

#[derive(Debug)]
struct Broken {
    store: BucketStore,
    mistake: Mistake,
    changes: AtomicUsize,
    /// What is shown once more.
    shown: Mutex<BTreeMap<MemoryPath, Node>>,
}

#[async_trait]
impl Store for Broken {
    async fn read_opts(&self, path: &MemoryPath, options: ReadOptions) -> Result<Node, StoreError> {
        if !matches!(self.mistake, Mistake::ShowsOldFiles) {
            return self.store.read_opts(path, options).await;
        }
        let shown = self.shown.lock().unwrap().remove(path);
        if let Some(old) = shown {
            return Ok(old);
        }
        let node = self.store.read_opts(path, options).await?;
        if matches!(node, Node::Directory(_)) {
            return Ok(node);
        }
        self.shown.lock().unwrap().insert(path.clone(), node.clone());
        Ok(node)
    }

    async fn read_record(&self, name: &RecordName) -> Result<Option<StoredFile>, StoreError> {
        self.store.read_record(name).await
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
    /// A batch for each file, where the batch is for a whole directory.
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
    let (changes, record_changes) = batch.into_changes();
    let changed = changes.into_iter().fold(Batch::new(), Batch::change);
    record_changes.into_iter().fold(changed, |batch, change| match change {
        RecordChange::Write { name, content } => batch.write_record(name, content),
        RecordChange::Remove { name } => batch.remove_record(name),
    })
}

fn hide_unknown_outcome(error: StoreError) -> StoreError {
    match error {
        StoreError::Failure { kind: FailureKind::OutcomeUnknown, operation, source } => {
            StoreError::Failure { kind: FailureKind::Busy, operation, source }
        }
        other => other,
    }
}
