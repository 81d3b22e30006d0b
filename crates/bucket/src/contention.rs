//! [`Contention`]: who writes next, if several writers of different processes want to.
//!
//! Of several creates of one number the bucket takes one. All who lost read that commit and try the next number at once, in
//! the order in which they were refused. Whoever wrote comes after them, if it waits a little. So the writers take turns, and
//! nothing waits while nobody writes. A writer that always wins cannot see that others lose, so it always waits for a
//! random, much shorter time, and leaves room after several commits without a read in between.

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
    /// Whether others were seen to write lately.
    others: bool,
    /// How many commits of this writer were made since then.
    alone: u32,
    /// Whether the next commit has lost its number to another.
    has_lost: bool,
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

    /// Notes that somebody else writes.
    pub(crate) fn met(&self) {
        let mut seen = self.seen();
        (seen.others, seen.alone, seen.in_a_row) = (true, 0, 0);
    }

    /// Notes that somebody else took the number.
    pub(crate) fn lost(&self) {
        self.met();
        self.seen().has_lost = true;
    }

    /// Notes that the commit was made.
    pub(crate) fn won(&self) {
        let mut seen = self.seen();
        let round_trip = seen.round_trip;
        let is_in_a_row = seen.last_win.is_some_and(|last| last.elapsed() < round_trip * 3 / 2);
        seen.in_a_row = if is_in_a_row { seen.in_a_row + 1 } else { 0 };
        seen.alone = if seen.has_lost { 0 } else { seen.alone.saturating_add(1) };
        seen.others &= seen.alone < ALONE_AFTER;
        seen.has_lost = false;
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
        if self.has_lost {
            return Duration::ZERO;
        }
        let span = if self.others { self.round_trip / 2 } else { self.round_trip / 8 };
        span.mul_f64(if self.others { 0.5 + random_part() / 2.0 } else { random_part() })
    }
}

/// A number from 0 to 1. Without randomness it is 1.
pub(crate) fn random_part() -> f64 {
    getrandom::u32().map_or(1.0, |number| f64::from(number) / f64::from(u32::MAX))
}
