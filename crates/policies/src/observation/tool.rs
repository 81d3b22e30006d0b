//! [`ObservedTool`]: tells of each command.

use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::{
    Command, CommandName, CreateCommand, DeleteCommand, Error, InsertCommand, MemoryPath, MemoryTool, RenameCommand,
    Reply, StrReplaceCommand, ToolDefinition, ViewCommand,
};
use serde_json::Value;
use tracing::field::{Empty, display};
use tracing::{Span, info_span};

use crate::observation::record::{Kind, Record};
use crate::outcome::{Outcome, outcome_of_command};

/// A tool over a tool that tells of each command. What, [the page of the crate](crate#observation) says.
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
    tells_paths: bool,
}

impl<T: MemoryTool> ObservedTool<T> {
    /// Tells of the commands of `inner`. `store` is what they are told of: whose memory it is, in a word that may be logged.
    pub fn new(inner: T, store: impl Into<Arc<str>>) -> Self {
        Self { inner, store: store.into(), tells_paths: false }
    }

    /// Tells the paths of the commands as well. They may say as much as a content does.
    #[must_use]
    pub fn with_paths(mut self) -> Self {
        self.tells_paths = true;
        self
    }

    async fn observe(
        &self,
        command: CommandName,
        paths: [Option<&MemoryPath>; 2],
        text_bytes: usize,
        work: impl Future<Output = Result<Reply, Error>>,
    ) -> Result<Reply, Error> {
        let span = self.span(command.as_str(), text_bytes);
        if self.tells_paths {
            for (field, path) in ["path", "new_path"].into_iter().zip(paths) {
                path.map(|path| span.record(field, display(path)));
            }
        }
        self.record(command.as_str(), span).of(work, judge).await
    }

    fn span(&self, command: &'static str, text_bytes: usize) -> Span {
        let store = &*self.store;
        info_span!("memory_command", store, command, path = Empty, new_path = Empty, text_bytes, shown_bytes = Empty)
    }

    fn record(&self, command: &'static str, span: Span) -> Record<'_> {
        Record::begin(Kind::Command, &self.store, command, span)
    }
}

fn judge(result: &Result<Reply, Error>, span: &Span) -> Outcome {
    if let Ok(reply) = result {
        span.record("shown_bytes", shown_bytes(reply));
    }
    outcome_of_command(result)
}

/// How many bytes of contents a reply shows.
fn shown_bytes(reply: &Reply) -> usize {
    match reply {
        Reply::File(file) => file.text.len(),
        Reply::Image(image) => image.content.len(),
        _ => 0,
    }
}

#[async_trait]
impl<T: MemoryTool> MemoryTool for ObservedTool<T> {
    async fn view(&self, command: &ViewCommand) -> Result<Reply, Error> {
        self.observe(CommandName::View, [Some(&command.path), None], 0, self.inner.view(command)).await
    }

    async fn create(&self, command: &CreateCommand) -> Result<Reply, Error> {
        let text_bytes = command.file_text.len();
        self.observe(CommandName::Create, [Some(&command.path), None], text_bytes, self.inner.create(command)).await
    }

    async fn str_replace(&self, command: &StrReplaceCommand) -> Result<Reply, Error> {
        let text_bytes = command.new_str.len();
        let work = self.inner.str_replace(command);
        self.observe(CommandName::StrReplace, [Some(&command.path), None], text_bytes, work).await
    }

    async fn insert(&self, command: &InsertCommand) -> Result<Reply, Error> {
        let text_bytes = command.insert_text.len();
        self.observe(CommandName::Insert, [Some(&command.path), None], text_bytes, self.inner.insert(command)).await
    }

    async fn delete(&self, command: &DeleteCommand) -> Result<Reply, Error> {
        self.observe(CommandName::Delete, [Some(&command.path), None], 0, self.inner.delete(command)).await
    }

    async fn rename(&self, command: &RenameCommand) -> Result<Reply, Error> {
        let paths = [Some(&command.old_path), Some(&command.new_path)];
        self.observe(CommandName::Rename, paths, 0, self.inner.rename(command)).await
    }

    async fn clear_all_memory(&self) -> Result<Reply, Error> {
        let name = "clear_all_memory";
        self.record(name, self.span(name, 0)).of(self.inner.clear_all_memory(), judge).await
    }

    /// An input that is no command is told of as the command `none`.
    async fn call(&self, input: Value) -> Result<Reply, Error> {
        match Command::try_from(input) {
            Ok(command) => self.execute(&command).await,
            Err(error) => {
                let refused = async { Err(error) };
                self.record("none", self.span("none", 0)).of(refused, judge).await
            }
        }
    }

    fn definition(&self) -> ToolDefinition {
        self.inner.definition()
    }
}
