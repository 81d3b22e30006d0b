//! Histories that are known to be linearizable or not, of registers and of lists.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use memory_tool_test_checker::{Answer, Model, Operation, check};

/// A list of numbers, of which a register is the last.
struct Numbers;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Command {
    Read,
    Write(u32),
    /// Writes if the last number is this one.
    Swap(u32, u32),
    /// Reads all.
    List,
    /// Adds a number to the list.
    Push(u32),
}
use Command::{List, Push, Read, Swap, Write};

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
            List => (Reply::Numbers(state.clone()), state.clone()),
            Push(number) => (Done, [state.as_slice(), &[number]].concat()),
        }
    }
}

type Operations = Vec<Operation<Command, Reply>>;

/// An operation that was answered.
fn told(called: u64, answered: u64, command: Command, reply: Reply) -> Operation<Command, Reply> {
    let answer = Some(Answer { reply, at: Duration::from_secs(answered) });
    Operation { command, called: Duration::from_secs(called), answer }
}

/// An operation whose outcome is unknown.
fn untold(called: u64, command: Command) -> Operation<Command, Reply> {
    Operation { command, called: Duration::from_secs(called), answer: None }
}

fn is_linearizable(history: &Operations) -> bool {
    check(&Numbers, Vec::new(), history).is_ok()
}

#[test]
fn nothing_and_one_after_another() {
    assert!(is_linearizable(&vec![]));
    assert!(is_linearizable(&vec![told(0, 1, Write(1), Done), told(2, 3, Read, Number(1))]));
    assert!(!is_linearizable(&vec![told(0, 1, Write(1), Done), told(2, 3, Read, Number(2))]));
}

#[test]
fn a_stale_read() {
    let writes = vec![told(0, 1, Write(1), Done), told(2, 3, Write(2), Done)];
    let and_read = |called, number| [writes.clone(), vec![told(called, 5, Read, Number(number))]].concat();
    assert!(!is_linearizable(&and_read(4, 1)));
    assert!(is_linearizable(&and_read(4, 2)));
    assert!(is_linearizable(&and_read(3, 1)), "the read was called when the write was not answered yet");
}

#[test]
fn reads_beside_a_write_see_it_or_not_but_never_undone() {
    let write = told(0, 10, Write(1), Done);
    let reads = |first, second| vec![write.clone(), told(1, 2, Read, Number(first)), told(3, 4, Read, Number(second))];
    assert!(is_linearizable(&reads(0, 0)));
    assert!(is_linearizable(&reads(0, 1)));
    assert!(is_linearizable(&reads(1, 1)));
    assert!(!is_linearizable(&reads(1, 0)));
}

/// Two readers who see two writes in opposite orders: each client for itself sees nothing wrong.
#[test]
fn two_readers_who_disagree() {
    let reads = |first: [u32; 2], second: [u32; 2]| {
        let mut history = vec![told(0, 10, Write(1), Done), told(0, 10, Write(2), Done)];
        for reader in [first, second] {
            history.extend([told(1, 2, Read, Number(reader[0])), told(3, 4, Read, Number(reader[1]))]);
        }
        history
    };
    assert!(is_linearizable(&reads([1, 2], [1, 2])));
    assert!(is_linearizable(&reads([2, 1], [2, 1])));
    assert!(!is_linearizable(&reads([1, 2], [2, 1])));
}

#[test]
fn a_lost_update() {
    let pushes = |listed: &[u32]| {
        vec![told(0, 5, Push(1), Done), told(0, 5, Push(2), Done), told(6, 7, List, Reply::Numbers(listed.to_vec()))]
    };
    assert!(is_linearizable(&pushes(&[1, 2])));
    assert!(is_linearizable(&pushes(&[2, 1])));
    for lost in [[1].as_slice(), &[2], &[], &[1, 1, 2]] {
        assert!(!is_linearizable(&pushes(lost)), "{lost:?}");
    }
}

#[test]
fn of_two_swaps_one_wins() {
    let swaps = |first, second| vec![told(0, 5, Swap(0, 1), first), told(0, 5, Swap(0, 2), second)];
    assert!(is_linearizable(&swaps(Done, Refused)));
    assert!(is_linearizable(&swaps(Refused, Done)));
    assert!(!is_linearizable(&swaps(Done, Done)));
    assert!(!is_linearizable(&swaps(Refused, Refused)));
}

#[test]
fn an_unknown_outcome_may_come_at_once_late_or_never() {
    let read = |numbers: [u32; 3]| {
        let mut history = vec![told(0, 1, Write(1), Done), untold(2, Write(2))];
        for (second, number) in (3..).step_by(2).zip(numbers) {
            history.push(told(second, second + 1, Read, Number(number)));
        }
        history
    };
    assert!(is_linearizable(&read([2, 2, 2])));
    assert!(is_linearizable(&read([1, 1, 2])));
    assert!(is_linearizable(&read([1, 1, 1])));
    assert!(!is_linearizable(&read([2, 1, 1])), "it came, and went again");
    assert!(!is_linearizable(&read([1, 2, 1])), "it came, and went again");
}

#[test]
fn an_unknown_outcome_comes_once_and_not_before_its_call() {
    let lists = |called, numbers: &[u32]| {
        vec![untold(called, Push(1)), told(2, 3, Push(2), Done), told(4, 5, List, Reply::Numbers(numbers.to_vec()))]
    };
    assert!(is_linearizable(&lists(0, &[1, 2])));
    assert!(is_linearizable(&lists(0, &[2, 1])));
    assert!(is_linearizable(&lists(0, &[2])));
    assert!(!is_linearizable(&lists(0, &[2, 1, 1])));
    assert!(!is_linearizable(&lists(4, &[1, 2])), "it was called when the other was there");
    assert!(is_linearizable(&lists(4, &[2, 1])));
    assert!(!is_linearizable(&lists(6, &[2, 1])), "it was called when the list was read");
}

/// Whoever is told that nothing was changed has no operation in the history.
#[test]
fn what_was_reported_to_have_changed_nothing_took_effect() {
    assert!(!is_linearizable(&vec![told(0, 1, Write(1), Done), told(4, 5, Read, Number(2))]));
}

/// An order exists only if the first choices are taken back.
#[test]
fn a_wrong_choice_is_found_out_late() {
    let mut history = vec![told(0, 100, Push(1), Done), told(0, 100, Push(2), Done)];
    let pushes = (3..40).map(|number| told(u64::from(number), u64::from(number), Push(number), Done));
    history.extend(pushes);
    for listed in [[2, 1], [1, 2]] {
        let all = listed.into_iter().chain(3..40).collect();
        let mut history = history.clone();
        history.push(told(101, 102, List, Reply::Numbers(all)));
        assert!(is_linearizable(&history));
    }
    history.push(told(101, 102, List, Reply::Numbers((3..40).collect())));
    assert!(!is_linearizable(&history));
}

#[test]
fn it_is_said_where_the_longest_order_ends() {
    let history = [told(0, 1, Write(1), Done), told(6, 7, Read, Number(1)), told(2, 5, Read, Number(2))];
    let error = check(&Numbers, Vec::new(), &history).unwrap_err();
    assert_eq!((error.explained, error.stuck.as_slice(), error.state.as_slice()), (1, [2].as_slice(), [1].as_slice()));
    assert!(error.to_string().ends_with("after 1, none of [2] can be next"), "{error}");
}

/// Every history of a few operations is judged as trying all orders judges it.
#[test]
fn small_histories_are_judged_as_by_trying_all_orders() {
    let (mut linearizable, mut others) = (0, 0);
    for number in 0..20_000 {
        let history = made_up(number);
        let expected = some_order_explains(&history, &mut Vec::new(), &[]);
        assert_eq!(is_linearizable(&history), expected, "{history:?}");
        *if expected { &mut linearizable } else { &mut others } += 1;
    }
    assert!(linearizable > 2_000 && others > 2_000, "{linearizable} {others}");
}

/// Four operations that follow from a number.
fn made_up(number: u64) -> Operations {
    let mut random = number;
    let mut below = |end: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % end
    };
    let mut operation = || {
        let called = below(6);
        let (command, reply) = match below(4) {
            0 => (Read, Number(below(3) as u32)),
            1 => (Write(below(3) as u32), Done),
            2 => (Swap(below(3) as u32, below(3) as u32), if below(3) == 0 { Refused } else { Done }),
            _ => (Write(below(3) as u32), Done),
        };
        if below(5) == 0 { untold(called, command) } else { told(called, called + below(5), command, reply) }
    };
    (0..4).map(|_| operation()).collect()
}

/// Whether `order`, whose last state is `state`, can be continued to one of all operations that were answered.
fn some_order_explains(history: &Operations, order: &mut Vec<usize>, state: &[u32]) -> bool {
    let left: Vec<_> = (0..history.len()).filter(|operation| !order.contains(operation)).collect();
    if left.iter().all(|&operation| history[operation].answer.is_none()) {
        return true;
    }
    left.iter().any(|&next| {
        let Operation { command, called, answer } = &history[next];
        let is_too_early = left.iter().any(|&other| {
            let answered = history[other].answer.as_ref().map(|answer| answer.at);
            other != next && answered.is_some_and(|answered| answered < *called)
        });
        let (reply, state) = Numbers.run(&state.to_vec(), command);
        if is_too_early || answer.as_ref().is_some_and(|answer| answer.reply != reply) {
            return false;
        }
        order.push(next);
        let explains = some_order_explains(history, order, &state);
        order.pop();
        explains
    })
}
