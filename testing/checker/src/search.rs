//! [`Search`]: finds a valid order of the operations.

use std::collections::{BTreeSet, HashMap};
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
    visited: Visited,
}

struct Completed {
    /// Its index in the history.
    operation: usize,
    called: Duration,
    responded: Duration,
}

/// The completed operations of an order.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Ordered {
    /// All completed operations before this one are in the order.
    first_left: usize,
    /// Later completed operations that are also in the order, by index in `Search::completed`.
    ahead: BTreeSet<usize>,
}

impl Ordered {
    fn len(&self) -> usize {
        self.first_left + self.ahead.len()
    }

    /// Returns these operations and one more.
    fn with(&self, index: usize) -> Self {
        let mut next = self.clone();
        next.ahead.insert(index);
        while next.ahead.remove(&next.first_left) {
            next.first_left += 1;
        }
        next
    }
}

/// A partial order. The rest of the search depends only on this value.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Progress {
    completed: Ordered,
    /// The pending operations in the order, by index in the history.
    pending: BTreeSet<usize>,
    state: StateId,
    /// The last operation if it is a pending one, and the state before it.
    last: Option<(StateId, usize)>,
}

impl Progress {
    /// Whether the search tries each operation after this progress that it would try after `other`. After a pending
    /// operation, it tries fewer.
    fn includes(&self, other: &Self) -> bool {
        (self.last.is_none() || self.last == other.last) && self.pending.is_subset(&other.pending)
    }
}

/// The visited partial orders.
#[derive(Default)]
struct Visited(HashMap<(Ordered, StateId), Vec<Progress>>);

impl Visited {
    /// Returns whether the progress is new: no visited one includes it.
    fn insert(&mut self, progress: &Progress) -> bool {
        let similar = self.0.entry((progress.completed.clone(), progress.state)).or_default();
        if similar.iter().any(|visited| visited.includes(progress)) {
            return false;
        }
        similar.retain(|visited| !progress.includes(visited));
        similar.push(progress.clone());
        true
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
        Self { model, history, completed, pending, states, steps: HashMap::new(), visited: Visited::default() }
    }

    pub(crate) fn run(mut self) -> Result<(), NotLinearizable<M::State>> {
        let completed = Ordered { first_left: 0, ahead: BTreeSet::new() };
        let start = Progress { completed, pending: BTreeSet::new(), state: 0, last: None };
        let mut furthest = start.clone();
        self.visited.insert(&start);
        let mut stack = vec![start];
        while let Some(progress) = stack.pop() {
            if progress.completed.len() == self.completed.len() {
                return Ok(());
            }
            if progress.completed.len() > furthest.completed.len() {
                furthest = progress.clone();
            }
            // A stack: the last candidate is tried first.
            for next in self.steps_from(&progress) {
                if self.visited.insert(&next) {
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
            let Some(state) = self.step(progress.state, operation) else { continue };
            // An operation that leaves the state unchanged can come later.
            if state != progress.state && !self.has_simpler_order(progress.last, operation, state) {
                let mut pending = progress.pending.clone();
                pending.insert(operation);
                let last = Some((progress.state, operation));
                next.push(Progress { completed: progress.completed.clone(), pending, state, last });
            }
        }
        indexes.sort_by_key(|&index| std::cmp::Reverse(self.completed[index].responded));
        for index in indexes {
            let operation = self.completed[index].operation;
            let Some(state) = self.step(progress.state, operation) else { continue };
            if !self.has_simpler_order(progress.last, operation, state) {
                let (completed, pending) = (progress.completed.with(index), progress.pending.clone());
                next.push(Progress { completed, pending, state, last: None });
            }
        }
        next
    }

    /// Whether `operation` leads to the state `after` without the pending operation before it, or before that one. The
    /// search only needs the order in which pending operations come last, sorted by index.
    fn has_simpler_order(&mut self, last: Option<(StateId, usize)>, operation: usize, after: StateId) -> bool {
        let Some((before, pending)) = last else { return false };
        let Some(state) = self.step(before, operation) else { return false };
        let is_ordered = self.history[operation].response.is_none() && pending < operation;
        state == after || (!is_ordered && self.step(state, pending) == Some(after))
    }

    /// Returns the remaining completed operations that were called before the first remaining response, and the time of
    /// that response. Operations that were called after it must come later.
    fn callable(&self, progress: &Progress) -> (Vec<usize>, Duration) {
        let mut latest = Duration::MAX;
        let mut callable = Vec::new();
        for (index, operation) in self.completed.iter().enumerate().skip(progress.completed.first_left) {
            if operation.called > latest {
                break;
            }
            if !progress.completed.ahead.contains(&index) {
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
            ordered: furthest.completed.len() + furthest.pending.len(),
        }
    }
}
