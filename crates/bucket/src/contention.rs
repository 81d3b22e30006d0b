//! [`Contention`]: who writes next, if several writers of different processes want to.
//!
//! Of several creates of one number the bucket takes one, so somebody always gets ahead. Who that is would be the writer that
//! is nearest to the bucket, or the one that has just written and knows the next number first. So whoever lost more often
//! waits less, and whoever wrote several times in a row leaves room for others. No pause is longer than two round trips.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// After how many commits in a row a writer leaves room for others, which cannot be seen if they always lose.
const IN_A_ROW: u32 = 4;
/// After how many commits without a sign of other writers nobody else is assumed to write.
const ALONE_AFTER: u32 = 8;

/// What a writer knows about the others.
#[derive(Debug, Default)]
pub(crate) struct Contention(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// How long a request takes, smoothed.
    round_trip: Duration,
    /// How many of the commits of this writer met no other since the last that did.
    alone: u32,
    /// Whether others were seen to write.
    others: bool,
    /// How often the next commit has lost its number to another.
    losses: u32,
    /// How many commits were made in a row.
    in_a_row: u32,
    last_win: Option<Instant>,
}

impl Contention {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes how long a request took.
    pub(crate) fn took(&self, time: Duration) {
        let mut seen = self.seen();
        seen.round_trip = if seen.round_trip.is_zero() { time } else { (seen.round_trip * 7 + time) / 8 };
    }

    /// Notes that somebody else took the number.
    pub(crate) fn lost(&self) {
        let mut seen = self.seen();
        (seen.others, seen.alone, seen.in_a_row) = (true, 0, 0);
        seen.losses = seen.losses.saturating_add(1);
    }

    /// Notes that the commit was made.
    pub(crate) fn won(&self) {
        let mut seen = self.seen();
        let round_trip = seen.round_trip;
        let is_in_a_row = seen.last_win.is_some_and(|last| last.elapsed() < round_trip * 3 / 2);
        seen.in_a_row = if is_in_a_row { seen.in_a_row + 1 } else { 0 };
        seen.alone = if seen.losses == 0 { seen.alone.saturating_add(1) } else { 0 };
        seen.others &= seen.alone < ALONE_AFTER;
        seen.losses = 0;
        seen.last_win = Some(Instant::now());
    }

    /// Waits before a commit.
    pub(crate) async fn pause(&self) {
        let pause = self.seen().next_pause();
        if !pause.is_zero() {
            sleep(pause).await;
        }
    }
}

impl Seen {
    fn next_pause(&mut self) -> Duration {
        if self.in_a_row >= IN_A_ROW {
            self.in_a_row = 0;
            return self.round_trip * 2;
        }
        if !self.others {
            return Duration::ZERO;
        }
        // From the half to the whole of a span that halves with each loss.
        let span = self.round_trip / 2_u32.saturating_pow(self.losses);
        span.mul_f64(0.5 + random_part() / 2.0)
    }
}

/// A number from 0 to 1. Without randomness it is 1.
pub(crate) fn random_part() -> f64 {
    getrandom::u32().map_or(1.0, |number| f64::from(number) / f64::from(u32::MAX))
}
