#![doc = include_str!("../README.md")]
#![doc(test(attr(deny(warnings))))]

mod actor;
mod batch;
mod change;
mod command;
mod command_name;
mod content;
mod context_editing;
mod definition;
mod directory_view;
mod engine;
mod error;
mod file_size;
mod image;
mod in_memory;
mod input;
mod lines;
mod node;
mod open;
mod path;
mod path_map;
mod precondition;
mod quota;
mod quota_check;
mod quote;
mod read_only;
mod reply;
mod runner;
mod snapshot;
mod state;
mod store;
mod store_error;
mod store_ext;
mod store_path;
mod text;
mod tool;
mod verify;
mod wire;

pub use actor::{Actor, ActorError, MAX_ACTOR_BYTES};
pub use batch::Batch;
pub use change::Change;
pub use command::{
    Command, CreateCommand, DeleteCommand, InsertCommand, RenameCommand, StrReplaceCommand, ViewCommand,
};
pub use command_name::CommandName;
pub use content::{Content, ContentBlock, ImageSource};
pub use context_editing::{BETA_HEADER, COMPACTION_BETA_HEADER, ClearToolUses, Compact, ContextAmount};
pub use definition::{CacheControl, TOOL_NAME, TOOL_TYPE, ToolDefinition};
pub use engine::{DEFAULT_MAX_VIEW_CHARACTERS, Engine, EngineBuilder};
pub use error::{Error, InputError, NotTextReason};
pub use file_size::DEFAULT_MAX_FILE_BYTES;
pub use in_memory::InMemoryStore;
pub use lines::{InsertLine, ViewRange};
pub use node::{
    FileEntry, FileTimes, Listing, Node, NodeKind, Stat, StoredFile, UnlistedItem, UnlistedReason, Version,
};
pub use open::{DEFAULT_TIMEOUT, OpenError, OpenMode, OpenOptions};
pub use path::{MAX_PATH_BYTES, MAX_SEGMENT_BYTES, MemoryPath, PathError};
pub use path_map::{PathMap, PathMapEdits, PathMapEntry};
pub use precondition::Precondition;
pub use quota::{Quota, QuotaKind, Usage};
pub use quote::{escape_unprintable, is_unprintable};
pub use read_only::ReadOnlyStore;
pub use reply::{DirectoryItem, DirectoryView, FileView, ImageView, Reply};
pub use runner::{Answer, ToolFailure, ToolRun, ToolRunner};
pub use snapshot::{CheckInputs, Snapshot};
pub use state::StoreState;
pub use store::{ReadOptions, Store};
pub use store_error::{BoxError, ErrorKind, FailureKind, InvalidBatch, StoreError};
pub use store_ext::StoreExt;
pub use store_path::StorePath;
pub use text::{Snippet, ViewCut};
pub use tool::MemoryTool;
pub use verify::{Problem, VerifyProgress, VerifyReport};
pub use wire::{RejectedToolUse, ToolResult, ToolUse};
