//! Functions shared by the benchmarks.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#![allow(dead_code, reason = "each benchmark uses a part of it")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

const SIZE: usize = 4_096;

/// The median times of interleaved workloads, so that a slow moment of the machine affects all of them.
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

/// A text of 4 KB with one unique line.
pub(crate) fn text() -> String {
    let mut text = "line of text\n".repeat(SIZE);
    text.truncate(SIZE - 2);
    text + "A\n"
}

/// The old and the new text of an edit, alternating.
pub(crate) fn swap(round: usize) -> (&'static str, &'static str) {
    if round.is_multiple_of(2) { ("A\n", "B\n") } else { ("B\n", "A\n") }
}

/// A directory on the disk: the temporary directory may be in RAM, where flushing is free.
pub(crate) fn target_directory() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}
