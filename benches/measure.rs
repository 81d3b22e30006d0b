//! What the benchmarks share.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#![allow(dead_code, reason = "each benchmark uses a part of it")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

const SIZE: usize = 4_096;

/// The median times of pieces of work that take turns, so that a slow moment of the machine hits all of them.
pub(crate) fn medians<const N: usize>(rounds: usize, works: [&dyn Fn(usize); N]) -> [Duration; N] {
    let mut times = [const { Vec::new() }; N];
    for round in 0..rounds {
        for (work, times) in works.iter().zip(&mut times) {
            times.push(time(|| work(round)));
        }
    }
    times.map(median)
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// A text of 4 KB with one line that is unlike the others.
pub(crate) fn text() -> String {
    let mut text = "line of text\n".repeat(SIZE);
    text.truncate(SIZE - 2);
    text + "A\n"
}

/// The two texts that an edit swaps, in turn.
pub(crate) fn swap(round: usize) -> (&'static str, &'static str) {
    if round.is_multiple_of(2) { ("A\n", "B\n") } else { ("B\n", "A\n") }
}

/// On the disk that is built on: the system's temporary directory may be in RAM, where nothing is ever flushed.
pub(crate) fn target_directory() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}
