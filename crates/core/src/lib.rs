#![doc = include_str!("../README.md")]
#![doc(test(attr(deny(warnings))))]

mod api;
#[cfg(feature = "search")]
mod search;
mod simulation;
mod store;
mod tool;

pub use api::context_editing::{BETA_HEADER, COMPACTION_BETA_HEADER, ClearToolUses, Compact, ContextAmount};
pub use api::runner::{Answer, ToolFailure, ToolRun, ToolRunner};
pub use api::wire::{RejectedToolUse, ToolResult, ToolUse};
#[cfg(feature = "search")]
pub use search::{
    DEFAULT_MAX_LINE_CHARACTERS, DEFAULT_MAX_MATCHES, DEFAULT_MAX_SEARCHED_BYTES, Search, SearchedPart,
    pattern::{LetterCase, MAX_PATTERN_BYTES, MAX_PATTERN_WORDS, SearchError},
    report::{FoundLine, FoundPath, SearchReport, SkipReason, SkippedItem, StopReason},
};
#[doc(hidden)]
pub use simulation::*;
pub use store::actor::{Actor, ActorError, MAX_ACTOR_BYTES};
pub use store::batch::Batch;
pub use store::change::Change;
pub use store::error::{BoxError, ErrorKind, InvalidBatch, StoreError};
pub use store::ext::{IntoMemoryPath, StoreExt};
pub use store::file_size::DEFAULT_MAX_FILE_BYTES;
#[cfg(target_os = "linux")]
pub use store::file_system::FileSystem;
pub use store::in_memory::InMemoryStore;
#[doc(hidden)]
pub use store::lock::lock;
pub use store::memory_name::{MAX_MEMORY_NAME_BYTES, MemoryName, MemoryNameError};
pub use store::moment::{InvalidMoment, Moment};
pub use store::node::{
    FileEntry, FileTimes, Listing, Node, NodeKind, Stat, StoredFile, UnlistedItem, UnlistedReason, Version,
};
pub use store::open::{DEFAULT_TIMEOUT, OpenError, OpenMode, OpenOptions};
pub use store::path::MemoryPath;
pub use store::path_map::{PathMap, PathMapEdits, PathMapEntry};
pub use store::path_rules::{MAX_PATH_BYTES, MAX_SEGMENT_BYTES, PathError};
pub use store::precondition::Precondition;
#[doc(hidden)]
pub use store::private_file::refuse_others;
pub use store::quota::{Quota, QuotaKind, Usage};
pub use store::quote::{escape_unprintable, is_unprintable};
pub use store::read_only::ReadOnlyStore;
pub use store::snapshot::{CheckInputs, Snapshot};
pub use store::state::StoreState;
pub use store::store_path::StorePath;
pub use store::verify::{Problem, VerifyProgress, VerifyReport};
pub use store::{ReadOptions, Store};
pub use tool::MemoryTool;
pub use tool::command::{
    Command, CreateCommand, DeleteCommand, InsertCommand, RenameCommand, StrReplaceCommand, ViewCommand,
};
pub use tool::command_name::CommandName;
pub use tool::content::{Content, ContentBlock, ImageSource};
pub use tool::definition::{CacheControl, TOOL_NAME, TOOL_TYPE, ToolDefinition};
pub use tool::engine::{DEFAULT_MAX_VIEW_CHARACTERS, Engine, EngineBuilder, MAX_ATTEMPTS};
pub use tool::error::{Error, InputError, NotTextReason};
pub use tool::lines::{InsertLine, ViewRange};
pub use tool::reply::{DirectoryItem, DirectoryView, FileView, ImageView, Reply};
pub use tool::text::{Snippet, ViewCut};
pub use tool::with_commands::WithCommands;
