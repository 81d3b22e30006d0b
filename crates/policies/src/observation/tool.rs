//! [`ObservedTool`]: reports each command.

use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::{
    Command, CommandName, CreateCommand, DeleteCommand, Error, InsertCommand, MemoryTool, RenameCommand, Reply,
    StrReplaceCommand, ToolDefinition, ViewCommand,
};
use serde_json::Value;
use tracing::field::{Empty, display};
use tracing::{Span, info_span};

use crate::called::{Called, hook_each_command};
use crate::observation::report::{Kind, Report};
use crate::outcome::{Outcome, outcome_of_command};

/// A tool that reports each command of its inner tool.
///
/// Each command has a span `memory_command` with these fields:
/// - `store` and `command`. An invalid input has the command `none`.
/// - `text_bytes`: the size of the text in the command.
/// - `shown_bytes`: the size of the file contents in the reply.
/// - `path` and `new_path`, after [`with_paths`](Self::with_paths).
///
/// In the span there is one event, with these fields:
/// - `outcome`: `done`, `refused` (the command does not fit the state of the memory, or a policy forbids it), `failed`
///   (the storage failed) or `dropped` (the caller stopped waiting; the command may have had its effect).
/// - `error`: the kind of refusal or failure, such as `not_found` or `busy`.
/// - `policy`: the policy that refused it, such as `screening`, `limits` or `read-only`.
/// - `duration_us`.
///
/// The level of the event is `INFO`, or `ERROR` for a failure. The cause of a failure is not reported, because it may
/// contain file names; it is the source of the error that the tool returns.
///
/// With the feature `metrics`, the counter `memory_commands_total` has the labels `store`, `command`, `outcome`,
/// `error` and `policy`, and the histogram `memory_command_seconds` has the labels `store` and `command`.
///
/// ```
/// use memory_tool_core::{Engine, InMemoryStore, MemoryTool};
/// use memory_tool_policies::{ObservedStore, ObservedTool};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let store = ObservedStore::new(InMemoryStore::new(), "alice");
/// let tool = ObservedTool::new(Engine::new(store), "alice");
/// tool.call(serde_json::json!({"command": "view", "path": "/memories"})).await?;
/// // INFO memory_command{store="alice" command="view" text_bytes=0 shown_bytes=0}: outcome="done" duration_us=12
/// # Ok::<(), memory_tool_core::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ObservedTool<T> {
    inner: T,
    store: Arc<str>,
    reports_paths: bool,
}

impl<T: MemoryTool> ObservedTool<T> {
    /// Reports the commands of `inner`. `store` names the memory in spans and metrics, so it must be safe to log.
    pub fn new(inner: T, store: impl Into<Arc<str>>) -> Self {
        Self { inner, store: store.into(), reports_paths: false }
    }

    /// Also reports the paths of commands. Paths may be as sensitive as contents.
    #[must_use]
    pub fn with_paths(mut self) -> Self {
        self.reports_paths = true;
        self
    }

    async fn around(
        &self,
        called: Called<'_>,
        work: impl Future<Output = Result<Reply, Error>>,
    ) -> Result<Reply, Error> {
        let Called { name: command, paths, text_bytes } = called;
        let store = &*self.store;
        let span = info_span!(
            "memory_command",
            store,
            command,
            path = Empty,
            new_path = Empty,
            text_bytes,
            shown_bytes = Empty
        );
        if self.reports_paths {
            for (field, path) in ["path", "new_path"].into_iter().zip(paths) {
                path.map(|path| span.record(field, display(path)));
            }
        }
        Report::begin(Kind::Command, &self.store, command, span).run(work, outcome_of).await
    }
}

fn outcome_of(result: &Result<Reply, Error>, span: &Span) -> Outcome {
    if let Ok(reply) = result {
        span.record("shown_bytes", shown_bytes(reply));
    }
    outcome_of_command(result)
}

/// The size of the file contents in a reply.
fn shown_bytes(reply: &Reply) -> usize {
    match reply {
        Reply::File(file) => file.text.len(),
        Reply::Image(image) => image.content.len(),
        _ => 0,
    }
}

hook_each_command!(ObservedTool);
