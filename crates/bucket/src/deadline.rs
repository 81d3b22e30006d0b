//! Deadlines of operations, and the pauses between attempts.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, timeout_at};

use crate::contention::random_part;

/// No deadline is further away, so that the sum of a time and a duration is always a time.
const FURTHEST: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The end of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    started: Instant,
    whole: Duration,
    is_of_opening: bool,
}

impl Deadline {
    pub(crate) fn after(whole: Duration) -> Self {
        Self { started: Instant::now(), whole: whole.min(FURTHEST), is_of_opening: false }
    }

    /// The deadline of an opening, which reports an address without a server at once: it is probably wrong.
    pub(crate) fn of_opening(whole: Duration) -> Self {
        Self { is_of_opening: true, ..Self::after(whole) }
    }

    pub(crate) fn is_of_opening(&self) -> bool {
        self.is_of_opening
    }

    pub(crate) fn is_over(&self) -> bool {
        self.started.elapsed() >= self.whole
    }

    /// Whether too little time is left for a new commit. The rest is needed to determine the outcome of the last
    /// attempt.
    pub(crate) fn is_near(&self) -> bool {
        self.started.elapsed() >= self.whole / 4 * 3
    }

    pub(crate) fn end(&self) -> Instant {
        self.started + self.whole
    }

    pub(crate) fn whole(&self) -> Duration {
        self.whole
    }

    /// Waits for `future` until the deadline.
    pub(crate) async fn limit<F: Future>(&self, future: F) -> Result<F::Output, Elapsed> {
        timeout_at(self.end(), future).await
    }

    /// Waits for `future` for half of the remaining time. The other half is for a second attempt, or to determine the
    /// outcome. The error is the time that it waited.
    pub(crate) async fn limit_to_half<F: Future>(&self, future: F) -> Result<F::Output, Duration> {
        let half = self.whole.saturating_sub(self.started.elapsed()) / 2;
        timeout_at(Instant::now() + half, future).await.map_err(|_| half)
    }
}

/// The pauses between the attempts of one request: longer each time.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    pauses: AtomicU32,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(10);
    const LONGEST: Duration = Duration::from_secs(1);

    /// Waits for a random part of the next span, but not beyond the deadline. Spans are short compared with the time of
    /// the operation.
    pub(crate) async fn pause(&self, deadline: &Deadline) {
        let earlier = self.pauses.fetch_add(1, Ordering::Relaxed);
        let span =
            Self::FIRST.saturating_mul(2_u32.saturating_pow(earlier)).min(Self::LONGEST).min(deadline.whole / 16);
        let _ = deadline.limit(sleep(span.mul_f64(random_part()))).await;
    }
}
