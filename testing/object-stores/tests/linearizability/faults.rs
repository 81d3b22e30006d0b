//! What happens between a process and its bucket.

use std::time::Duration;

use memory_tool_test_servers::{Fault, Faults, Proxy, Refusal, Requests};

use memory_tool_test_object_stores::INDEX;

/// How long a command may take: not long, so that a bucket that falls silent is given up soon, but enough on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_millis(600);

/// Long beside a request, short beside the deadline.
const SHORT: Duration = Duration::from_millis(10);

/// How many of the commands that are to change something meet a [loss](lose_change).
pub(crate) const CHANCE_OF_LOSS: f64 = 0.03;

/// What may happen to the change then: it is made, or is not, or comes to the bucket when its author has given up or is about to.
pub(crate) const LOSSES: &[Fault] = &[
    Fault::CloseUnanswered,
    Fault::CutAnswer,
    Fault::RefuseAfter(Refusal::PreconditionFailed),
    Fault::CutRequest,
    Fault::RefuseBefore(Refusal::Unavailable),
    Fault::Swallow,
    Fault::DelayRequest(DEADLINE.saturating_sub(SHORT)),
    Fault::DelayRequest(DEADLINE.saturating_add(SHORT)),
];

/// How often a command asks for the index at most before it gives up: each time it waits for half of what is left.
const QUESTIONS: usize = 30;

/// Lets a fault happen to the next change of the index, and then no word come from the bucket until the proxy is told to
/// [withdraw](Proxy::withdraw_exact) that. Whoever made the change cannot find out what became of it.
pub(crate) fn lose_change(proxy: &Proxy, fault: Fault) {
    proxy.fault_at(Requests::of("PUT").with(INDEX), 1, fault);
    // The first is for the state to be changed.
    for question in 2..QUESTIONS {
        proxy.fault_at(Requests::of("GET").with(INDEX), question, Fault::Hang);
    }
}

/// Faults of all kinds, which strike one of seven requests.
pub(crate) fn at_random(seed: u64) -> Faults {
    Faults { seed, requests: Requests::all(), chances: chances() }
}

/// The same, and half of the requests come late: whoever takes long meets more changes of others.
pub(crate) fn at_random_and_late(seed: u64) -> Faults {
    let mut faults = at_random(seed);
    faults.chances.push((Fault::DelayRequest(SHORT), 0.5));
    faults
}

/// All kinds of faults, with their probabilities.
pub(crate) fn chances() -> Vec<(Fault, f64)> {
    use Refusal::{Conflict, InternalError, PreconditionFailed, TooManyRequests, Unavailable};
    let mut chances = vec![
        (Fault::CutRequest, 0.01),
        (Fault::CloseUnanswered, 0.01),
        (Fault::ResetUnanswered, 0.01),
        (Fault::CutAnswer, 0.01),
        (Fault::Delay(SHORT), 0.02),
        (Fault::DelayRequest(SHORT), 0.02),
        (Fault::Hang, 0.003),
        (Fault::Swallow, 0.002),
    ];
    for refusal in [Conflict, PreconditionFailed, TooManyRequests, InternalError, Unavailable] {
        chances.extend([(Fault::RefuseBefore(refusal), 0.006), (Fault::RefuseAfter(refusal), 0.006)]);
    }
    chances
}
