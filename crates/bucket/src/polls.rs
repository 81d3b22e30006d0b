//! [`Polls`]: the tasks that wait for the same request.

use std::sync::Mutex;

use memory_tool_core::lock;
use tokio::sync::oneshot;

use crate::failure::SharedFailure;

/// The most concurrent polls. More tasks share the next one.
const MAX_POLLS: usize = 4;

/// The polls of the tasks of one process.
#[derive(Debug, Default)]
pub(crate) struct Polls(pub(crate) Mutex<PollsInner>);

#[derive(Debug, Default)]
pub(crate) struct PollsInner {
    pub(crate) running: usize,
    /// Whether a counted poll has not sent its request yet, so that others can share it.
    pub(crate) is_forming: bool,
    /// The tasks that wait for the forming poll, or for the next one, which begins when a running poll ends.
    pub(crate) waiting: Vec<Sharing>,
}

/// A task that shares a poll.
pub(crate) type Sharing = oneshot::Sender<Result<(), SharedFailure>>;

impl Polls {
    /// Counts a new poll, or returns the result of the next one if it is forming or enough are running.
    pub(crate) fn join_if_busy(&self) -> Option<oneshot::Receiver<Result<(), SharedFailure>>> {
        let mut polls = lock(&self.0);
        if polls.running < MAX_POLLS && !polls.is_forming {
            polls.running += 1;
            polls.is_forming = true;
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        polls.waiting.push(sender);
        Some(receiver)
    }
}
