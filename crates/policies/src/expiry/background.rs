//! [`SweepTask`]: periodic sweeps.

use std::sync::Arc;
use std::time::Duration;

use memory_tool_core::Store;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::store::ExpiringStore;

/// The minimum time between two sweeps.
const MIN_PERIOD: Duration = Duration::from_secs(1);

impl<S: Store> ExpiringStore<S> {
    /// Spawns a task that sweeps immediately, and again after each `period`, which is at least a second.
    ///
    /// # Behavior
    /// 1. The task ends when the [`SweepTask`] is stopped or dropped. This interrupts a sweep between two batches or
    ///    during a batch, which is atomic.
    /// 2. A failed sweep is reported by a [`tracing`] warning, and the next one tries again. The number of removed
    ///    files is reported at the level `INFO`.
    ///
    /// # Panics
    /// Panics if called outside of a Tokio runtime with timers.
    pub fn sweep_every(self: &Arc<Self>, period: Duration) -> SweepTask {
        let (store, period) = (Arc::clone(self), period.max(MIN_PERIOD));
        let task = tokio::spawn(async move {
            loop {
                match store.sweep().await {
                    Ok(swept) if swept.held > 0 => {
                        let (held, kept) = (swept.held, swept.kept);
                        tracing::warn!(
                            held,
                            kept,
                            "most files have expired: held them back in case the clock is wrong"
                        );
                    }
                    Ok(swept) if swept.removed.is_empty() => {}
                    Ok(swept) => {
                        tracing::info!(removed = swept.removed.len(), kept = swept.kept, "removed expired files");
                    }
                    Err(error) => {
                        let error = error.name();
                        tracing::warn!(error, "sweep of expired files failed");
                    }
                }
                sleep(period).await;
            }
        });
        SweepTask { task }
    }
}

/// A task started by [`ExpiringStore::sweep_every`]. It ends when this is dropped.
#[derive(Debug)]
#[must_use = "the task ends when this is dropped"]
pub struct SweepTask {
    task: JoinHandle<()>,
}

impl SweepTask {
    /// Stops the task and waits until it has released the store.
    pub async fn stop(mut self) {
        self.task.abort();
        // The task never ends without being aborted, so the result has no information.
        _ = (&mut self.task).await;
    }
}

impl Drop for SweepTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}
