//! [`Search`]: finds a valid order of the operations.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use crate::states::{StateId, States};
use crate::{History, Model, NotLinearizable, Operation};

pub(crate) struct Search<'a, M: Model> {
    model: &'a M,
    history: &'a History<M>,
    /// Operations with a response, sorted by call time. A valid order contains all of them.
    completed: Vec<Completed>,
    /// Operations without a response. A valid order contains any subset of them.
    pending: Vec<usize>,
    states: States<M::State>,
    /// The state after an operation in a state, or `None` if its reply contradicts that state.
    steps: HashMap<(StateId, usize), Option<StateId>>,
}

struct Completed {
    /// Its index in the history.
    operation: usize,
    called: Duration,
    responded: Duration,
}

/// A partial order. The rest of the search depends only on this value.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Progress {
    /// All completed operations before this one are in the order.
    first_left: usize,
    /// Later completed operations that are also in the order, by index in `Search::completed`.
    ahead: BTreeSet<usize>,
    /// The pending operations in the order, by index in the history.
    pending: BTreeSet<usize>,
    state: StateId,
}

impl Progress {
    fn completed(&self) -> usize {
        self.first_left + self.ahead.len()
    }

    /// Returns the progress with one more completed operation.
    fn with_completed(&self, index: usize, state: StateId) -> Self {
        let mut next = Self { state, ..self.clone() };
        next.ahead.insert(index);
        while next.ahead.remove(&next.first_left) {
            next.first_left += 1;
        }
        next
    }

    fn with_pending(&self, operation: usize, state: StateId) -> Self {
        let mut next = Self { state, ..self.clone() };
        next.pending.insert(operation);
        next
    }
}

impl<'a, M: Model> Search<'a, M> {
    pub(crate) fn new(model: &'a M, start: M::State, history: &'a History<M>) -> Self {
        let (mut completed, mut pending) = (Vec::new(), Vec::new());
        for (operation, Operation { called, response, .. }) in history.iter().enumerate() {
            match response {
                Some(response) => completed.push(Completed { operation, called: *called, responded: response.at }),
                None => pending.push(operation),
            }
        }
        completed.sort_by_key(|operation| operation.called);
        let mut states = States::new();
        states.id(start);
        Self { model, history, completed, pending, states, steps: HashMap::new() }
    }

    pub(crate) fn run(mut self) -> Result<(), NotLinearizable<M::State>> {
        let start = Progress { first_left: 0, ahead: BTreeSet::new(), pending: BTreeSet::new(), state: 0 };
        let mut furthest = start.clone();
        let mut visited = HashSet::from([start.clone()]);
        let mut stack = vec![start];
        while let Some(progress) = stack.pop() {
            if progress.completed() == self.completed.len() {
                return Ok(());
            }
            if progress.completed() > furthest.completed() {
                furthest = progress.clone();
            }
            // A stack: the last candidate is tried first.
            for next in self.steps_from(&progress) {
                if visited.insert(next.clone()) {
                    stack.push(next);
                }
            }
        }
        Err(self.failure(&furthest))
    }

    /// Returns the candidates for the next operation, the least likely first: pending operations, then late responses.
    fn steps_from(&mut self, progress: &Progress) -> Vec<Progress> {
        let mut next = Vec::new();
        let (mut indexes, latest) = self.callable(progress);
        let is_left =
            |&operation: &usize| !progress.pending.contains(&operation) && self.history[operation].called <= latest;
        for operation in self.pending.iter().copied().filter(is_left).collect::<Vec<_>>() {
            // An operation that leaves the state unchanged can come later.
            if let Some(state) = self.step(progress.state, operation).filter(|&state| state != progress.state) {
                next.push(progress.with_pending(operation, state));
            }
        }
        indexes.sort_by_key(|&index| std::cmp::Reverse(self.completed[index].responded));
        for index in indexes {
            if let Some(state) = self.step(progress.state, self.completed[index].operation) {
                next.push(progress.with_completed(index, state));
            }
        }
        next
    }

    /// Returns the remaining completed operations that were called before the first remaining response, and the time of
    /// that response. Operations that were called after it must come later.
    fn callable(&self, progress: &Progress) -> (Vec<usize>, Duration) {
        let mut latest = Duration::MAX;
        let mut callable = Vec::new();
        for (index, operation) in self.completed.iter().enumerate().skip(progress.first_left) {
            if operation.called > latest {
                break;
            }
            if !progress.ahead.contains(&index) {
                callable.push(index);
                latest = latest.min(operation.responded);
            }
        }
        (callable, latest)
    }

    /// Returns the state after an operation, or `None` if its response contradicts this state.
    fn step(&mut self, state: StateId, operation: usize) -> Option<StateId> {
        if let Some(&known) = self.steps.get(&(state, operation)) {
            return known;
        }
        let Operation { command, response, .. } = &self.history[operation];
        let (reply, after) = self.model.run(self.states.get(state), command);
        let is_consistent = response.as_ref().is_none_or(|response| response.reply == reply);
        let after = is_consistent.then(|| self.states.id(after));
        self.steps.insert((state, operation), after);
        after
    }

    fn failure(&self, furthest: &Progress) -> NotLinearizable<M::State> {
        let (indexes, _) = self.callable(furthest);
        NotLinearizable {
            state: self.states.get(furthest.state).clone(),
            candidates: indexes.into_iter().map(|index| self.completed[index].operation).collect(),
            ordered: furthest.completed() + furthest.pending.len(),
        }
    }
}
