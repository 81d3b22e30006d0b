//! [`Called`]: a command that a tool passes to its inner tool, and [`hook_each_command`], which implements such a tool.

use memory_tool_core::{CommandName, MemoryPath};

/// A command that is about to run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Called<'a> {
    /// The name of the command, `clear_all_memory`, or `none` for an invalid input.
    pub(crate) name: &'static str,
    /// The `path` or `old_path`, and the `new_path`.
    pub(crate) paths: [Option<&'a MemoryPath>; 2],
    /// The size of the text in the command.
    #[cfg_attr(not(feature = "observation"), expect(dead_code, reason = "the audit log has no sizes of texts"))]
    pub(crate) text_bytes: usize,
}

impl<'a> Called<'a> {
    /// A command of these paths.
    pub(crate) fn command(name: CommandName, paths: [Option<&'a MemoryPath>; 2], text: &str) -> Self {
        Self { name: name.as_str(), paths, text_bytes: text.len() }
    }

    /// A call without paths.
    pub(crate) fn without_paths(name: &'static str) -> Self {
        Self { name, paths: [None, None], text_bytes: 0 }
    }
}

/// Implements [`MemoryTool`](memory_tool_core::MemoryTool) for a wrapper of the tool `inner`. Its method `around` gets
/// each command as a [`Called`] and a future, and returns the result of the command.
macro_rules! hook_each_command {
    ($tool:ident) => {
        #[async_trait]
        impl<T: MemoryTool> MemoryTool for $tool<T> {
            async fn view(&self, command: &ViewCommand) -> Result<Reply, Error> {
                let called = Called::command(CommandName::View, [Some(&command.path), None], "");
                self.around(called, self.inner.view(command)).await
            }

            async fn create(&self, command: &CreateCommand) -> Result<Reply, Error> {
                let called = Called::command(CommandName::Create, [Some(&command.path), None], &command.file_text);
                self.around(called, self.inner.create(command)).await
            }

            async fn str_replace(&self, command: &StrReplaceCommand) -> Result<Reply, Error> {
                let called = Called::command(CommandName::StrReplace, [Some(&command.path), None], &command.new_str);
                self.around(called, self.inner.str_replace(command)).await
            }

            async fn insert(&self, command: &InsertCommand) -> Result<Reply, Error> {
                let called = Called::command(CommandName::Insert, [Some(&command.path), None], &command.insert_text);
                self.around(called, self.inner.insert(command)).await
            }

            async fn delete(&self, command: &DeleteCommand) -> Result<Reply, Error> {
                let called = Called::command(CommandName::Delete, [Some(&command.path), None], "");
                self.around(called, self.inner.delete(command)).await
            }

            async fn rename(&self, command: &RenameCommand) -> Result<Reply, Error> {
                let paths = [Some(&command.old_path), Some(&command.new_path)];
                let called = Called::command(CommandName::Rename, paths, "");
                self.around(called, self.inner.rename(command)).await
            }

            async fn clear_all_memory(&self) -> Result<Reply, Error> {
                let called = Called::without_paths("clear_all_memory");
                self.around(called, self.inner.clear_all_memory()).await
            }

            async fn call(&self, input: Value) -> Result<Reply, Error> {
                match Command::try_from(input) {
                    Ok(command) => self.execute(&command).await,
                    Err(error) => self.around(Called::without_paths("none"), async { Err(error) }).await,
                }
            }

            fn definition(&self) -> ToolDefinition {
                self.inner.definition()
            }
        }
    };
}

pub(crate) use hook_each_command;
