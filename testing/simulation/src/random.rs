//! The random numbers and the clock of this thread, from one seed.

use std::cell::Cell;
use std::ops::Range;
use std::time::{Duration, SystemTime};

use memory_tool_core::{Simulation, simulate};
use tokio::time::Instant;

/// A moment in 2026 at which each run starts.
const START: Duration = Duration::from_secs(1_795_000_000);

thread_local! {
    static STATE: Cell<u64> = const { Cell::new(0) };
    static STARTED: Cell<Option<Instant>> = const { Cell::new(None) };
    static WRONG_BY: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Starts the numbers of a run in this thread.
pub(crate) fn seed(seed: u64) {
    STATE.set(seed);
}

/// Starts the clock of a run, in its runtime. From now on, stores use the clock and the numbers too.
pub(crate) fn start() {
    STARTED.set(Some(Instant::now()));
    WRONG_BY.set(Duration::ZERO);
    simulate(Some(Simulation { now: wrong_now, random: || number() as u8 }));
}

/// Ends the simulation in this thread.
pub(crate) fn stop() {
    simulate(None);
}

/// Makes each look at a clock of a session wrong by up to this time.
pub(crate) fn make_clocks_wrong(by: Duration) {
    WRONG_BY.set(by);
}

/// SplitMix64, whose numbers are independent enough for any seed.
pub(crate) fn number() -> u64 {
    let state = STATE.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    STATE.set(state);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A number in a range.
pub(crate) fn within(range: Range<u64>) -> u64 {
    range.start + number() % (range.end - range.start)
}

/// Whether an event with this probability happens.
pub(crate) fn happens(probability: f64) -> bool {
    (number() >> 11) as f64 / (1_u64 << 53) as f64 <= probability && probability > 0.0
}

/// One of the values.
pub(crate) fn one_of<T: Clone>(values: &[T]) -> T {
    values[within(0..values.len() as u64) as usize].clone()
}

/// A time up to `most`, to the microsecond.
pub(crate) fn time_up_to(most: Duration) -> Duration {
    Duration::from_micros(within(0..most.as_micros() as u64 + 1))
}

/// The time by the clock of the bucket.
pub(crate) fn now() -> SystemTime {
    let elapsed = STARTED.get().map_or(Duration::ZERO, |started| started.elapsed());
    SystemTime::UNIX_EPOCH + START + elapsed
}

/// The time by a clock of a session.
fn wrong_now() -> SystemTime {
    let wrong = WRONG_BY.get();
    if wrong.is_zero() { now() } else { now() - wrong + time_up_to(2 * wrong) }
}
