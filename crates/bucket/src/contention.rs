//! [`Contention`]: the order of writers in different processes.
//!
//! The bucket accepts one of several creates of a number. The writers that lost read that commit and try the next
//! number at once, in the order of their refusals. The winner waits a little before its next commit, and so comes after
//! them. Therefore writers take turns, and a writer without competitors barely waits. A writer that always wins cannot
//! see that others lose. It therefore always waits for a random, much shorter time, and leaves room after several
//! commits in a row.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// The number of commits in a row after which a writer leaves room for others. Writers that always lose cannot be seen.
const IN_A_ROW: u32 = 4;
/// The number of commits without a sign of other writers after which a writer assumes that it has no competitors.
const ALONE_AFTER: u32 = 8;

/// The observations of a writer about others.
#[derive(Debug, Default)]
pub(crate) struct Contention(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// The smoothed time of a request.
    round_trip: Duration,
    /// Whether other writers were seen recently.
    others: bool,
    /// The number of commits of this writer since then.
    alone: u32,
    /// Whether the next commit has lost its number to another.
    has_lost: bool,
    /// The number of commits in a row.
    in_a_row: u32,
    last_win: Option<Instant>,
}

impl Contention {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the time of a request.
    pub(crate) fn took(&self, time: Duration) {
        let mut seen = self.seen();
        seen.round_trip = if seen.round_trip.is_zero() { time } else { (seen.round_trip * 7 + time) / 8 };
    }

    /// Records that another writer writes.
    pub(crate) fn met(&self) {
        let mut seen = self.seen();
        (seen.others, seen.alone, seen.in_a_row) = (true, 0, 0);
    }

    /// Records that another writer took the number.
    pub(crate) fn lost(&self) {
        self.met();
        self.seen().has_lost = true;
    }

    /// Records that the commit was made.
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
