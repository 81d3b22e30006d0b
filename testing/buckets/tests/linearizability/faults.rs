//! Faults between a process and its bucket.

use std::time::Duration;

use memory_tool_test_servers::{Fault, Faults, Proxy, Refusal, Requests};

use memory_tool_test_buckets::COMMIT;

/// The least timeout of a command: short, so that commands on a silent bucket fail soon.
const TIMEOUT: Duration = Duration::from_millis(600);

/// The timeout of a command in times that a process takes to start, so that it is enough for a busy machine.
const PATIENCE: u32 = 2;

/// The timeout of the collector, which makes many requests in competition with the others, in timeouts of a command.
pub(crate) const PATIENCE_OF_COLLECTOR: u32 = 5;

/// Returns the timeout of a command where a process takes this time to start.
pub(crate) fn timeout(start: Duration) -> Duration {
    TIMEOUT.max(start * PATIENCE)
}

/// Long compared with a request, but short compared with the timeout.
const SHORT: Duration = Duration::from_millis(10);

/// The probability that a changing command meets a [loss](lose_change).
pub(crate) const CHANCE_OF_LOSS: f64 = 0.03;

/// Returns the faults of a lost change. The change is applied, or not, or arrives around the timeout of its author.
pub(crate) fn losses(timeout: Duration) -> Vec<Fault> {
    vec![
        Fault::CloseUnanswered,
        Fault::CutAnswer,
        Fault::RefuseAfter(Refusal::PreconditionFailed),
        Fault::CutRequest,
        Fault::RefuseBefore(Refusal::Unavailable),
        Fault::Swallow,
        Fault::DelayRequest(timeout.saturating_sub(SHORT)),
        Fault::DelayRequest(timeout.saturating_add(SHORT)),
        Fault::DelayRequest(LATE[0]),
        Fault::DelayRequest(LATE[1]),
    ]
}

/// How late requests arrive, some of them after all commands.
const LATE: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(10), Duration::from_secs(45)];

/// Injects a fault into the next commit, and makes all later reads of commits hang until [`Proxy::withdraw_exact`]. The
/// author of the commit cannot learn its outcome.
pub(crate) fn lose_change(proxy: &Proxy, fault: Fault) {
    proxy.fault_and_silence(Requests::of("PUT").with(COMMIT), fault, Requests::of("GET").with(COMMIT));
}

/// Returns random faults of all kinds, on one of six requests.
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
        (Fault::RepeatRequest(SHORT), 0.01),
        (Fault::Hang, 0.003),
        (Fault::Swallow, 0.002),
    ];
    for late in LATE {
        chances.extend([(Fault::DelayRequest(late), 0.0005), (Fault::RepeatRequest(late), 0.002)]);
    }
    for refusal in [Conflict, PreconditionFailed, TooManyRequests, InternalError, Unavailable] {
        chances.extend([(Fault::RefuseBefore(refusal), 0.006), (Fault::RefuseAfter(refusal), 0.006)]);
    }
    chances
}
