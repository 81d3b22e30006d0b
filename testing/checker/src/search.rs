//! [`Search`]: for an order of the operations.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use crate::states::{StateId, States};
use crate::{History, Model, NotLinearizable, Operation};

pub(crate) struct Search<'a, M: Model> {
    model: &'a M,
    history: &'a History<M>,
    /// The operations with an answer, in the order of their calls. All of them have to be in the order that is looked for.
    answered: Vec<Answered>,
    /// The others, of which any may be.
    unanswered: Vec<usize>,
    states: States<M::State>,
    /// The state after an operation in a state, if its reply is the one that was given there.
    steps: HashMap<(StateId, usize), Option<StateId>>,
}

/// An operation with an answer.
struct Answered {
    /// Its index in the history.
    operation: usize,
    called: Duration,
    answered: Duration,
}

/// How far an order has come. The rest of the search depends on nothing else.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Progress {
    /// All answered operations before this one are in the order.
    first_left: usize,
    /// Those after it that are in the order as well, by their place among the answered ones.
    ahead: BTreeSet<usize>,
    /// The unanswered operations in the order, by their index in the history.
    unanswered: BTreeSet<usize>,
    state: StateId,
}

impl Progress {
    fn answered(&self) -> usize {
        self.first_left + self.ahead.len()
    }

    /// The progress with one more of the answered operations.
    fn with_answered(&self, place: usize, state: StateId) -> Self {
        let mut next = Self { state, ..self.clone() };
        next.ahead.insert(place);
        while next.ahead.remove(&next.first_left) {
            next.first_left += 1;
        }
        next
    }

    fn with_unanswered(&self, operation: usize, state: StateId) -> Self {
        let mut next = Self { state, ..self.clone() };
        next.unanswered.insert(operation);
        next
    }
}

impl<'a, M: Model> Search<'a, M> {
    pub(crate) fn new(model: &'a M, start: M::State, history: &'a History<M>) -> Self {
        let (mut answered, mut unanswered) = (Vec::new(), Vec::new());
        for (operation, Operation { called, answer, .. }) in history.iter().enumerate() {
            match answer {
                Some(answer) => answered.push(Answered { operation, called: *called, answered: answer.at }),
                None => unanswered.push(operation),
            }
        }
        answered.sort_by_key(|operation| operation.called);
        let mut states = States::new();
        states.id(start);
        Self { model, history, answered, unanswered, states, steps: HashMap::new() }
    }

    pub(crate) fn run(mut self) -> Result<(), NotLinearizable<M::State>> {
        let start = Progress { first_left: 0, ahead: BTreeSet::new(), unanswered: BTreeSet::new(), state: 0 };
        let mut furthest = start.clone();
        let mut seen = HashSet::from([start.clone()]);
        let mut to_try = vec![start];
        while let Some(progress) = to_try.pop() {
            if progress.answered() == self.answered.len() {
                return Ok(());
            }
            if progress.answered() > furthest.answered() {
                furthest = progress.clone();
            }
            // The last that is pushed is tried first.
            for next in self.steps_from(&progress) {
                if seen.insert(next.clone()) {
                    to_try.push(next);
                }
            }
        }
        Err(self.failure(&furthest))
    }

    /// What can be next: the least likely first, which are the unanswered operations, then those that were answered late.
    fn steps_from(&mut self, progress: &Progress) -> Vec<Progress> {
        let mut next = Vec::new();
        let (mut places, latest) = self.callable(progress);
        let is_left =
            |&operation: &usize| !progress.unanswered.contains(&operation) && self.history[operation].called <= latest;
        for operation in self.unanswered.iter().copied().filter(is_left).collect::<Vec<_>>() {
            // Where it changes nothing, it may as well come later.
            if let Some(state) = self.step(progress.state, operation).filter(|&state| state != progress.state) {
                next.push(progress.with_unanswered(operation, state));
            }
        }
        places.sort_by_key(|&place| std::cmp::Reverse(self.answered[place].answered));
        for place in places {
            if let Some(state) = self.step(progress.state, self.answered[place].operation) {
                next.push(progress.with_answered(place, state));
            }
        }
        next
    }

    /// The answered operations that were called before the first answer to one that is left, and the time of that answer: what
    /// was called later has to come later.
    fn callable(&self, progress: &Progress) -> (Vec<usize>, Duration) {
        let mut latest = Duration::MAX;
        let mut callable = Vec::new();
        for (place, operation) in self.answered.iter().enumerate().skip(progress.first_left) {
            if operation.called > latest {
                break;
            }
            if !progress.ahead.contains(&place) {
                callable.push(place);
                latest = latest.min(operation.answered);
            }
        }
        (callable, latest)
    }

    /// The state after an operation, unless its answer shows that it was not made in this state.
    fn step(&mut self, state: StateId, operation: usize) -> Option<StateId> {
        if let Some(&known) = self.steps.get(&(state, operation)) {
            return known;
        }
        let Operation { command, answer, .. } = &self.history[operation];
        let (reply, after) = self.model.run(self.states.get(state), command);
        let is_explained = answer.as_ref().is_none_or(|answer| answer.reply == reply);
        let after = is_explained.then(|| self.states.id(after));
        self.steps.insert((state, operation), after);
        after
    }

    fn failure(&self, furthest: &Progress) -> NotLinearizable<M::State> {
        let (places, _) = self.callable(furthest);
        NotLinearizable {
            state: self.states.get(furthest.state).clone(),
            stuck: places.into_iter().map(|place| self.answered[place].operation).collect(),
            explained: furthest.answered() + furthest.unanswered.len(),
        }
    }
}
