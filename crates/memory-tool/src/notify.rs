//! [`NotifyingStore`]: calls the program after each change.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::{
    Batch, Change, FailureKind, MemoryPath, Node, ReadOptions, RecordName, Store, StoreError, StoredFile,
};

/// A change of a memory, without the contents.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum MemoryChange {
    /// A file was created, or its contents were replaced.
    Written {
        /// The file.
        path: MemoryPath,
    },
    /// A file or a directory was removed; the root stands for all files.
    Removed {
        /// The file or the directory.
        path: MemoryPath,
    },
    /// A file or a directory was moved.
    Renamed {
        /// Its path before.
        from: MemoryPath,
        /// Its path now.
        to: MemoryPath,
    },
}

impl From<&Change> for MemoryChange {
    fn from(change: &Change) -> Self {
        match change {
            Change::Write { path, .. } => Self::Written { path: path.clone() },
            Change::Remove { path } => Self::Removed { path: path.clone() },
            Change::Rename { from, to } => Self::Renamed { from: from.clone(), to: to.clone() },
        }
    }
}

pub(crate) type OnChange = Box<dyn Fn(&MemoryChange) + Send + Sync>;

/// A store over a store that calls a function after each change that was made, or may have been.
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
    async fn read_opts(&self, path: &MemoryPath, options: ReadOptions) -> Result<Node, StoreError> {
        self.inner.read_opts(path, options).await
    }

    async fn read_record(&self, name: &RecordName) -> Result<Option<StoredFile>, StoreError> {
        self.inner.read_record(name).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        let mut report =
            Report { changes: batch.changes().iter().map(MemoryChange::from).collect(), on_change: &self.on_change };
        let applied = self.inner.apply(batch).await;
        if !matches!(applied, Ok(()) | Err(StoreError::Failure { kind: FailureKind::OutcomeUnknown, .. })) {
            report.changes.clear();
        }
        applied
    }
}

/// Reports changes when it is dropped: also where the future that makes them is, since a store may complete them all the same.
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

    /// A store whose batches never end.
    #[derive(Debug)]
    struct Hanging;

    #[async_trait]
    impl Store for Hanging {
        async fn read_opts(&self, _: &MemoryPath, _: ReadOptions) -> Result<Node, StoreError> {
            Ok(Node::Absent)
        }

        async fn read_record(&self, _: &RecordName) -> Result<Option<StoredFile>, StoreError> {
            Ok(None)
        }

        async fn apply(&self, _: Batch) -> Result<(), StoreError> {
            std::future::pending().await
        }
    }

    #[test]
    fn a_change_that_is_dropped_half_way_is_reported_as_it_may_have_been_made() {
        let reported = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&reported);
        let on_change = Box::new(move |_: &MemoryChange| _ = count.fetch_add(1, Ordering::Relaxed));
        let store = NotifyingStore::new(Arc::new(Hanging), on_change);
        let mut writing = Box::pin(store.write("/memories/a", "text"));
        assert!(matches!(writing.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending));
        assert_eq!(reported.load(Ordering::Relaxed), 0);
        drop(writing);
        assert_eq!(reported.load(Ordering::Relaxed), 1);
    }
}
