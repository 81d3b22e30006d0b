//! Checks known histories of registers and lists, and compares those of five operations with a brute-force search.

#![cfg(test)]

use std::time::Duration;

use memory_tool_test_checker::{Model, Operation, Response, check};

/// A list of numbers. Its last element also serves as a register.
struct Numbers;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Command {
    Read,
    Write(u32),
    /// Compare-and-swap of the last number.
    Swap(u32, u32),
    /// Adds to the last number.
    Add(u32),
    List,
    Push(u32),
}
use Command::{Add, List, Push, Read, Swap, Write};

#[derive(Clone, Debug, PartialEq)]
enum Reply {
    Done,
    Refused,
    Number(u32),
    Numbers(Vec<u32>),
}
use Reply::{Done, Number, Refused};

impl Model for Numbers {
    type State = Vec<u32>;
    type Command = Command;
    type Reply = Reply;

    fn run(&self, state: &Vec<u32>, command: &Command) -> (Reply, Vec<u32>) {
        let last = state.last().copied().unwrap_or(0);
        match *command {
            Read => (Number(last), state.clone()),
            Write(number) => (Done, vec![number]),
            Swap(old, new) if old == last => (Done, vec![new]),
            Swap(..) => (Refused, state.clone()),
            Add(number) => {
                let rest = &state[..state.len().saturating_sub(1)];
                (Done, [rest, &[last + number]].concat())
            }
            List => (Reply::Numbers(state.clone()), state.clone()),
            Push(number) => (Done, [state.as_slice(), &[number]].concat()),
        }
    }
}

type Operations = Vec<Operation<Command, Reply>>;

fn completed(called: u64, responded: u64, command: Command, reply: Reply) -> Operation<Command, Reply> {
    let response = Some(Response { reply, at: Duration::from_secs(responded) });
    Operation { command, called: Duration::from_secs(called), response }
}

fn pending(called: u64, command: Command) -> Operation<Command, Reply> {
    Operation { command, called: Duration::from_secs(called), response: None }
}

fn is_linearizable(history: &Operations) -> bool {
    check(&Numbers, Vec::new(), history).is_ok()
}

/// Each reader sees a valid order, but the two orders contradict each other.
#[test]
fn readers_that_disagree_are_detected() {
    let reads = |first: [u32; 2], second: [u32; 2]| {
        let mut history = vec![completed(0, 10, Write(1), Done), completed(0, 10, Write(2), Done)];
        for reader in [first, second] {
            history.extend([completed(1, 2, Read, Number(reader[0])), completed(3, 4, Read, Number(reader[1]))]);
        }
        history
    };
    assert!(is_linearizable(&reads([1, 2], [1, 2])));
    assert!(is_linearizable(&reads([2, 1], [2, 1])));
    assert!(!is_linearizable(&reads([1, 2], [2, 1])));
}

#[test]
fn lost_updates_are_detected() {
    let pushes = |listed: &[u32]| {
        vec![
            completed(0, 5, Push(1), Done),
            completed(0, 5, Push(2), Done),
            completed(6, 7, List, Reply::Numbers(listed.to_vec())),
        ]
    };
    assert!(is_linearizable(&pushes(&[1, 2])));
    assert!(is_linearizable(&pushes(&[2, 1])));
    for lost in [[1].as_slice(), &[2], &[], &[1, 1, 2]] {
        assert!(!is_linearizable(&pushes(lost)), "{lost:?}");
    }
}

#[test]
fn pending_operations_take_effect_at_once_later_or_never() {
    let read = |numbers: [u32; 3]| {
        let mut history = vec![completed(0, 1, Write(1), Done), pending(2, Write(2))];
        for (second, number) in (3..).step_by(2).zip(numbers) {
            history.push(completed(second, second + 1, Read, Number(number)));
        }
        history
    };
    assert!(is_linearizable(&read([2, 2, 2])));
    assert!(is_linearizable(&read([1, 1, 2])));
    assert!(is_linearizable(&read([1, 1, 1])));
    assert!(!is_linearizable(&read([2, 1, 1])), "the write was undone");
    assert!(!is_linearizable(&read([1, 2, 1])), "the write was undone");
}

#[test]
fn pending_operations_take_effect_once_and_after_their_call() {
    let lists = |called, numbers: &[u32]| {
        vec![
            pending(called, Push(1)),
            completed(2, 3, Push(2), Done),
            completed(4, 5, List, Reply::Numbers(numbers.to_vec())),
        ]
    };
    assert!(is_linearizable(&lists(0, &[1, 2])));
    assert!(is_linearizable(&lists(0, &[2, 1])));
    assert!(is_linearizable(&lists(0, &[2])));
    assert!(!is_linearizable(&lists(0, &[2, 1, 1])));
    assert!(!is_linearizable(&lists(4, &[1, 2])), "it was called after the other push");
    assert!(is_linearizable(&lists(4, &[2, 1])));
    assert!(!is_linearizable(&lists(6, &[2, 1])), "it was called after the list");
}

/// The only valid order requires backtracking to the first choices.
#[test]
fn search_backtracks_to_the_first_choice() {
    let mut history = vec![completed(0, 100, Push(1), Done), completed(0, 100, Push(2), Done)];
    let pushes = (3..40).map(|number| completed(u64::from(number), u64::from(number), Push(number), Done));
    history.extend(pushes);
    for listed in [[2, 1], [1, 2]] {
        let all = listed.into_iter().chain(3..40).collect();
        let mut history = history.clone();
        history.push(completed(101, 102, List, Reply::Numbers(all)));
        assert!(is_linearizable(&history));
    }
    history.push(completed(101, 102, List, Reply::Numbers((3..40).collect())));
    assert!(!is_linearizable(&history));
}

#[test]
fn error_describes_the_longest_prefix() {
    let history = [completed(0, 1, Write(1), Done), completed(6, 7, Read, Number(1)), completed(2, 5, Read, Number(2))];
    let error = check(&Numbers, Vec::new(), &history).unwrap_err();
    assert_eq!(
        (error.ordered, error.candidates.as_slice(), error.state.as_slice()),
        (1, [2].as_slice(), [1].as_slice())
    );
    assert!(
        error.to_string().ends_with("after 1 operations, all candidates for the next one contradict the state: [2]"),
        "{error}"
    );
}

/// Compares the checker with a brute-force search.
#[test]
fn small_histories_match_a_brute_force_search() {
    let (mut linearizable, mut others) = (0, 0);
    for number in 0..60_000 {
        let history = random_history(number);
        let expected = has_valid_order(&history, &mut Vec::new(), &[]);
        assert_eq!(is_linearizable(&history), expected, "{history:?}");
        *if expected { &mut linearizable } else { &mut others } += 1;
    }
    assert!(linearizable > 2_000 && others > 2_000, "{linearizable} {others}");
}

/// Five pseudorandom operations. Some have no response.
fn random_history(number: u64) -> Operations {
    let mut random = number;
    let mut below = |end: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % end
    };
    let mut operation = || {
        let called = below(6);
        let (command, reply) = match below(6) {
            0 => (Read, Number(below(5) as u32)),
            1 => (Write(below(3) as u32), Done),
            2 => (Swap(below(3) as u32, below(3) as u32), if below(3) == 0 { Refused } else { Done }),
            3 => (Add(below(3) as u32), Done),
            4 => (Push(below(3) as u32), Done),
            _ => (List, Reply::Numbers((0..below(4)).map(|_| below(3) as u32).collect())),
        };
        if below(3) == 0 { pending(called, command) } else { completed(called, called + below(5), command, reply) }
    };
    (0..5).map(|_| operation()).collect()
}

/// Whether `order`, which ends in `state`, can be extended to a valid order of all completed operations.
fn has_valid_order(history: &Operations, order: &mut Vec<usize>, state: &[u32]) -> bool {
    let left: Vec<_> = (0..history.len()).filter(|operation| !order.contains(operation)).collect();
    if left.iter().all(|&operation| history[operation].response.is_none()) {
        return true;
    }
    left.iter().any(|&next| {
        let Operation { command, called, response } = &history[next];
        let is_too_early = left.iter().any(|&other| {
            let responded = history[other].response.as_ref().map(|response| response.at);
            other != next && responded.is_some_and(|responded| responded < *called)
        });
        let (reply, state) = Numbers.run(&state.to_vec(), command);
        if is_too_early || response.as_ref().is_some_and(|response| response.reply != reply) {
            return false;
        }
        order.push(next);
        let is_valid = has_valid_order(history, order, &state);
        order.pop();
        is_valid
    })
}
