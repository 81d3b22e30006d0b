//! Two concurrent sessions. An operation at any point of another one must have the same result as before or after it.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use memory_tool_test_fixtures::by_tier;

use super::harness::{Fault, Probe, TestClock};
use super::interruption::{Action, Contents, Tool, actions, memory, poll_once, visible_files};
use crate::support::block_on;

/// The results of both operations, and the visible files after them.
#[derive(Debug, PartialEq)]
struct Outcome {
    results: [String; 2],
    visible: [Contents; 2],
}

/// Whether the sessions have cached the access times.
#[derive(Clone, Copy, Debug)]
enum Cache {
    Empty,
    Filled,
}

struct Scene {
    clock: TestClock,
    probe: Arc<Probe>,
    first: Tool,
    second: Tool,
}

impl Scene {
    fn new(cache: Cache) -> Self {
        let clock = TestClock::new();
        let inner = memory(&clock);
        let probe = Arc::new(Probe::over(inner));
        let first = clock.open(Arc::clone(&probe));
        let second = clock.open(Arc::new(Probe::over(Arc::clone(&probe.inner))));
        if let Cache::Filled = cache {
            for tool in [&first, &second] {
                block_on(Action::List.run(tool));
            }
        }
        Self { clock, probe, first, second }
    }

    fn outcome(&self, results: [String; 2]) -> Outcome {
        Outcome { results, visible: visible_files(&self.clock, &self.probe.inner) }
    }
}

#[test]
fn concurrent_operations_have_a_sequential_result() {
    let step = by_tier(4, 1);
    let mut stops = 0;
    for cache in [Cache::Empty, Cache::Filled] {
        for (number, outer) in actions().into_iter().enumerate() {
            // Short tiers try a quarter of the pairs.
            for inner in actions().into_iter().skip(number % step).step_by(step) {
                stops += interleave(cache, &outer, &inner);
            }
        }
    }
    assert!(stops > 5_000 / step, "only {stops} points were tried");
}

/// Runs `inner` at each point of `outer`. Returns the number of points.
fn interleave(cache: Cache, outer: &Action, inner: &Action) -> usize {
    let scene = Scene::new(cache);
    let result = block_on(outer.run(&scene.first));
    let results = [result, block_on(inner.run(&scene.second))];
    let before = scene.outcome(results);

    let scene = Scene::new(cache);
    let result = block_on(inner.run(&scene.second));
    let results = [block_on(outer.run(&scene.first)), result];
    let after = scene.outcome(results);

    for number in 0.. {
        let scene = Scene::new(cache);
        scene.probe.arm(number, Fault::StopBefore);
        let mut running = pin!(outer.run(&scene.first));
        if poll_once(running.as_mut()).is_ready() {
            return number;
        }
        let result = block_on(inner.run(&scene.second));
        let Poll::Ready(first) = poll_once(running) else { panic!("it stopped twice") };
        let outcome = scene.outcome([first, result]);
        assert!(
            outcome == before || outcome == after,
            "{inner:?} at point {number} of {outer:?}: {outcome:#?}\nexpected\n{before:#?}\nor\n{after:#?}"
        );
    }
    unreachable!()
}
