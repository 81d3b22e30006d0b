//! The task by which a session collects garbage at an interval.

use std::sync::{Arc, Weak};
use std::time::Duration;

use memory_tool_core::OpenMode;
use tokio::time::sleep;

use crate::config::DEFAULT_GRACE;
use crate::contention::random_part;
use crate::failure::Failure;
use crate::inner::Inner;

/// The shortest and the longest interval. No collection may follow another without a pause, or be beyond all clocks.
const INTERVALS: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(365 * 24 * 60 * 60));

impl Inner {
    /// Starts the task if the options of the store have an interval.
    pub(crate) fn start_collector(self: &Arc<Self>) {
        if let Some(interval) = self.options.gc_interval
            && self.options.mode != OpenMode::ReadOnly
        {
            let (interval, collections) = (interval.clamp(INTERVALS.0, INTERVALS.1), self.state().collections);
            let task = tokio::spawn(run(Arc::downgrade(self), interval, collections));
            let _ = self.collector.0.set(task.abort_handle()); // an opening starts one task
        }
    }

    /// Collects garbage, unless another session has noted a collection since there were `seen`. Returns their number.
    async fn collect_in_turn(self: &Arc<Self>, seen: u64) -> Result<u64, Failure> {
        self.poll(&self.deadline()).await?;
        if self.state().collections == seen {
            self.gc(DEFAULT_GRACE).await?;
        }
        Ok(self.state().collections)
    }
}

async fn run(session: Weak<Inner>, interval: Duration, mut collections: u64) {
    loop {
        // Sessions that were opened together do not collect together.
        sleep(interval.mul_f64(0.9 + random_part() / 5.0)).await;
        let Some(inner) = session.upgrade() else { return };
        match inner.collect_in_turn(collections).await {
            Ok(seen) => collections = seen,
            Err(failure) => inner.warn_about_collection(failure),
        }
    }
}
