//! [`WordedTool`]: a tool whose replies and errors a function words.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::{
    Command, CreateCommand, DeleteCommand, Error, InsertCommand, MemoryTool, RenameCommand, Reply, StrReplaceCommand,
    ToolDefinition, ViewCommand,
};
use serde_json::Value;

pub(crate) type SharedTool = Arc<dyn MemoryTool>;

pub(crate) type Wording = Box<dyn Fn(&Result<Reply, Error>) -> Option<String> + Send + Sync>;

/// A tool whose replies and errors a function words.
pub(crate) struct WordedTool {
    pub(crate) inner: SharedTool,
    pub(crate) wording: Arc<Wording>,
}

impl WordedTool {
    fn word(&self, outcome: Result<Reply, Error>) -> Result<Reply, Error> {
        match (self.wording)(&outcome) {
            None => outcome,
            Some(text) => outcome.map(|_| Reply::Text(text.clone())).map_err(|error| error.with_message(text)),
        }
    }
}

impl fmt::Debug for WordedTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WordedTool").field("inner", &self.inner).finish_non_exhaustive()
    }
}

macro_rules! word_each_command {
    ($($method:ident($command:ty)),*) => {
        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl MemoryTool for WordedTool {
            $(async fn $method(&self, command: &$command) -> Result<Reply, Error> {
                self.word(self.inner.$method(command).await)
            })*

            async fn clear_all_memory(&self) -> Result<Reply, Error> {
                self.word(self.inner.clear_all_memory().await)
            }

            async fn call(&self, input: Value) -> Result<Reply, Error> {
                self.word(self.inner.call(input).await)
            }

            fn definition(&self) -> ToolDefinition {
                self.inner.definition()
            }
        }
    };
}

word_each_command!(
    view(ViewCommand),
    create(CreateCommand),
    str_replace(StrReplaceCommand),
    insert(InsertCommand),
    delete(DeleteCommand),
    rename(RenameCommand),
    execute(Command)
);
