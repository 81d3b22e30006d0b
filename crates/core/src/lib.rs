#![doc = include_str!("../README.md")]
#![doc(test(attr(deny(warnings))))]

mod capacity;
mod command;
mod context_editing;
mod definition;
mod directory_view;
mod echo;
mod engine;
mod error;
mod file_size;
mod hook;
mod in_memory;
mod input;
mod open_mode;
mod path;
mod reply;
mod runner;
mod store;
mod text;
mod tool;
mod wire;

pub use capacity::{Capacity, CapacityMeasure, Usage};
pub use command::{
    Command, CommandName, CreateCommand, DeleteCommand, InsertCommand, RenameCommand, StrReplaceCommand, ViewCommand,
    ViewRange,
};
pub use context_editing::{BETA_HEADER, COMPACTION_BETA_HEADER, ClearToolUses, Compact, Measure};
pub use definition::{CacheControl, TOOL_NAME, TOOL_TYPE, ToolDefinition};
pub use echo::is_unprintable;
pub use engine::{DEFAULT_MAX_VIEW_CHARACTERS, Engine, EngineBuilder};
pub use error::{BoxError, Error, FailureKind, InputError, StoreError};
pub use file_size::DEFAULT_MAX_FILE_BYTES;
pub use hook::{BatchHook, HookedStore, NoHook};
pub use in_memory::InMemoryStore;
pub use open_mode::OpenMode;
pub use path::{MAX_PATH_BYTES, MAX_SEGMENT_BYTES, MemoryPath, PathError};
pub use reply::{DirectoryItem, DirectoryView, FileView, ImageView, Reply, Snippet, ViewCut};
pub use runner::{ToolFailure, ToolRun, ToolRunner, ToolUseBlock};
pub use store::{
    Batch, Change, Expected, FileEntry, Found, InvalidBatch, Node, Store, StoredFile, Version, read_then_check,
};
pub use tool::MemoryTool;
pub use wire::{Content, ContentBlock, ImageSource, RejectedToolUse, ToolResult, ToolUse};
