//! [`Threads`]: futures that run at the same time, whatever the tool beneath them does.

use std::pin::pin;

use futures::future::{Either, select};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::failure::{Failure, Stop};

/// Futures that each run on a thread of their own: a tool that never waits would have the tasks of a busy runtime run one
/// after another. They end where this is dropped.
pub(super) struct Threads<T> {
    running: JoinSet<Result<T, Stop>>,
    /// Closed when this is dropped.
    alive: watch::Sender<()>,
}

impl<T: Send + 'static> Threads<T> {
    pub(super) fn new() -> Self {
        Self { running: JoinSet::new(), alive: watch::Sender::new(()) }
    }

    pub(super) fn spawn(&mut self, act: impl Future<Output = Result<T, Stop>> + Send + 'static) {
        let (mut alive, runtime) = (self.alive.subscribe(), Handle::current());
        self.running.spawn_blocking(move || {
            runtime.block_on(async {
                match select(pin!(act), pin!(alive.changed())).await {
                    Either::Left((outcome, _)) => outcome,
                    Either::Right(_) => Err(Failure::new("nobody waits for it any more").into()),
                }
            })
        });
    }

    /// What came of them, in the order in which they ended; or what is wrong with the first that failed.
    pub(super) async fn join(mut self) -> Result<Vec<T>, Stop> {
        let mut outcomes = Vec::new();
        while let Some(ended) = self.running.join_next().await {
            outcomes.push(ended.map_err(|error| Failure::new(format!("the backend panicked: {error}")))??);
        }
        Ok(outcomes)
    }
}
