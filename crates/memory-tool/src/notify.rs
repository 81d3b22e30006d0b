//! [`NotifyingStore`]: reports each change.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::{
    Actor, Batch, Change, ErrorKind, MemoryPath, Node, Precondition, ReadOptions, Store, StoreError, StorePath,
};
use serde::{Serialize, Serializer};

use crate::watch::Feed;

/// A change of a memory, without the contents.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct MemoryChange {
    /// The kind of the change.
    pub operation: Operation,
    /// The file or directory; the new path of a rename. Removing `/memories` removes all files.
    pub path: MemoryPath,
    /// The old path of a rename.
    pub old_path: Option<MemoryPath>,
    /// The new size of a written or edited file, in bytes.
    pub size: Option<u64>,
    /// The actor, if the batch names one. Unknown for changes by other programs.
    #[serde(serialize_with = "name")]
    pub actor: Option<Actor>,
}

/// The kind of a [`MemoryChange`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// A file was created, or replaced regardless of its contents.
    Write,
    /// The contents of an existing file were changed.
    Edit,
    /// A file or directory was removed.
    Remove,
    /// A file or directory was moved.
    Rename,
}

impl MemoryChange {
    pub(crate) fn new(operation: Operation, path: MemoryPath) -> Self {
        Self { operation, path, old_path: None, size: None, actor: None }
    }

    /// The paths that it affects.
    pub fn paths(&self) -> impl Iterator<Item = &MemoryPath> {
        self.old_path.iter().chain([&self.path])
    }

    /// The changes of files in a batch, without those of records.
    fn in_batch(batch: &Batch) -> Vec<Self> {
        let actor = batch.actor().cloned();
        let changes = batch.changes().iter().filter_map(|change| Self::of(change, batch));
        changes.map(|change| Self { actor: actor.clone(), ..change }).collect()
    }

    fn of(change: &Change, batch: &Batch) -> Option<Self> {
        let file = |path: &StorePath| MemoryPath::try_from(path).ok();
        Some(match change {
            Change::Write { path, content, .. } => {
                let exists = |(required, precondition): &(StorePath, Precondition)| {
                    required == path && matches!(precondition, Precondition::Version(_))
                };
                let is_edit = batch.preconditions().iter().any(exists);
                let operation = if is_edit { Operation::Edit } else { Operation::Write };
                Self { size: u64::try_from(content.len()).ok(), ..Self::new(operation, file(path)?) }
            }
            Change::Remove { path } => Self::new(Operation::Remove, file(path)?),
            Change::Rename { from, to } => Self { old_path: file(from), ..Self::new(Operation::Rename, file(to)?) },
        })
    }
}

fn name<S: Serializer>(actor: &Option<Actor>, serializer: S) -> Result<S::Ok, S::Error> {
    actor.as_ref().map(Actor::name).serialize(serializer)
}

pub(crate) type OnChange = Box<dyn Fn(&MemoryChange) + Send + Sync>;

/// A wrapper that reports each change, including changes with an unknown outcome.
pub(crate) struct NotifyingStore {
    inner: Arc<dyn Store>,
    on_change: Option<OnChange>,
    feed: Arc<Feed>,
}

impl NotifyingStore {
    pub(crate) fn new(inner: Arc<dyn Store>, on_change: Option<OnChange>, feed: Arc<Feed>) -> Self {
        Self { inner, on_change, feed }
    }
}

impl fmt::Debug for NotifyingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotifyingStore").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for NotifyingStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        self.inner.read_opts(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        // Also without a watch, since one may begin before the end.
        let mut report = Report { changes: MemoryChange::in_batch(&batch), store: self };
        let applied = self.inner.apply(batch).await;
        if !matches!(applied, Ok(()) | Err(StoreError::Failure { kind: ErrorKind::OutcomeUnknown, .. })) {
            report.changes.clear();
        }
        applied
    }
}

/// Reports changes on drop. This includes dropping the future of `apply`, because the store may still complete the
/// changes.
struct Report<'a> {
    changes: Vec<MemoryChange>,
    store: &'a NotifyingStore,
}

impl Drop for Report<'_> {
    fn drop(&mut self) {
        let changes = std::mem::take(&mut self.changes);
        if let Some(on_change) = &self.store.on_change {
            changes.iter().for_each(on_change);
        }
        if !changes.is_empty() {
            self.store.feed.report(changes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Waker};

    use memory_tool_core::StoreExt as _;

    use super::*;

    /// A store that never completes a batch.
    #[derive(Debug)]
    struct HangingStore;

    #[async_trait]
    impl Store for HangingStore {
        async fn read_opts(&self, _: &StorePath, _: ReadOptions) -> Result<Node, StoreError> {
            Ok(Node::Absent)
        }

        async fn apply(&self, _: Batch) -> Result<(), StoreError> {
            std::future::pending().await
        }
    }

    #[test]
    fn a_change_is_reported_if_its_future_is_dropped() {
        let reported = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&reported);
        let on_change = Box::new(move |_: &MemoryChange| _ = count.fetch_add(1, Ordering::Relaxed));
        let store = NotifyingStore::new(Arc::new(HangingStore), Some(on_change), Arc::default());
        let mut writing = Box::pin(store.write("/memories/a", "text"));
        assert!(matches!(writing.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending));
        assert_eq!(reported.load(Ordering::Relaxed), 0);
        drop(writing);
        assert_eq!(reported.load(Ordering::Relaxed), 1);
    }
}
