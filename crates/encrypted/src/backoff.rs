//! [`Backoff`]: how long an operation is tried again while others are always first.

use std::time::Duration;

use memory_tool_core::FailureKind;
use tokio::time::{Instant, sleep};

use crate::failure::Failure;

/// The pauses between the attempts of one operation, and their end.
#[derive(Debug)]
pub(crate) struct Backoff {
    started: Instant,
    whole: Duration,
    attempts: u32,
}

/// An operation gave up.
#[derive(Debug, thiserror::Error)]
#[error("others changed the store again and again for {0:?}")]
struct Exhausted(Duration);

impl Backoff {
    const FIRST_PAUSE: Duration = Duration::from_millis(1);
    const LONGEST_PAUSE: Duration = Duration::from_millis(100);

    pub(crate) fn within(whole: Duration) -> Self {
        Self { started: Instant::now(), whole, attempts: 0 }
    }

    /// Waits before the next attempt, the longer the more there were; not before the second, since one change of somebody else
    /// is not a crowd.
    pub(crate) async fn pause(&mut self) -> Result<(), Failure> {
        if self.started.elapsed() >= self.whole {
            return Err(Failure::new(FailureKind::Busy, Exhausted(self.whole)));
        }
        if self.attempts > 0 {
            let doublings = (self.attempts - 1).min(16);
            let span = Self::FIRST_PAUSE.saturating_mul(1 << doublings).min(Self::LONGEST_PAUSE);
            sleep(span.mul_f64(random_part())).await;
        }
        self.attempts += 1;
        Ok(())
    }
}

/// A number from 0 to 1. Without randomness it is 1: the pause is then as long as the span.
fn random_part() -> f64 {
    getrandom::u32().map_or(1.0, |number| f64::from(number) / f64::from(u32::MAX))
}
