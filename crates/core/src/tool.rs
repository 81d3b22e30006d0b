//! [`MemoryTool`]: the trait of the memory tool.

pub(crate) mod command;
pub(crate) mod command_name;
pub(crate) mod content;
pub(crate) mod definition;
pub(crate) mod directory_view;
pub(crate) mod engine;
pub(crate) mod error;
pub(crate) mod image;
pub(crate) mod input;
pub(crate) mod lines;
pub(crate) mod reply;
pub(crate) mod text;
pub(crate) mod with_commands;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::tool::command::{
    Command, CreateCommand, DeleteCommand, InsertCommand, RenameCommand, StrReplaceCommand, ViewCommand,
};
use crate::tool::definition::ToolDefinition;
use crate::tool::error::Error;
use crate::tool::reply::Reply;

/// Claude's memory tool.
///
/// Most programs use [`Engine`](crate::Engine), which implements this trait on top of any [`Store`](crate::Store),
/// exactly as the contract specifies. To change single commands, wrap a tool in
/// [`WithCommands`](crate::WithCommands). To store memory in another place, implement `Store`: it is less work than
/// `MemoryTool`, and its replies cannot deviate from the contract. To change the wording, use `MemoryBuilder::wording`
/// of the crate `memory-tool`.
///
/// A tool without a `Store` builds its views with [`FileView::of_text`](crate::FileView::of_text),
/// [`DirectoryView::of_listing`](crate::DirectoryView::of_listing) and [`Snippet::around`](crate::Snippet::around).
///
/// [`execute`](Self::execute) and [`call`](Self::call) have default implementations. Every command can also fail with
/// [`Error::Storage`] if the storage fails, and with [`Error::Conflict`] if the path keeps changing (`[X3]`).
#[async_trait]
#[diagnostic::on_unimplemented(note = "`Engine::new(store)` is a memory tool for any `Store`")]
pub trait MemoryTool: fmt::Debug + Send + Sync + 'static {
    /// Returns the listing of a directory, two levels deep, or the numbered lines of a file.
    ///
    /// # Behavior
    /// 1. For a directory, the reply lists its visible items and their sizes (`[V1]`, `[V2]`). A range selects lines of
    ///    the listing, and is ignored if it is invalid (`[V4]`).
    /// 2. For a UTF-8 file, the reply contains its numbered lines (`[V3]`), limited to the range (`[V4]`) and to a
    ///    number of characters (`[V8]`).
    /// 3. For an image, the reply is a content block (`[V9]`).
    /// 4. An empty store is not an error (`[V7]`).
    ///
    /// # Errors
    /// Invalid range (`[V4]`), too many lines (`[V5]`), path not found (`[V6]`), not UTF-8 text (`[V10]`), symbolic
    /// link (`[P4]`).
    async fn view(&self, command: &ViewCommand) -> Result<Reply, Error>;

    /// Creates a file.
    ///
    /// # Behavior
    /// 1. The text is stored byte for byte (`[C1]`). Missing parents are created (`[P5]`).
    /// 2. If concurrent commands create the same path, exactly one succeeds (`[X3]`).
    ///
    /// # Errors
    /// Path exists, unless overwriting is enabled (`[C2]`), a parent is a file (`[C3]`), symbolic link (`[P4]`).
    async fn create(&self, command: &CreateCommand) -> Result<Reply, Error>;

    /// Replaces the only occurrence of a string in a file.
    ///
    /// # Behavior
    /// 1. Both strings are literal. No other byte changes (`[S1]`).
    /// 2. Concurrent edits are not lost (`[X3]`).
    ///
    /// # Errors
    /// File not found (`[S2]`), no occurrence (`[S3]`), several occurrences (`[S4]`), empty `old_str` (`[S5]`), not
    /// UTF-8 text (`[V10]`), symbolic link (`[P4]`).
    async fn str_replace(&self, command: &StrReplaceCommand) -> Result<Reply, Error>;

    /// Inserts text into a file as one or more new lines.
    ///
    /// # Behavior
    /// 1. No other byte changes (`[I1]`).
    /// 2. Concurrent edits are not lost (`[X3]`).
    ///
    /// # Errors
    /// Line out of range (`[I2]`), file not found (`[I3]`), not UTF-8 text (`[V10]`), symbolic link (`[P4]`).
    async fn insert(&self, command: &InsertCommand) -> Result<Reply, Error>;

    /// Deletes a file, or a directory and its contents.
    ///
    /// # Behavior
    /// 1. The deletion is atomic (`[D1]`, `[X1]`).
    ///
    /// # Errors
    /// Path not found (`[D2]`), root directory (`[P6]`), symbolic link (`[P4]`).
    async fn delete(&self, command: &DeleteCommand) -> Result<Reply, Error>;

    /// Renames or moves a file, or a directory and its contents.
    ///
    /// # Behavior
    /// 1. The rename is atomic (`[R1]`, `[X1]`).
    /// 2. It never overwrites a file or directory (`[R2]`).
    ///
    /// # Errors
    /// Old path not found or new path exists (`[R2]`), new path inside the old path or under a file (`[R3]`), root
    /// directory (`[P6]`), symbolic link (`[P4]`).
    async fn rename(&self, command: &RenameCommand) -> Result<Reply, Error>;

    /// Deletes all files. Only programs can call this: the model has no such command.
    ///
    /// # Behavior
    /// 1. The deletion is atomic. An empty `/memories` remains.
    ///
    /// # Errors
    /// A tool can refuse this, for example if it is read-only.
    async fn clear_all_memory(&self) -> Result<Reply, Error>;

    /// Runs a parsed command by calling the method with its name.
    ///
    /// # Errors
    /// The errors of that method.
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

    /// Parses and runs the `input` of a `tool_use` block (`[W1]`).
    ///
    /// # Errors
    /// [`Error::Input`] or [`Error::Path`] if the input is invalid, and the errors of the command.
    async fn call(&self, input: Value) -> Result<Reply, Error> {
        self.execute(&Command::try_from(input)?).await
    }

    /// The declaration of the tool for the API (`[W3]`). A wrapper returns the definition of its inner tool.
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
