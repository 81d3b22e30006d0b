//! [`Contact`]: the last time at which a session saw that its log is still in the bucket.

use std::sync::Mutex;

use memory_tool_core::lock;
use tokio::time::Instant;

use crate::digest::Digest;
use crate::state::State;

/// The last check of a session.
#[derive(Debug, Default)]
pub(crate) struct Contact(pub(crate) Mutex<Option<Check>>);

#[derive(Clone, Debug)]
pub(crate) struct Check {
    pub(crate) at: Instant,
    pub(crate) last: Seen,
}

/// A commit that was in the log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Seen {
    pub(crate) number: u64,
    pub(crate) digest: Digest,
    /// The entity tag of its object, if it is known.
    pub(crate) tag: Option<String>,
}

impl Seen {
    pub(crate) fn last_of(state: &State) -> Self {
        Self { number: state.number, digest: state.commit, tag: None }
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.number, self.digest) == (other.number, other.digest)
    }
}

impl Contact {
    /// Records that the last commit of a state is in the log.
    pub(crate) fn now(&self, state: &State) {
        self.passed(Seen::last_of(state));
    }

    pub(crate) fn passed(&self, last: Seen) {
        *lock(&self.0) = Some(Check { at: Instant::now(), last });
    }
}
