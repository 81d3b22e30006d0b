//! [`SweepTask`]: sweeps again and again.

use std::sync::Arc;
use std::time::Duration;

use memory_tool_core::Store;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::store::ExpiringStore;
use crate::error_names::name_of_store_error;

/// The shortest time from one sweep to the next.
const MIN_PERIOD: Duration = Duration::from_secs(1);

impl<S: Store> ExpiringStore<S> {
    /// Starts a task that sweeps at once, and again each time that `period`, of a second at least, has passed since the last
    /// sweep.
    ///
    /// # Behavior
    /// 1. It ends when the [`SweepTask`] is stopped or dropped. A sweep that it is at then is dropped: a batch that it was applying
    ///    holds whole or not at all.
    /// 2. A sweep that fails is reported by a warning of [`tracing`], and the next one tries again. The number of removed files is
    ///    reported at the level `INFO`.
    ///
    /// # Panics
    /// Outside of a runtime of Tokio with timers.
    pub fn sweep_every(self: &Arc<Self>, period: Duration) -> SweepTask {
        let (store, period) = (Arc::clone(self), period.max(MIN_PERIOD));
        let task = tokio::spawn(async move {
            loop {
                match store.sweep().await {
                    Ok(swept) if swept.removed.is_empty() => {}
                    Ok(swept) => {
                        tracing::info!(removed = swept.removed.len(), kept = swept.kept, "removed expired files");
                    }
                    Err(error) => {
                        let error = name_of_store_error(&error);
                        tracing::warn!(error, "sweep of expired files failed");
                    }
                }
                sleep(period).await;
            }
        });
        SweepTask { task }
    }
}

/// A task that sweeps, see [`ExpiringStore::sweep_every`]. It ends when this is dropped.
#[derive(Debug)]
#[must_use = "the task ends when this is dropped"]
pub struct SweepTask {
    task: JoinHandle<()>,
}

impl SweepTask {
    /// Ends the task, and waits until it has let go of the store.
    pub async fn stop(mut self) {
        self.task.abort();
        // It never ends by itself, so all that can be told is that it was aborted.
        _ = (&mut self.task).await;
    }
}

impl Drop for SweepTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}
