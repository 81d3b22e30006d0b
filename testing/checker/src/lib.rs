//! A linearizability checker. A history is linearizable if its operations have a sequential order in which each takes
//! effect between its call and its response, and a single client would get the same replies.
//!
//! For concurrent clients, this is the precise meaning of "no lost edits, no false replies". An operation with an
//! unknown outcome has no response: it may take effect at any time after its call, or never. Leave out operations that
//! reported that they changed nothing. If one did change something, the other replies have no valid order.
//!
//! [`check`] implements the search of [Wing and Gong](https://www.cs.cmu.edu/~wing/publications/WingGong93.pdf) with
//! the cache of [Lowe](https://www.cs.ox.ac.uk/people/gavin.lowe/LinearizabiltyTesting/). It orders one operation after
//! another, backtracks on a contradiction, and never visits the same operations in the same state twice.

mod search;
mod states;

use std::fmt;
use std::time::Duration;

/// The sequential specification.
pub trait Model {
    /// The state on which replies depend.
    type State: Clone + Ord;
    /// A request of a client.
    type Command;
    /// The reply to a command.
    type Reply: PartialEq;

    /// Runs a command in a state, and returns the reply and the next state.
    fn run(&self, state: &Self::State, command: &Self::Command) -> (Self::Reply, Self::State);
}

/// A command of a client and its outcome. All times use the same clock.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "tests fill it in")]
pub struct Operation<C, R> {
    /// The command that the client sent.
    pub command: C,
    /// A time before the command was sent.
    pub called: Duration,
    /// The response, or `None` if the outcome is unknown.
    pub response: Option<Response<R>>,
}

/// A reply with its time.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "tests fill it in")]
pub struct Response<R> {
    /// The reply.
    pub reply: R,
    /// A time after the reply was received.
    pub at: Duration,
}

/// The operations of all clients, in any order.
pub type History<M> = [Operation<<M as Model>::Command, <M as Model>::Reply>];

/// No valid order exists. This error describes the longest valid prefix that the search found.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "tests look into it")]
pub struct NotLinearizable<S> {
    /// The state after the prefix.
    pub state: S,
    /// The indexes in the history of the operations that could come next, but whose replies contradict the state.
    pub candidates: Vec<usize>,
    /// The number of operations in the prefix.
    pub ordered: usize,
}

impl<S> fmt::Display for NotLinearizable<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not linearizable: after {} operations, all candidates ", self.ordered)?;
        write!(f, "for the next one contradict the state: {:?}", self.candidates)
    }
}

impl<S: fmt::Debug> std::error::Error for NotLinearizable<S> {}

/// Checks that a history with the initial state `start` is linearizable.
///
/// # Errors
/// [`NotLinearizable`] if no valid order exists.
pub fn check<M: Model>(model: &M, start: M::State, history: &History<M>) -> Result<(), NotLinearizable<M::State>> {
    search::Search::new(model, start, history).run()
}
