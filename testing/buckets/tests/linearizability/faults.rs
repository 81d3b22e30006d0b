//! Faults between a process and its bucket.

use std::time::Duration;

use memory_tool_test_servers::{Fault, Faults, Proxy, Refusal, Requests};

use memory_tool_test_buckets::INDEX;

/// The timeout of a command: short, so that commands on a silent bucket fail soon, but enough for a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(600);

/// Long compared with a request, but short compared with the timeout.
const SHORT: Duration = Duration::from_millis(10);

/// The probability that a changing command meets a [loss](lose_change).
pub(crate) const CHANCE_OF_LOSS: f64 = 0.03;

/// The faults of a lost change. The change is applied, or not, or arrives around the time at which its author gives up.
pub(crate) const LOSSES: &[Fault] = &[
    Fault::CloseUnanswered,
    Fault::CutAnswer,
    Fault::RefuseAfter(Refusal::PreconditionFailed),
    Fault::CutRequest,
    Fault::RefuseBefore(Refusal::Unavailable),
    Fault::Swallow,
    Fault::DelayRequest(TIMEOUT.saturating_sub(SHORT)),
    Fault::DelayRequest(TIMEOUT.saturating_add(SHORT)),
];

/// The maximum number of reads of the index before a command gives up. Each read waits for half of the remaining time.
const MAX_READS: usize = 30;

/// Injects a fault into the next change of the index, and makes all later reads of the index hang until
/// [`Proxy::withdraw_exact`]. The author of the change cannot learn its outcome.
pub(crate) fn lose_change(proxy: &Proxy, fault: Fault) {
    proxy.fault_at(Requests::of("PUT").with(INDEX), 1, fault);
    // The first read gets the current state.
    for number in 2..MAX_READS {
        proxy.fault_at(Requests::of("GET").with(INDEX), number, Fault::Hang);
    }
}

/// Returns random faults of all kinds, on one of seven requests.
pub(crate) fn at_random(seed: u64) -> Faults {
    Faults { seed, requests: Requests::all(), chances: chances() }
}

/// Returns the same faults, and delays half of the requests, which causes more conflicts.
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
