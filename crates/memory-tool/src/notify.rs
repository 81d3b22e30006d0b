//! [`NotifyingStore`]: reports each change.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::{Batch, ErrorKind, Node, ReadOptions, Store, StoreError, StorePath};

use crate::change::MemoryChange;
use crate::watch::Feed;

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
