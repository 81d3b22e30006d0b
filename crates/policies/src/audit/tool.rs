//! [`AuditedTool`]: records commands that have no effect.

use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::{
    Actor, Command, CommandName, CreateCommand, DeleteCommand, Error, ErrorKind, InsertCommand, MemoryPath, MemoryTool,
    RenameCommand, Reply, StoreError, StrReplaceCommand, ToolDefinition, ViewCommand,
};
use serde_json::Value;

use crate::audit::batch_audit::{RecordFields, log_failure, report_missing};
use crate::audit::log::{AuditError, AuditLog};
use crate::audit::record::{AuditEvent, AuditOutcome};
use crate::called::{Called, hook_each_command};
use crate::outcome::outcome_of_command;

/// A tool that records refused and failed commands, and on request views. An [`AuditedStore`](crate::AuditedStore)
/// under the tool records its changes.
///
/// # Behavior
/// 1. A refused or failed command is recorded with its paths, the kind of error and the policy that refused it, in
///    addition to the batches that it tried. If this record cannot be appended, a [`tracing`] event at the level
///    `ERROR` reports it.
/// 2. A `view` is not recorded, except after [`with_views`](Self::with_views).
/// 3. The tool is stateless. Create one for each actor, over an engine with the
///    [same actor](memory_tool_core::EngineBuilder::actor).
#[derive(Clone, Debug)]
pub struct AuditedTool<T> {
    inner: T,
    log: Arc<dyn AuditLog>,
    actor: Actor,
    records_views: bool,
}

impl<T: MemoryTool> AuditedTool<T> {
    /// Records refused and failed commands of `inner` by `actor` in `log`.
    pub fn new(inner: T, log: impl AuditLog, actor: Actor) -> Self {
        Self { inner, log: Arc::new(log), actor, records_views: false }
    }

    /// Also records the path and outcome of each `view`, without a digest. If the record cannot be appended, the `view`
    /// fails.
    #[must_use]
    pub fn with_views(mut self) -> Self {
        self.records_views = true;
        self
    }

    async fn around(
        &self,
        called: Called<'_>,
        work: impl Future<Output = Result<Reply, Error>>,
    ) -> Result<Reply, Error> {
        let result = work.await;
        if called.name == CommandName::View.as_str() {
            if self.records_views {
                self.record(called, &result).await.map_err(failed)?;
            }
        } else if result.is_err() {
            // The command had no effect, or its batches are recorded, so its result does not depend on this record.
            let _ = self.record(called, &result).await;
        }
        result
    }

    async fn record(&self, called: Called<'_>, result: &Result<Reply, Error>) -> Result<(), AuditError> {
        let is_unknown = matches!(result, Err(Error::Storage { kind: ErrorKind::OutcomeUnknown, .. }));
        let (outcome, error, policy) = AuditOutcome::in_record(outcome_of_command(result), is_unknown);
        let [path, new_path] = called.paths.map(|path| path.map(|path| loggable(path, result).clone().into()));
        let event = AuditEvent::Command { path, new_path, outcome, error, policy };
        let record = RecordFields::new(&self.actor, called.name)?.record(event);
        let appended = self.log.append(&record).await;
        appended.inspect_err(|error| report_missing(&record, error))
    }
}

/// The path to record. If screening refuses a name, which may be a secret, it names a directory above it instead.
fn loggable<'a>(path: &'a MemoryPath, result: &'a Result<Reply, Error>) -> &'a MemoryPath {
    match result {
        Err(Error::Refused { path: named, policy: "screening", .. }) if path.is_under(named) => named,
        _ => path,
    }
}

fn failed(error: AuditError) -> Error {
    let source: StoreError = log_failure(error);
    Error::Storage { kind: ErrorKind::Other, source }
}

hook_each_command!(AuditedTool);
