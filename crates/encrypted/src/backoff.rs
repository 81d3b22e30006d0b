//! [`Backoff`]: the delays between the attempts of an operation that conflicts with other writers.

use std::time::Duration;

use memory_tool_core::ErrorKind;
use tokio::time::{Instant, sleep};

use crate::failure::Failure;

/// The delays between the attempts of one operation, up to a timeout.
#[derive(Debug)]
pub(crate) struct Backoff {
    started: Instant,
    timeout: Duration,
    attempts: u32,
}

#[derive(Debug, thiserror::Error)]
#[error("other writers kept changing the store for {0:?}")]
struct TimeoutExceeded(Duration);

impl Backoff {
    const FIRST_PAUSE: Duration = Duration::from_millis(1);
    const LONGEST_PAUSE: Duration = Duration::from_millis(100);

    pub(crate) fn new(timeout: Duration) -> Self {
        Self { started: Instant::now(), timeout, attempts: 0 }
    }

    /// Waits before the next attempt, with exponential backoff and jitter. The second attempt starts at once, because a
    /// single conflict does not mean that there are many writers. Returns whether it waited.
    pub(crate) async fn pause(&mut self) -> Result<bool, Failure> {
        if self.started.elapsed() >= self.timeout {
            return Err(Failure::new(ErrorKind::Busy, TimeoutExceeded(self.timeout)));
        }
        let waits = self.attempts > 0;
        if waits {
            let doublings = (self.attempts - 1).min(16);
            let pause = Self::FIRST_PAUSE.saturating_mul(1 << doublings).min(Self::LONGEST_PAUSE);
            sleep(pause.mul_f64(jitter())).await;
        }
        self.attempts += 1;
        Ok(waits)
    }
}

/// A random number from 0 to 1, or 1 if the system has no randomness.
fn jitter() -> f64 {
    getrandom::u32().map_or(1.0, |number| f64::from(number) / f64::from(u32::MAX))
}
