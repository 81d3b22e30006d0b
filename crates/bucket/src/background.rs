//! The state of background work: the task of [`Collector`], and the time of [`Warnings`].

use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use memory_tool_core::lock;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// The least time between two warnings of a store.
const INTERVAL: Duration = Duration::from_secs(60 * 60);

/// The time of the last warning.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Mutex<Option<Instant>>);

impl Warnings {
    /// Whether it is time for a warning. If so, the time of the next one begins.
    pub(crate) fn are_due(&self) -> bool {
        let mut last = lock(&self.0);
        let are_due = last.is_none_or(|last| last.elapsed() >= INTERVAL);
        if are_due {
            *last = Some(Instant::now());
        }
        are_due
    }
}

/// The task, if it runs. It ends with the session.
#[derive(Debug, Default)]
pub(crate) struct Collector(pub(crate) OnceLock<AbortHandle>);

impl Drop for Collector {
    /// A collection keeps the session, so this ends only the wait for the next one.
    fn drop(&mut self) {
        if let Some(task) = self.0.get() {
            task.abort();
        }
    }
}
