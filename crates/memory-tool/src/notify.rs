//! [`NotifyingStore`]: calls a function after each change.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::{Batch, Change, ErrorKind, MemoryPath, Node, ReadOptions, Store, StoreError, StorePath};

/// A change of a memory, without the contents.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum MemoryChange {
    /// A file was created, or its contents were replaced.
    Written {
        /// The file.
        path: MemoryPath,
    },
    /// A file or directory was removed. Removing the root removes all files.
    Removed {
        /// The file or directory.
        path: MemoryPath,
    },
    /// A file or directory was moved.
    Renamed {
        /// The old path.
        from: MemoryPath,
        /// The new path.
        to: MemoryPath,
    },
}

impl MemoryChange {
    /// The change of a file; `None` for the change of a record.
    fn of(change: &Change) -> Option<Self> {
        let file = |path: &StorePath| MemoryPath::try_from(path).ok();
        Some(match change {
            Change::Write { path, .. } => Self::Written { path: file(path)? },
            Change::Remove { path } => Self::Removed { path: file(path)? },
            Change::Rename { from, to } => Self::Renamed { from: file(from)?, to: file(to)? },
        })
    }
}

pub(crate) type OnChange = Box<dyn Fn(&MemoryChange) + Send + Sync>;

/// A wrapper that calls a function after each change, including changes with an unknown outcome.
pub(crate) struct NotifyingStore {
    inner: Arc<dyn Store>,
    on_change: OnChange,
}

impl NotifyingStore {
    pub(crate) fn new(inner: Arc<dyn Store>, on_change: OnChange) -> Self {
        Self { inner, on_change }
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
        let changes = batch.changes().iter().filter_map(MemoryChange::of).collect();
        let mut report = Report { changes, on_change: &self.on_change };
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
    on_change: &'a OnChange,
}

impl Drop for Report<'_> {
    fn drop(&mut self) {
        self.changes.iter().for_each(|change| (self.on_change)(change));
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
        let store = NotifyingStore::new(Arc::new(HangingStore), on_change);
        let mut writing = Box::pin(store.write("/memories/a", "text"));
        assert!(matches!(writing.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending));
        assert_eq!(reported.load(Ordering::Relaxed), 0);
        drop(writing);
        assert_eq!(reported.load(Ordering::Relaxed), 1);
    }
}
