//! [`Plan`]: assigns faults to requests.

use sha2::{Digest as _, Sha256};

use super::Record;
use super::fault::Fault;

/// A filter for requests.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Requests {
    method: Option<String>,
    part: String,
}

impl Requests {
    /// Matches all requests.
    pub fn all() -> Self {
        Self::default()
    }

    /// Matches requests of one method, such as `PUT`.
    pub fn of(method: impl Into<String>) -> Self {
        Self { method: Some(method.into()), ..Self::default() }
    }

    /// Matches only requests whose encoded path or query contains `part`. An encoded slash counts as a slash, because
    /// Google's client encodes them.
    #[must_use]
    pub fn with(self, part: impl Into<String>) -> Self {
        Self { part: part.into(), ..self }
    }

    pub(super) fn matches(&self, method: &str, target: &str) -> bool {
        self.method.as_deref().is_none_or(|only| only == method) && target.replace("%2F", "/").contains(&self.part)
    }

    /// Whether it matches a recorded request.
    pub fn include(&self, record: &Record) -> bool {
        self.matches(&record.method, &record.target)
    }
}

/// Random faults. They are deterministic for a seed and a sequence of requests.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "tests fill it in")]
pub struct Faults {
    /// The seed of the choices.
    pub seed: u64,
    /// The requests that can have a fault.
    pub requests: Requests,
    /// The faults with their probabilities. The sum is at most 1.
    pub chances: Vec<(Fault, f64)>,
}

/// The planned faults.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    exact: Vec<Exact>,
    /// Requests that get no response.
    silenced: Vec<Requests>,
    random: Option<Random>,
}

#[derive(Debug)]
struct Exact {
    requests: Requests,
    /// The number of matching requests until the fault, including the faulty one.
    remaining: usize,
    fault: Fault,
    /// The requests that get no response from then on.
    then_silences: Option<Requests>,
}

#[derive(Debug)]
struct Random {
    faults: Faults,
    seen: u64,
}

impl Plan {
    pub(crate) fn add(&mut self, requests: Requests, n: usize, fault: Fault) {
        self.exact.push(Exact { requests, remaining: n.max(1), fault, then_silences: None });
    }

    pub(super) fn add_with_silence(&mut self, requests: Requests, fault: Fault, silenced: Requests) {
        self.exact.push(Exact { requests, remaining: 1, fault, then_silences: Some(silenced) });
    }

    pub(crate) fn randomize(&mut self, faults: Faults) {
        self.random = Some(Random { faults, seen: 0 });
    }

    pub(super) fn withdraw_exact(&mut self) {
        self.exact.clear();
        self.silenced.clear();
    }

    /// Returns the fault of the next request. All planned faults count the request.
    pub(crate) fn next(&mut self, method: &str, target: &str) -> Option<Fault> {
        let random = self.random.as_mut().and_then(|random| random.next(method, target));
        let is_silenced = self.silenced.iter().any(|silenced| silenced.matches(method, target));
        let mut exact = is_silenced.then_some(Fault::Hang);
        let silenced = &mut self.silenced;
        self.exact.retain_mut(|one| {
            one.remaining -= usize::from(one.requests.matches(method, target));
            if one.remaining == 0 {
                exact = exact.or(Some(one.fault));
                silenced.extend(one.then_silences.take());
            }
            one.remaining > 0
        });
        exact.or(random)
    }
}

impl Random {
    fn next(&mut self, method: &str, target: &str) -> Option<Fault> {
        let Faults { seed, requests, chances } = &self.faults;
        if !requests.matches(method, target) {
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

/// Returns a uniform number in [0, 1). Uses a digest, because random number generators may change their sequence
/// between versions.
fn point(seed: u64, number: u64) -> f64 {
    let digest = Sha256::new().chain_update(seed.to_le_bytes()).chain_update(number.to_le_bytes()).finalize();
    let bits = digest.iter().take(4).fold(0, |bits: u32, byte| bits << 8 | u32::from(*byte));
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_affects_only_the_selected_request() {
        let mut plan = Plan::default();
        plan.add(Requests::of("PUT").with("key"), 2, Fault::Hang);
        plan.add(Requests::all(), 5, Fault::CutAnswer);
        plan.add(Requests::of("PUT"), 4, Fault::ResetUnanswered); // without effect: this request already has a fault
        let requests = [("PUT", "/key"), ("GET", "/key"), ("PUT", "/other"), ("PUT", "/key"), ("PUT", "/key")];
        let faults = requests.map(|(method, target)| plan.next(method, target));
        assert_eq!(faults, [None, None, None, Some(Fault::Hang), Some(Fault::CutAnswer)]);
        assert_eq!(plan.next("PUT", "/key"), None);
    }

    #[test]
    fn silence_begins_after_the_fault_and_can_be_withdrawn() {
        let mut plan = Plan::default();
        plan.add_with_silence(Requests::of("PUT").with("/key"), Fault::CutAnswer, Requests::of("GET"));
        let requests = [("GET", "/a%2Fkey"), ("PUT", "/a%2Fkey"), ("GET", "/a"), ("GET", "/a"), ("PUT", "/a/key")];
        let faults = requests.map(|(method, target)| plan.next(method, target));
        assert_eq!(faults, [None, Some(Fault::CutAnswer), Some(Fault::Hang), Some(Fault::Hang), None]);
        plan.withdraw_exact();
        assert_eq!(plan.next("GET", "/a"), None);
    }

    #[test]
    fn exact_faults_can_be_withdrawn() {
        let mut plan = Plan::default();
        plan.randomize(Faults { seed: 1, requests: Requests::all(), chances: vec![(Fault::Hang, 1.0)] });
        plan.add(Requests::all(), 1, Fault::CutAnswer);
        plan.withdraw_exact();
        assert_eq!(plan.next("GET", "/"), Some(Fault::Hang));
    }

    #[test]
    fn exact_faults_take_precedence_over_random_faults() {
        let mut plan = Plan::default();
        plan.randomize(Faults { seed: 1, requests: Requests::all(), chances: vec![(Fault::Hang, 1.0)] });
        plan.add(Requests::all(), 2, Fault::CutAnswer);
        let faults = [(); 3].map(|()| plan.next("PUT", "/"));
        assert_eq!(faults, [Some(Fault::Hang), Some(Fault::CutAnswer), Some(Fault::Hang)]);
    }

    #[test]
    fn random_faults_match_their_probabilities_and_seed() {
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
