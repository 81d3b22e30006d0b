//! `[X1]`, `[X2]`, `[X3]`: Clusters of random seeds keep their promises. The failure of a seed names it, and it fails
//! again.

#![cfg(test)]
#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, reason = "a test prints, and fails by panicking")]

use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{available_parallelism, scope};
use std::time::{Duration, Instant};

use memory_tool_test_fixtures::linearizability::Mistake;
use memory_tool_test_fixtures::{Tier, in_full, printed_seed};
use memory_tool_test_simulation::{Run, Stats, simulate};

/// The commands of each task in a part of a run, which are fewer.
const ALL: usize = usize::MAX;

/// A mistake must be detected within this number of seeds.
const MOST_SEEDS_OF_MISTAKE: u64 = 100;

/// The requests at the end of a failed run that are printed.
const LAST_REQUESTS: usize = 200;

/// The number of seeds, and the time after which no further one begins.
fn extent() -> (u64, Duration) {
    match Tier::current() {
        Tier::Default => (50, Duration::MAX),
        Tier::Full => (2_000, Duration::MAX),
        _ => (u64::MAX, Duration::from_secs(5 * 60)),
    }
}

#[test]
fn clusters_keep_their_promises() {
    let (first, (count, time), started, next) = (printed_seed(), extent(), Instant::now(), AtomicU64::new(0));
    let run_seeds = || {
        let mut stats = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count || started.elapsed() >= time {
                return stats;
            }
            let seed = first.wrapping_add(number);
            match run(seed, ALL, false, None) {
                Ok(run) => stats.push(run.stats),
                Err(error) => {
                    next.store(count, Ordering::Relaxed);
                    panic!("{}", describe(seed, error));
                }
            }
        }
    };
    let threads = available_parallelism().map_or(1, usize::from);
    let stats: Vec<Stats> = scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run_seeds)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let sum = |count: fn(&Stats) -> usize| stats.iter().map(count).sum::<usize>();
    let (calls, unknown, failed) = (sum(|it| it.calls), sum(|it| it.unknown), sum(|it| it.failed));
    let (trimmed, removed) = (sum(|it| it.trimmed), sum(|it| it.removed));
    let runs = stats.len();
    println!(
        "{runs} runs with {calls} calls in {:.1?}: {unknown} with an unknown outcome, {failed} failed",
        started.elapsed()
    );
    println!("  {trimmed} commits trimmed, {removed} objects removed");
    let is_enough = calls > 20 * runs && unknown > calls / 200 && trimmed > runs && removed > runs;
    assert!(is_enough || runs < 50, "too little happened");
}

/// A late request brought a checkpoint back between the two that a collection keeps, and it was never collected.
#[test]
fn a_seed_that_found_a_defect_keeps_its_promises() {
    if let Err(error) = run(359, ALL, false, None) {
        panic!("{}", describe(359, error));
    }
}

/// Runs a seed. The error is a defect or a panic.
fn run(seed: u64, most: usize, is_traced: bool, mistake: Option<Mistake>) -> Result<Run, (String, Vec<String>)> {
    let mut run = catch_unwind(|| simulate(seed, most, is_traced, mistake))
        .map_err(|_| ("it panicked".to_owned(), Vec::new()))?;
    match std::mem::replace(&mut run.result, Ok(())) {
        Ok(()) => Ok(run),
        Err(error) => Err((error, run.requests.unwrap_or_default())),
    }
}

/// Describes a failure, with the fewest commands with which it happens.
fn describe(seed: u64, (error, _): (String, Vec<String>)) -> String {
    let shorter = (1..8).find_map(|most| run(seed, most, true, None).err());
    let (error, requests) = shorter.or_else(|| run(seed, ALL, true, None).err()).unwrap_or((error, Vec::new()));
    let last = requests.len().saturating_sub(LAST_REQUESTS);
    format!(
        "seed {seed}: {error}\nset MEMORY_TOOL_TEST_SEED={seed} to repeat it; the last of {} requests:\n{}",
        requests.len(),
        requests[last..].join("\n")
    )
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let first = printed_seed();
    for seed in first..first + in_full(10, 40) {
        let [one, two] = [0, 1].map(|_| simulate(seed, ALL, true, None));
        let (one, two) = (one.requests.unwrap(), two.requests.unwrap());
        let differs = one.iter().zip(&two).position(|(one, two)| one != two);
        assert!(
            differs.is_none() && one.len() == two.len(),
            "seed {seed}: {:?}",
            differs.map(|at| (&one[at], &two[at]))
        );
    }
}

/// A store that breaks a promise is detected, so the other seeds mean something.
#[test]
fn mistakes_are_detected() {
    let first = printed_seed();
    for mistake in Mistake::ALL.into_iter().take(in_full(2, usize::MAX)) {
        let mut seeds = first..first + MOST_SEEDS_OF_MISTAKE;
        let found = seeds.find_map(|seed| Some((seed, run(seed, ALL, false, Some(mistake)).err()?.0)));
        let (seed, error) = found.unwrap_or_else(|| panic!("{mistake:?} was not detected"));
        println!("{mistake:?} in seed {}: {error:.200}", seed - first);
    }
}
