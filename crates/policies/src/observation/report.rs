//! [`Report`]: the span, event and metrics of one command or operation.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{Instrument as _, Span};

use crate::outcome::Outcome;

/// The kind of work that a [`Report`] is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Command,
    Operation,
}

/// A command or operation in progress. Dropping it reports the outcome `dropped`.
pub(super) struct Report<'a> {
    kind: Kind,
    #[cfg_attr(not(feature = "metrics"), expect(dead_code, reason = "events take it from their span"))]
    store: &'a Arc<str>,
    #[cfg_attr(not(feature = "metrics"), expect(dead_code, reason = "as above"))]
    name: &'static str,
    span: Span,
    started: Instant,
    has_ended: bool,
}

impl<'a> Report<'a> {
    pub(super) fn begin(kind: Kind, store: &'a Arc<str>, name: &'static str, span: Span) -> Self {
        Self { kind, store, name, span, started: Instant::now(), has_ended: false }
    }

    /// Runs the work and reports its outcome, as determined by `outcome_of`, which may add fields to the span.
    pub(super) async fn run<T>(
        mut self,
        work: impl Future<Output = T>,
        outcome_of: impl FnOnce(&T, &Span) -> Outcome,
    ) -> T {
        let result = work.instrument(self.span.clone()).await;
        self.end(outcome_of(&result, &self.span));
        result
    }

    fn end(&mut self, outcome: Outcome) {
        self.has_ended = true;
        let duration = self.started.elapsed();
        self.span.in_scope(|| emit_event(self.kind, outcome, duration));
        #[cfg(feature = "metrics")]
        record_metrics(self.kind, self.store, self.name, outcome, duration);
    }
}

impl Drop for Report<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.end(Outcome::Dropped);
        }
    }
}

fn name_of(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Done => "done",
        Outcome::Refused { .. } => "refused",
        Outcome::Failed(_) => "failed",
        Outcome::Dropped => "dropped",
    }
}

fn emit_event(kind: Kind, outcome: Outcome, duration: Duration) {
    let (error, policy) = (outcome.error(), outcome.policy());
    let duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    let result = name_of(outcome);
    match (kind, outcome) {
        (_, Outcome::Failed(_)) => tracing::error!(outcome = result, error, policy, duration_us),
        (Kind::Command, _) => tracing::info!(outcome = result, error, policy, duration_us),
        (Kind::Operation, _) => tracing::debug!(outcome = result, error, policy, duration_us),
    }
}

#[cfg(feature = "metrics")]
fn record_metrics(kind: Kind, store: &Arc<str>, name: &'static str, outcome: Outcome, duration: Duration) {
    let (total, seconds, label) = match kind {
        Kind::Command => ("memory_commands_total", "memory_command_seconds", "command"),
        Kind::Operation => ("memory_store_operations_total", "memory_store_operation_seconds", "operation"),
    };
    let store = metrics::SharedString::from(Arc::clone(store));
    let (error, policy) = (outcome.error().unwrap_or("none"), outcome.policy().unwrap_or("none"));
    let result = name_of(outcome);
    let counter = metrics::counter!(
        total, "store" => store.clone(), label => name, "outcome" => result, "error" => error, "policy" => policy
    );
    counter.increment(1);
    metrics::histogram!(seconds, "store" => store, label => name).record(duration);
}
