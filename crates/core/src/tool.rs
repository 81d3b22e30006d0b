//! [`MemoryTool`]: the abstract memory tool, which an agent loop holds.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::command::{
    Command, CreateCommand, DeleteCommand, InsertCommand, RenameCommand, StrReplaceCommand, ViewCommand,
};
use crate::definition::ToolDefinition;
use crate::error::Error;
use crate::reply::Reply;

/// Claude's memory tool, whatever stands behind it.
///
/// This is the upper of the two seams. Most programs use [`Engine`](crate::Engine), which implements it over any
/// [`Store`](crate::Store) to the letter of the contract. Implement it yourself to change what the commands mean or say;
/// to keep memory somewhere else, a `Store` is less work and cannot drift from the contract.
///
/// The six methods named as the commands are, [`clear_all_memory`](Self::clear_all_memory) and
/// [`definition`](Self::definition) are required; [`execute`](Self::execute) and [`call`](Self::call) are the same for every
/// tool. Any command may also fail with [`Error::Storage`], where the storage fails, and with [`Error::Conflict`], where
/// others change the path again and again (`[X3]`).
///
/// ```
/// use async_trait::async_trait;
/// use memory_tool_core::{
///     CreateCommand, DeleteCommand, Engine, Error, InMemoryStore, InsertCommand, MemoryTool, RenameCommand, Reply,
///     StrReplaceCommand, ToolDefinition, ViewCommand,
/// };
///
/// /// A memory that nobody can change.
/// #[derive(Debug)]
/// struct ReadOnly<T>(T);
///
/// fn refused() -> Result<Reply, Error> {
///     Err(Error::other("Error: This memory is read-only"))
/// }
///
/// #[async_trait]
/// impl<T: MemoryTool> MemoryTool for ReadOnly<T> {
///     async fn view(&self, command: &ViewCommand) -> Result<Reply, Error> {
///         self.0.view(command).await
///     }
///     async fn create(&self, _: &CreateCommand) -> Result<Reply, Error> {
///         refused()
///     }
///     async fn str_replace(&self, _: &StrReplaceCommand) -> Result<Reply, Error> {
///         refused()
///     }
///     async fn insert(&self, _: &InsertCommand) -> Result<Reply, Error> {
///         refused()
///     }
///     async fn delete(&self, _: &DeleteCommand) -> Result<Reply, Error> {
///         refused()
///     }
///     async fn rename(&self, _: &RenameCommand) -> Result<Reply, Error> {
///         refused()
///     }
///     async fn clear_all_memory(&self) -> Result<Reply, Error> {
///         refused()
///     }
///     fn definition(&self) -> ToolDefinition {
///         self.0.definition()
///     }
/// }
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let tool = ReadOnly(Engine::new(InMemoryStore::new()));
/// let input = serde_json::json!({"command": "delete", "path": "/memories/a.txt"});
/// assert_eq!(tool.call(input).await.unwrap_err().to_string(), "Error: This memory is read-only");
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[async_trait]
#[diagnostic::on_unimplemented(
    note = "`Engine::new(store)` is a memory tool over any `Store`; a tool of your own implements the required methods"
)]
pub trait MemoryTool: fmt::Debug + Send + Sync + 'static {
    /// Shows a directory, two levels deep, or a file with line numbers.
    ///
    /// # Behavior
    /// 1. A directory is `[V1]`: its header, its size and its visible items, sizes as in `[V2]`. The range is ignored (`[V4]`).
    /// 2. A text file is `[V3]`, cut to the range of `[V4]` and to the cap of `[V8]`.
    /// 3. An image is a content block (`[V9]`).
    /// 4. An empty store is not an error (`[V7]`).
    ///
    /// # Errors
    /// `[V4]` a range that does not fit, `[V5]` too many lines, `[V6]` nothing there, `[V10]` not text, `[P4]` a link.
    async fn view(&self, command: &ViewCommand) -> Result<Reply, Error>;

    /// Creates a file.
    ///
    /// # Behavior
    /// 1. The bytes stored are exactly those given (`[C1]`); missing parents are made (`[P5]`).
    /// 2. Of several that create one path at once, one succeeds (`[X3]`).
    ///
    /// # Errors
    /// `[C2]` something is there, unless overwriting is switched on; `[C3]` a parent is a file; `[P4]` a link.
    async fn create(&self, command: &CreateCommand) -> Result<Reply, Error>;

    /// Replaces the one occurrence of a text in a file.
    ///
    /// # Behavior
    /// 1. Both texts are literal, and no other byte changes (`[S1]`).
    /// 2. No edit that others make at the same time is lost (`[X3]`).
    ///
    /// # Errors
    /// `[S2]` no file there, `[S3]` no occurrence, `[S4]` several, `[S5]` nothing to look for, `[V10]` not text, `[P4]` a link.
    async fn str_replace(&self, command: &StrReplaceCommand) -> Result<Reply, Error>;

    /// Inserts text into a file as a line of its own.
    ///
    /// # Behavior
    /// 1. No other byte changes (`[I1]`).
    /// 2. No edit that others make at the same time is lost (`[X3]`).
    ///
    /// # Errors
    /// `[I2]` a line that does not exist, `[I3]` no file there, `[V10]` not text, `[P4]` a link.
    async fn insert(&self, command: &InsertCommand) -> Result<Reply, Error>;

    /// Deletes a file, or a directory with all that is beneath it.
    ///
    /// # Behavior
    /// 1. Others see all of it or none (`[D1]`, `[X1]`).
    ///
    /// # Errors
    /// `[D2]` nothing there, `[P6]` the root, `[P4]` a link.
    async fn delete(&self, command: &DeleteCommand) -> Result<Reply, Error>;

    /// Renames or moves a file or a whole directory.
    ///
    /// # Behavior
    /// 1. Others see it at the old path or at the new one, never at both or neither (`[R1]`, `[X1]`).
    /// 2. Nothing is ever overwritten (`[R2]`).
    ///
    /// # Errors
    /// `[R2]` nothing at the old path, or something at the new one; `[R3]` into itself or beneath a file; `[P6]` the root; `[P4]`
    /// a link.
    async fn rename(&self, command: &RenameCommand) -> Result<Reply, Error>;

    /// Empties the memory. For the program: the model has no such command.
    ///
    /// # Behavior
    /// 1. Others see all of it or none; afterwards only `/memories` is left.
    ///
    /// # Errors
    /// A tool that cannot or must not do it says so.
    async fn clear_all_memory(&self) -> Result<Reply, Error>;

    /// Runs a typed command.
    ///
    /// # Behavior
    /// 1. Calls the method of the command's name.
    ///
    /// # Errors
    /// Those of that method.
    async fn execute(&self, command: &Command) -> Result<Reply, Error> {
        match command {
            Command::View(command) => self.view(command).await,
            Command::Create(command) => self.create(command).await,
            Command::StrReplace(command) => self.str_replace(command).await,
            Command::Insert(command) => self.insert(command).await,
            Command::Delete(command) => self.delete(command).await,
            Command::Rename(command) => self.rename(command).await,
        }
    }

    /// Runs the `input` of a `tool_use` block as the model sent it (`[W1]`).
    ///
    /// # Behavior
    /// 1. Parses the input and runs the command.
    ///
    /// # Errors
    /// [`Error::Input`] and [`Error::Path`] for an input that is no command, else those of the command.
    async fn call(&self, input: Value) -> Result<Reply, Error> {
        self.execute(&Command::try_from(input)?).await
    }

    /// How the tool is declared to the API (`[W3]`).
    ///
    /// # Behavior
    /// 1. [`ToolDefinition::new`] and whatever optional fields the program set. A tool over another tool gives that one's.
    fn definition(&self) -> ToolDefinition;
}

macro_rules! forward_memory_tool {
    ($pointer:ident) => {
        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<T: MemoryTool + ?Sized> MemoryTool for $pointer<T> {
            async fn view(&self, command: &ViewCommand) -> Result<Reply, Error> {
                (**self).view(command).await
            }

            async fn create(&self, command: &CreateCommand) -> Result<Reply, Error> {
                (**self).create(command).await
            }

            async fn str_replace(&self, command: &StrReplaceCommand) -> Result<Reply, Error> {
                (**self).str_replace(command).await
            }

            async fn insert(&self, command: &InsertCommand) -> Result<Reply, Error> {
                (**self).insert(command).await
            }

            async fn delete(&self, command: &DeleteCommand) -> Result<Reply, Error> {
                (**self).delete(command).await
            }

            async fn rename(&self, command: &RenameCommand) -> Result<Reply, Error> {
                (**self).rename(command).await
            }

            async fn clear_all_memory(&self) -> Result<Reply, Error> {
                (**self).clear_all_memory().await
            }

            async fn execute(&self, command: &Command) -> Result<Reply, Error> {
                (**self).execute(command).await
            }

            async fn call(&self, input: Value) -> Result<Reply, Error> {
                (**self).call(input).await
            }

            fn definition(&self) -> ToolDefinition {
                (**self).definition()
            }
        }
    };
}

forward_memory_tool!(Arc);
forward_memory_tool!(Box);
