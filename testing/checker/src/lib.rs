//! Whether a history is linearizable: whether its operations can be put in one order, each at an instant between its call and
//! its answer, in which a single client that does one after another gets the same replies.
//!
//! Nothing less is what "no edit is lost, no reply claims too much" means among clients that work at once. An operation whose
//! outcome nobody knows has no answer: it may take effect at any time after its call, also after all others, or never. One
//! that was told to have changed nothing does not belong into a history: if it did change something, the replies of others
//! are what nothing explains.
//!
//! [`check`] makes the search of [Wing and Gong](https://www.cs.cmu.edu/~wing/publications/WingGong93.pdf) with the memory
//! of [Lowe](https://www.cs.ox.ac.uk/people/gavin.lowe/LinearizabiltyTesting/): it puts operations in order one by one, goes
//! back where it gets stuck, and tries nothing twice that leaves the same operations in the same state.

mod search;
mod states;

use std::fmt;
use std::hash::Hash;
use std::time::Duration;

/// What a single client is told.
pub trait Model {
    /// All that a reply can depend on.
    type State: Clone + Eq + Hash;
    /// What a client asks for.
    type Command;
    /// What it gets.
    type Reply: PartialEq;

    /// Runs a command in a state, and gives the reply and the state afterwards.
    fn run(&self, state: &Self::State, command: &Self::Command) -> (Self::Reply, Self::State);
}

/// A command that a client sent, and what came of it. All times are by one clock.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "tests fill it in")]
pub struct Operation<C, R> {
    /// What was asked for.
    pub command: C,
    /// A time at which it was not sent yet.
    pub called: Duration,
    /// What is known of its outcome; `None` where it may have taken effect, may do so yet, or may never.
    pub answer: Option<Answer<R>>,
}

/// What a client was told.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "tests fill it in")]
pub struct Answer<R> {
    /// The reply.
    pub reply: R,
    /// A time at which it was there.
    pub at: Duration,
}

/// The operations of a model's clients, in any order.
pub type History<M> = [Operation<<M as Model>::Command, <M as Model>::Reply>];

/// There is no such order. This is where the longest that could be found ends.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "tests look into it")]
pub struct NotLinearizable<S> {
    /// The state there.
    pub state: S,
    /// The operations, by their index in the history, of which one had to be next, and none can be.
    pub stuck: Vec<usize>,
    /// How many operations come before.
    pub explained: usize,
}

impl<S> fmt::Display for NotLinearizable<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no order of the operations explains their replies: after {}, none of ", self.explained)?;
        write!(f, "{:?} can be next", self.stuck)
    }
}

impl<S: fmt::Debug> std::error::Error for NotLinearizable<S> {}

/// Checks that a history which began in the state `start` is linearizable.
///
/// # Errors
/// [`NotLinearizable`] if it is not.
pub fn check<M: Model>(model: &M, start: M::State, history: &History<M>) -> Result<(), NotLinearizable<M::State>> {
    search::Search::new(model, start, history).run()
}
