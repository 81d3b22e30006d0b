//! [`Threads`]: futures that run in parallel even if they never yield.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::thread::Builder;

use futures::future::{Either, select};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

use crate::failure::{CaseError, Failure};

/// Futures with a thread each, because a tool that never yields would block other tasks.
/// Dropping this stops them. Nothing waits for a thread that a tool blocks forever.
pub(crate) struct Threads<T> {
    outcomes: mpsc::UnboundedReceiver<Result<T, CaseError>>,
    ended: mpsc::UnboundedSender<Result<T, CaseError>>,
    /// Closed when this is dropped.
    alive: watch::Sender<()>,
}

impl<T: Send + 'static> Threads<T> {
    pub(crate) fn new() -> Self {
        let (ended, outcomes) = mpsc::unbounded_channel();
        Self { outcomes, ended, alive: watch::Sender::new(()) }
    }

    pub(crate) fn spawn(&mut self, act: impl Future<Output = Result<T, CaseError>> + Send + 'static) {
        let (mut alive, runtime, ended) = (self.alive.subscribe(), Handle::current(), self.ended.clone());
        let refused = ended.clone();
        let started = Builder::new().spawn(move || {
            let acting = async {
                match select(pin!(act), pin!(alive.changed())).await {
                    Either::Left((outcome, _)) => outcome,
                    Either::Right(_) => Err(Failure::new("the case has ended").into()),
                }
            };
            let outcome = catch_unwind(AssertUnwindSafe(|| runtime.block_on(acting)));
            let _ = ended.send(outcome.unwrap_or_else(|panic| Err(panicked(&*panic).into()))); // fails after the case
        });
        if let Err(error) = started {
            let _ = refused.send(Err(Failure::new(format!("cannot start a thread: {error}")).into()));
        }
    }

    /// Returns the results in the order in which the futures finished, or the first failure.
    pub(crate) async fn join(self) -> Result<Vec<T>, CaseError> {
        let Self { mut outcomes, ended, alive: _alive } = self;
        drop(ended);
        let mut results = Vec::new();
        while let Some(outcome) = outcomes.recv().await {
            results.push(outcome?);
        }
        Ok(results)
    }
}

fn panicked(panic: &dyn Any) -> Failure {
    let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    Failure::new(format!("the backend panicked: {}", text.unwrap_or("without a message")))
}
