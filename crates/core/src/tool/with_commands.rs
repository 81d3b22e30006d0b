//! [`WithCommands`]: a tool whose commands run in another way.

use std::fmt;
use std::pin::Pin;

use async_trait::async_trait;

use crate::tool::MemoryTool;
use crate::tool::command::{
    Command, CreateCommand, DeleteCommand, InsertCommand, RenameCommand, StrReplaceCommand, ViewCommand,
};
use crate::tool::definition::ToolDefinition;
use crate::tool::error::Error;
use crate::tool::reply::Reply;

/// The future of a command.
type Running<'a> = Pin<Box<dyn Future<Output = Result<Reply, Error>> + Send + 'a>>;

/// A wrapper of a tool that passes each command of the model to a function.
///
/// The function runs the commands that it does not change with [`MemoryTool::execute`] of the inner tool. The rest of
/// the tool stays the same, [`clear_all_memory`](MemoryTool::clear_all_memory) included.
///
/// ```
/// use memory_tool_core::{Command, Engine, Error, InMemoryStore, MemoryTool, WithCommands};
/// use serde_json::json;
///
/// let tool = WithCommands::new(Engine::new(InMemoryStore::new()), |tool, command| match command {
///     Command::Delete(_) => Box::pin(async { Err(Error::other("Error: Nothing can be deleted")) }),
///     command => tool.execute(command),
/// });
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// tool.call(json!({"command": "create", "path": "/memories/a.txt", "file_text": ""})).await?;
/// let error = tool.call(json!({"command": "delete", "path": "/memories/a.txt"})).await.unwrap_err();
/// assert_eq!(error.to_string(), "Error: Nothing can be deleted");
/// # Ok::<(), Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WithCommands<T, F> {
    tool: T,
    run: F,
}

impl<T, F> WithCommands<T, F>
where
    T: MemoryTool,
    F: for<'a> Fn(&'a T, &'a Command) -> Running<'a> + Send + Sync + 'static,
{
    /// Creates a tool that passes each command to `run`, with the inner tool.
    pub fn new(tool: T, run: F) -> Self {
        Self { tool, run }
    }

    async fn run(&self, command: Command) -> Result<Reply, Error> {
        (self.run)(&self.tool, &command).await
    }
}

impl<T: fmt::Debug, F> fmt::Debug for WithCommands<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithCommands").field("tool", &self.tool).finish_non_exhaustive()
    }
}

#[async_trait]
impl<T, F> MemoryTool for WithCommands<T, F>
where
    T: MemoryTool,
    F: for<'a> Fn(&'a T, &'a Command) -> Running<'a> + Send + Sync + 'static,
{
    async fn view(&self, command: &ViewCommand) -> Result<Reply, Error> {
        self.run(Command::View(command.clone())).await
    }

    async fn create(&self, command: &CreateCommand) -> Result<Reply, Error> {
        self.run(Command::Create(command.clone())).await
    }

    async fn str_replace(&self, command: &StrReplaceCommand) -> Result<Reply, Error> {
        self.run(Command::StrReplace(command.clone())).await
    }

    async fn insert(&self, command: &InsertCommand) -> Result<Reply, Error> {
        self.run(Command::Insert(command.clone())).await
    }

    async fn delete(&self, command: &DeleteCommand) -> Result<Reply, Error> {
        self.run(Command::Delete(command.clone())).await
    }

    async fn rename(&self, command: &RenameCommand) -> Result<Reply, Error> {
        self.run(Command::Rename(command.clone())).await
    }

    async fn clear_all_memory(&self) -> Result<Reply, Error> {
        self.tool.clear_all_memory().await
    }

    async fn execute(&self, command: &Command) -> Result<Reply, Error> {
        (self.run)(&self.tool, command).await
    }

    fn definition(&self) -> ToolDefinition {
        self.tool.definition()
    }
}
