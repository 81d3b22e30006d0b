//! Two sessions at once: what one does at any point of what the other does, comes to one after the other.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use memory_tool_test_fixtures::by_tier;

use super::harness::{Mishap, Probe, TestClock};
use super::interruption::{Action, Contents, Tool, actions, memory, poll_once, seen};
use crate::support::block_on;

/// What the two answer, and what is seen then.
#[derive(Debug, PartialEq)]
struct Outcome {
    answers: [String; 2],
    seen: [Contents; 2],
}

/// Whether a session knows the times already.
#[derive(Clone, Copy, Debug)]
enum Knowledge {
    None,
    OfBefore,
}

struct Scene {
    clock: TestClock,
    probe: Arc<Probe>,
    first: Tool,
    second: Tool,
}

impl Scene {
    fn new(knowledge: Knowledge) -> Self {
        let clock = TestClock::new();
        let inner = memory(&clock);
        let probe = Arc::new(Probe::over(inner));
        let first = clock.open(Arc::clone(&probe));
        let second = clock.open(Arc::new(Probe::over(Arc::clone(&probe.inner))));
        if let Knowledge::OfBefore = knowledge {
            for tool in [&first, &second] {
                block_on(Action::List.run(tool));
            }
        }
        Self { clock, probe, first, second }
    }

    fn outcome(&self, answers: [String; 2]) -> Outcome {
        Outcome { answers, seen: seen(&self.clock, &self.probe.inner) }
    }
}

#[test]
fn an_operation_amid_another_comes_before_or_after_it() {
    let step = by_tier(4, 1, 1);
    let mut stops = 0;
    for knowledge in [Knowledge::None, Knowledge::OfBefore] {
        for (number, outer) in actions().into_iter().enumerate() {
            // The default tier tries every fourth pair.
            for inner in actions().into_iter().skip(number % step).step_by(step) {
                stops += interleave(knowledge, &outer, &inner);
            }
        }
    }
    assert!(stops > 5_000 / step, "only {stops} points were tried");
}

/// Runs `inner` at each point of `outer`. Gives how many there are.
fn interleave(knowledge: Knowledge, outer: &Action, inner: &Action) -> usize {
    let scene = Scene::new(knowledge);
    let answer = block_on(outer.run(&scene.first));
    let answers = [answer, block_on(inner.run(&scene.second))];
    let before = scene.outcome(answers);

    let scene = Scene::new(knowledge);
    let answer = block_on(inner.run(&scene.second));
    let answers = [block_on(outer.run(&scene.first)), answer];
    let after = scene.outcome(answers);

    for number in 0.. {
        let scene = Scene::new(knowledge);
        scene.probe.arm(number, Mishap::StopBefore);
        let mut running = pin!(outer.run(&scene.first));
        if poll_once(running.as_mut()).is_ready() {
            return number;
        }
        let answer = block_on(inner.run(&scene.second));
        let Poll::Ready(first) = poll_once(running) else { panic!("it stops once") };
        let outcome = scene.outcome([first, answer]);
        assert!(
            outcome == before || outcome == after,
            "{inner:?} at point {number} of {outer:?} comes to\n{outcome:#?}\ninstead of\n{before:#?}\nor\n{after:#?}"
        );
    }
    unreachable!("an operation ends")
}
