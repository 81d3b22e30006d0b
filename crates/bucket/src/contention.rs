//! [`Contention`]: the order of writers in different processes.
//!
//! The bucket accepts one of several creates of a number. A writer that lost must read that commit before its next
//! attempt. Without pauses, the writer nearest to the bucket would win nearly all numbers, because it knows each commit
//! first. Therefore a writer makes room for others:
//!
//! - A writer that lost tries the next number at once. The winner waits a little before its next commit, and so comes
//!   after it. Writers at the same distance take turns.
//! - Before some numbers, writers *rest* for a fixed time, however short their round trips are. Only a writer that is
//!   *behind* continues: it has fewer than half of its share of the last commits, because it is further away.
//!
//! Each commit names its session, so all sessions that read the log agree on the numbers at which they rest.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use memory_tool_core::{lock, random_number};
use tokio::time::{Instant, sleep};

/// The number of commits in which shares are counted.
const RECENT: usize = 64;
/// Writers rest before each number that is a multiple of this, while one of the last commits' writers is behind.
const OFTEN: u64 = 8;
/// The same at other times, because a writer that never wins is not in the log.
const RARELY: u64 = 128;
/// The commits that a writer reads at once after it lost a number: its pause may have been long.
pub(crate) const AHEAD: u64 = 3;
/// How long the log stands still before a rest ends, unless two round trips take longer. In this time, a writer with a
/// round trip of 50 ms can read the log and commit.
const REST: Duration = Duration::from_millis(200);

/// The observations of a session about the writers of the log.
#[derive(Debug)]
pub(crate) struct Contention {
    /// The part of its commits' ids that names this session.
    pub(crate) session: u64,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    /// The smoothed time of a request.
    round_trip: Duration,
    /// The sessions of the last commits.
    recent: VecDeque<u64>,
    /// The number of the last commit, and when it was seen.
    last: Option<(u64, Instant)>,
    /// Whether the next commit has lost its number to another.
    has_lost: bool,
}

impl Contention {
    /// The observations of a session that has seen no commit.
    pub(crate) fn new(session: u64) -> Self {
        let seen = Seen { round_trip: Duration::ZERO, recent: VecDeque::new(), last: None, has_lost: false };
        Self { session, seen: Mutex::new(seen) }
    }

    /// Records the time of a request.
    pub(crate) fn took(&self, time: Duration) {
        let mut seen = lock(&self.seen);
        seen.round_trip = if seen.round_trip.is_zero() { time } else { (seen.round_trip * 7 + time) / 8 };
    }

    /// The smoothed time of a request, or zero before the first one.
    pub(crate) fn round_trip(&self) -> Duration {
        lock(&self.seen).round_trip
    }

    /// Records the next commit of the log.
    pub(crate) fn saw(&self, number: u64, session: u64) {
        let mut seen = lock(&self.seen);
        seen.recent.truncate(RECENT - 1);
        seen.recent.push_front(session);
        seen.last = Some((number, Instant::now()));
        seen.has_lost &= session != self.session;
    }

    /// Records that another writer took the number.
    pub(crate) fn lost(&self) {
        lock(&self.seen).has_lost = true;
    }

    /// How many commits to read at once after the number was lost so many times in a row. Writers at the same distance
    /// make one in the time of a request.
    pub(crate) fn read_ahead(&self, losses: u32) -> u64 {
        match losses {
            2.. if is_behind(&lock(&self.seen).commits(), self.session) => OFTEN,
            _ => AHEAD,
        }
    }

    /// Waits before a commit.
    pub(crate) async fn pause(&self) {
        let pause = lock(&self.seen).next_pause(self.session);
        if !pause.is_zero() {
            sleep(pause).await;
        }
    }
}

impl Seen {
    fn next_pause(&self, session: u64) -> Duration {
        let rest = self.rest_before_next(session);
        if !rest.is_zero() || self.has_lost {
            return rest;
        }
        let has_others = self.recent.iter().take(OFTEN as usize).any(|other| *other != session);
        let span = if has_others { self.round_trip / 2 } else { Duration::ZERO };
        span.mul_f64(0.5 + random_part() / 2.0)
    }

    /// How long a session leaves the next number to others.
    fn rest_before_next(&self, session: u64) -> Duration {
        let commits = self.commits();
        let is_needed = commits.keys().any(|writer| is_behind(&commits, *writer));
        let interval = if is_needed { OFTEN } else { RARELY };
        match self.last {
            Some((number, at))
                if number.saturating_add(1).is_multiple_of(interval) && !is_behind(&commits, session) =>
            {
                REST.max(self.round_trip * 2).saturating_sub(at.elapsed())
            }
            _ => Duration::ZERO,
        }
    }

    /// How many of the last commits each writer made.
    fn commits(&self) -> BTreeMap<u64, usize> {
        self.recent.iter().fold(BTreeMap::new(), |mut commits, writer| {
            *commits.entry(*writer).or_default() += 1;
            commits
        })
    }
}

/// Whether a session made fewer than half of its share of these commits.
fn is_behind(commits: &BTreeMap<u64, usize>, session: u64) -> bool {
    commits.get(&session).unwrap_or(&0) * commits.len() * 2 < commits.values().sum()
}

/// A number from 0 to 1. Without randomness it is 1.
pub(crate) fn random_part() -> f64 {
    random_number().map_or(1.0, |number| number as f64 / u64::MAX as f64)
}
