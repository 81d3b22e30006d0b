//! [`Threads`]: futures that run in parallel even if they never yield.

use std::pin::pin;

use futures::future::{Either, select};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::failure::{CaseError, Failure};

/// Futures that each run on their own thread, because a tool that never yields would block other tasks.
/// Dropping this stops them.
pub(crate) struct Threads<T> {
    running: JoinSet<Result<T, CaseError>>,
    /// Closed when this is dropped.
    alive: watch::Sender<()>,
}

impl<T: Send + 'static> Threads<T> {
    pub(crate) fn new() -> Self {
        Self { running: JoinSet::new(), alive: watch::Sender::new(()) }
    }

    pub(crate) fn spawn(&mut self, act: impl Future<Output = Result<T, CaseError>> + Send + 'static) {
        let (mut alive, runtime) = (self.alive.subscribe(), Handle::current());
        self.running.spawn_blocking(move || {
            runtime.block_on(async {
                match select(pin!(act), pin!(alive.changed())).await {
                    Either::Left((outcome, _)) => outcome,
                    Either::Right(_) => Err(Failure::new("the case has ended").into()),
                }
            })
        });
    }

    /// Returns the results in the order in which the futures finished, or the first failure.
    pub(crate) async fn join(mut self) -> Result<Vec<T>, CaseError> {
        let mut outcomes = Vec::new();
        while let Some(ended) = self.running.join_next().await {
            outcomes.push(ended.map_err(|error| Failure::new(format!("the backend panicked: {error}")))??);
        }
        Ok(outcomes)
    }
}
