//! [`AuditedTool`]: records commands that have no effect.

use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::{
    Actor, Command, CommandName, CreateCommand, DeleteCommand, Error, ErrorKind, InsertCommand, MemoryPath, MemoryTool,
    RenameCommand, Reply, StoreError, StorePath, StrReplaceCommand, ToolDefinition, ViewCommand,
};
use serde_json::Value;

use crate::audit::batch_audit::{RecordFields, log_failure, report_missing};
use crate::audit::log::{AuditError, AuditLog};
use crate::audit::record::{AuditEvent, AuditOutcome};
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

    async fn audit(
        &self,
        name: CommandName,
        paths: [Option<&MemoryPath>; 2],
        work: impl Future<Output = Result<Reply, Error>>,
    ) -> Result<Reply, Error> {
        let result = work.await;
        if name != CommandName::View {
            return self.conclude(name.as_str(), paths, result).await;
        }
        if !self.records_views {
            return result;
        }
        self.record(name.as_str(), paths, &result).await.map_err(failed)?;
        result
    }

    /// Records a refused or failed command.
    async fn conclude(
        &self,
        command: &str,
        paths: [Option<&MemoryPath>; 2],
        result: Result<Reply, Error>,
    ) -> Result<Reply, Error> {
        if result.is_err() {
            // The command had no effect, or its batches are recorded, so its result does not depend on this record.
            let _ = self.record(command, paths, &result).await;
        }
        result
    }

    async fn record(
        &self,
        command: &str,
        paths: [Option<&MemoryPath>; 2],
        result: &Result<Reply, Error>,
    ) -> Result<(), AuditError> {
        let is_unknown = matches!(result, Err(Error::Storage { kind: ErrorKind::OutcomeUnknown, .. }));
        let outcome = outcome_of_command(result);
        let [error, policy] = [outcome.error(), outcome.policy()].map(|name| name.map(str::to_owned));
        let [path, new_path] = paths.map(|path| path.map(|path| loggable(path, result).clone()));
        let outcome = AuditOutcome::of(outcome, is_unknown);
        let [path, new_path] = [path, new_path].map(|path| path.map(StorePath::from));
        let event = AuditEvent::Command { path, new_path, outcome, error, policy };
        let record = RecordFields::new(&self.actor, command)?.record(event);
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

#[async_trait]
impl<T: MemoryTool> MemoryTool for AuditedTool<T> {
    async fn view(&self, command: &ViewCommand) -> Result<Reply, Error> {
        self.audit(CommandName::View, [Some(&command.path), None], self.inner.view(command)).await
    }

    async fn create(&self, command: &CreateCommand) -> Result<Reply, Error> {
        self.audit(CommandName::Create, [Some(&command.path), None], self.inner.create(command)).await
    }

    async fn str_replace(&self, command: &StrReplaceCommand) -> Result<Reply, Error> {
        self.audit(CommandName::StrReplace, [Some(&command.path), None], self.inner.str_replace(command)).await
    }

    async fn insert(&self, command: &InsertCommand) -> Result<Reply, Error> {
        self.audit(CommandName::Insert, [Some(&command.path), None], self.inner.insert(command)).await
    }

    async fn delete(&self, command: &DeleteCommand) -> Result<Reply, Error> {
        self.audit(CommandName::Delete, [Some(&command.path), None], self.inner.delete(command)).await
    }

    async fn rename(&self, command: &RenameCommand) -> Result<Reply, Error> {
        let paths = [Some(&command.old_path), Some(&command.new_path)];
        self.audit(CommandName::Rename, paths, self.inner.rename(command)).await
    }

    async fn clear_all_memory(&self) -> Result<Reply, Error> {
        self.conclude("clear_all_memory", [None, None], self.inner.clear_all_memory().await).await
    }

    /// Records an invalid input as the command `none`.
    async fn call(&self, input: Value) -> Result<Reply, Error> {
        match Command::try_from(input) {
            Ok(command) => self.execute(&command).await,
            Err(error) => self.conclude("none", [None, None], Err(error)).await,
        }
    }

    fn definition(&self) -> ToolDefinition {
        self.inner.definition()
    }
}
