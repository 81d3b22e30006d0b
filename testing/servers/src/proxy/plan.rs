//! [`Plan`]: which fault happens to which request.

use sha2::{Digest as _, Sha256};

use super::fault::Fault;

/// Some of the requests: all, until it is narrowed down.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Requests {
    method: Option<String>,
    part: String,
}

impl Requests {
    /// All requests.
    pub fn all() -> Self {
        Self::default()
    }

    /// Those of one method, such as `PUT`.
    pub fn of(method: impl Into<String>) -> Self {
        Self { method: Some(method.into()), ..Self::default() }
    }

    /// Those whose path or query contains this, in the form in which they are sent.
    #[must_use]
    pub fn with(self, part: impl Into<String>) -> Self {
        Self { part: part.into(), ..self }
    }

    pub(super) fn contain(&self, method: &str, target: &str) -> bool {
        self.method.as_deref().is_none_or(|only| only == method) && target.contains(&self.part)
    }
}

/// Faults that happen at random, but to the same requests whenever the seed is the same and the requests come in the same
/// order.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "tests fill it in")]
pub struct Faults {
    /// What the choices follow from.
    pub seed: u64,
    /// The requests that may be struck.
    pub requests: Requests,
    /// What may happen to each, with its probability. Together they are at most 1.
    pub chances: Vec<(Fault, f64)>,
}

/// All that is to happen.
#[derive(Debug, Default)]
pub(super) struct Plan {
    exact: Vec<Exact>,
    random: Option<Random>,
}

/// A fault of one request.
#[derive(Debug)]
struct Exact {
    requests: Requests,
    /// How many such requests are still to come, the struck one included.
    remaining: usize,
    fault: Fault,
}

#[derive(Debug)]
struct Random {
    faults: Faults,
    seen: u64,
}

impl Plan {
    pub(super) fn add(&mut self, requests: Requests, n: usize, fault: Fault) {
        self.exact.push(Exact { requests, remaining: n.max(1), fault });
    }

    pub(super) fn randomize(&mut self, faults: Faults) {
        self.random = Some(Random { faults, seen: 0 });
    }

    pub(super) fn withdraw_exact(&mut self) {
        self.exact.clear();
    }

    /// What happens to the request that comes now. Everything counts it, whatever that is.
    pub(super) fn next(&mut self, method: &str, target: &str) -> Option<Fault> {
        let random = self.random.as_mut().and_then(|random| random.next(method, target));
        let mut exact = None;
        self.exact.retain_mut(|one| {
            one.remaining -= usize::from(one.requests.contain(method, target));
            if one.remaining == 0 {
                exact = exact.or(Some(one.fault));
            }
            one.remaining > 0
        });
        exact.or(random)
    }
}

impl Random {
    fn next(&mut self, method: &str, target: &str) -> Option<Fault> {
        let Faults { seed, requests, chances } = &self.faults;
        if !requests.contain(method, target) {
            return None;
        }
        self.seen += 1;
        let mut point = point(*seed, self.seen);
        let strikes = |&&(_, probability): &&(Fault, f64)| {
            point -= probability;
            point < 0.0
        };
        chances.iter().find(strikes).map(|&(fault, _)| fault)
    }
}

/// A number of [0, 1), evenly spread. A digest rather than a generator of random numbers, none of which promises the same
/// sequence in its next version.
fn point(seed: u64, number: u64) -> f64 {
    let digest = Sha256::new().chain_update(seed.to_le_bytes()).chain_update(number.to_le_bytes()).finalize();
    let bits = digest.iter().take(4).fold(0, |bits: u32, byte| bits << 8 | u32::from(*byte));
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_named_request_is_struck() {
        let mut plan = Plan::default();
        plan.add(Requests::of("PUT").with("key"), 2, Fault::Hang);
        plan.add(Requests::all(), 5, Fault::CutAnswer);
        plan.add(Requests::of("PUT"), 4, Fault::ResetUnanswered); // too late: this request is struck already
        let requests = [("PUT", "/key"), ("GET", "/key"), ("PUT", "/other"), ("PUT", "/key"), ("PUT", "/key")];
        let faults = requests.map(|(method, target)| plan.next(method, target));
        assert_eq!(faults, [None, None, None, Some(Fault::Hang), Some(Fault::CutAnswer)]);
        assert_eq!(plan.next("PUT", "/key"), None);
    }

    #[test]
    fn what_was_asked_for_can_be_withdrawn() {
        let mut plan = Plan::default();
        plan.randomize(Faults { seed: 1, requests: Requests::all(), chances: vec![(Fault::Hang, 1.0)] });
        plan.add(Requests::all(), 1, Fault::CutAnswer);
        plan.withdraw_exact();
        assert_eq!(plan.next("GET", "/"), Some(Fault::Hang));
    }

    #[test]
    fn a_fault_of_a_named_request_comes_before_one_at_random() {
        let mut plan = Plan::default();
        plan.randomize(Faults { seed: 1, requests: Requests::all(), chances: vec![(Fault::Hang, 1.0)] });
        plan.add(Requests::all(), 2, Fault::CutAnswer);
        let faults = [(); 3].map(|()| plan.next("PUT", "/"));
        assert_eq!(faults, [Some(Fault::Hang), Some(Fault::CutAnswer), Some(Fault::Hang)]);
    }

    #[test]
    fn chances_are_kept_and_a_seed_repeats_itself() {
        let faults = |seed| {
            let chances = vec![(Fault::Hang, 0.1), (Fault::CutAnswer, 0.3)];
            let mut plan = Plan::default();
            plan.randomize(Faults { seed, requests: Requests::of("PUT"), chances });
            assert_eq!(plan.next("GET", "/"), None);
            (0..10_000).map(|_| plan.next("PUT", "/")).collect::<Vec<_>>()
        };
        let count = |fault| faults(1).iter().filter(|happened| **happened == fault).count();
        assert!((900..1_100).contains(&count(Some(Fault::Hang))), "{}", count(Some(Fault::Hang)));
        assert!((2_850..3_150).contains(&count(Some(Fault::CutAnswer))), "{}", count(Some(Fault::CutAnswer)));
        assert_eq!(faults(1), faults(1));
        assert_ne!(faults(1), faults(2));
    }
}
