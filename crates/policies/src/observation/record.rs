//! [`Record`]: what is told of one piece of work, from its beginning to its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{Instrument as _, Span};

use crate::outcome::Outcome;

/// What is told of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Command,
    Operation,
}

/// A piece of work that is going on. Dropped before its end, it tells that.
pub(super) struct Record<'a> {
    kind: Kind,
    #[cfg_attr(not(feature = "metrics"), expect(dead_code, reason = "events have it from their span"))]
    store: &'a Arc<str>,
    /// The command or operation.
    #[cfg_attr(not(feature = "metrics"), expect(dead_code, reason = "as above"))]
    name: &'static str,
    span: Span,
    started: Instant,
    has_ended: bool,
}

impl<'a> Record<'a> {
    pub(super) fn begin(kind: Kind, store: &'a Arc<str>, name: &'static str, span: Span) -> Self {
        Self { kind, store, name, span, started: Instant::now(), has_ended: false }
    }

    /// Does the work, and tells of its end. `judge` says what became of it, and may add to the span.
    pub(super) async fn of<T>(mut self, work: impl Future<Output = T>, judge: impl FnOnce(&T, &Span) -> Outcome) -> T {
        let done = work.instrument(self.span.clone()).await;
        self.end(judge(&done, &self.span));
        done
    }

    fn end(&mut self, outcome: Outcome) {
        self.has_ended = true;
        let duration = self.started.elapsed();
        self.span.in_scope(|| tell(self.kind, outcome, duration));
        #[cfg(feature = "metrics")]
        count(self.kind, self.store, self.name, outcome, duration);
    }
}

impl Drop for Record<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.end(Outcome::Dropped);
        }
    }
}

fn name_of(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Done => "done",
        Outcome::Refused(_) => "refused",
        Outcome::Failed(_) => "failed",
        Outcome::Dropped => "dropped",
    }
}

fn tell(kind: Kind, outcome: Outcome, duration: Duration) {
    let error = outcome.error();
    let duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    let result = name_of(outcome);
    match (kind, outcome) {
        (_, Outcome::Failed(_)) => tracing::error!(outcome = result, error, duration_us),
        (Kind::Command, _) => tracing::info!(outcome = result, error, duration_us),
        (Kind::Operation, _) => tracing::debug!(outcome = result, error, duration_us),
    }
}

#[cfg(feature = "metrics")]
fn count(kind: Kind, store: &Arc<str>, name: &'static str, outcome: Outcome, duration: Duration) {
    let (total, seconds, label) = match kind {
        Kind::Command => ("memory_commands_total", "memory_command_seconds", "command"),
        Kind::Operation => ("memory_store_operations_total", "memory_store_operation_seconds", "operation"),
    };
    let store = metrics::SharedString::from(Arc::clone(store));
    let error = outcome.error().unwrap_or("none");
    let result = name_of(outcome);
    metrics::counter!(total, "store" => store.clone(), label => name, "outcome" => result, "error" => error)
        .increment(1);
    metrics::histogram!(seconds, "store" => store, label => name).record(duration);
}
