#![doc = include_str!("../README.md")]
#![doc(test(attr(deny(warnings))))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod backend;
#[cfg(feature = "layers")]
mod bounded;
mod builder;
mod change;
mod command_queue;
mod dry_run;
mod home;
#[cfg(feature = "layers")]
mod layers;
#[cfg(feature = "layers")]
pub mod lint;
mod memories;
mod memory;
mod named_store;
mod notify;
#[cfg(feature = "layers")]
mod options;
#[cfg(not(feature = "layers"))]
#[path = "options/without_layers.rs"]
mod options;
mod redaction;
#[cfg(feature = "layers")]
pub mod requests;
mod store_url;
#[cfg(feature = "layers")]
pub mod transfer;
mod watch;
#[cfg(not(feature = "layers"))]
mod without_layers;
mod wording;

pub use backend::Backend;
pub use builder::MemoryBuilder;
pub use change::{MemoryChange, Operation};
pub use home::{HomeError, expand_home};
#[cfg(feature = "layers")]
pub use layers::KeysRequired;
pub use memory::Memory;
pub use memory_tool_core::{
    Actor, Answer, BoxError, Engine, Error, ErrorKind, FileEntry, InMemoryStore, MemoryPath, MemoryTool, Node,
    OpenError, OpenMode, OpenOptions, PathError, Quota, Store, StoreError, StoreExt, ToolDefinition, ToolRunner, Usage,
};
#[doc(hidden)]
pub use memory_tool_core::{lock, refuse_others};
#[cfg(feature = "layers")]
pub use options::{LogDetail, MemoryOptions, OptionsError, Screening};
pub use redaction::redact_credentials;
pub use store_url::{StoreUrl, StoreUrlError};
pub use watch::Watch;

/// Calls of the tool as blocks of the Messages API, and context editing.
pub mod api {
    pub use memory_tool_core::{
        BETA_HEADER, COMPACTION_BETA_HEADER, CacheControl, ClearToolUses, Compact, Content, ContentBlock,
        ContextAmount, ImageSource, RejectedToolUse, TOOL_NAME, TOOL_TYPE, ToolFailure, ToolResult, ToolRun, ToolUse,
    };
}

/// The commands of the tool, their replies and their order.
pub mod command {
    pub use memory_tool_core::{
        Command, CommandName, CreateCommand, DEFAULT_MAX_VIEW_CHARACTERS, DeleteCommand, DirectoryItem, DirectoryView,
        EngineBuilder, FileView, ImageView, InputError, InsertCommand, InsertLine, NotTextReason, RenameCommand, Reply,
        Snippet, StrReplaceCommand, ViewCommand, ViewCut, ViewRange,
    };

    pub use crate::command_queue::{CommandQueue, Turn, TurnGuard};
}

/// Contents of stores, and types for authors of stores.
pub mod store {
    pub use memory_tool_core::{
        ActorError, Batch, Change, CheckInputs, DEFAULT_MAX_FILE_BYTES, DEFAULT_TIMEOUT, FileTimes, InvalidBatch,
        InvalidMoment, Listing, MAX_ACTOR_BYTES, MAX_ATTEMPTS, MAX_MEMORY_NAME_BYTES, MAX_PATH_BYTES,
        MAX_SEGMENT_BYTES, MemoryName, MemoryNameError, Moment, NodeKind, PathMap, PathMapEdits, PathMapEntry,
        Precondition, Problem, QuotaKind, ReadOnlyStore, ReadOptions, Snapshot, Stat, StorePath, StoreState,
        StoredFile, UnlistedItem, UnlistedReason, VerifyProgress, VerifyReport, Version, escape_unprintable,
        is_unprintable,
    };
}

#[cfg(any(feature = "azure", feature = "gcs", feature = "s3"))]
pub use memory_tool_bucket as bucket;
#[cfg(feature = "conformance")]
pub use memory_tool_conformance as conformance;
#[cfg(feature = "layers")]
pub use memory_tool_encrypted as encrypted;
#[cfg(feature = "layers")]
pub use memory_tool_history as history;
#[cfg(feature = "local")]
pub use memory_tool_local as local;
#[cfg(feature = "layers")]
pub use memory_tool_policies as policies;
#[cfg(feature = "postgres")]
pub use memory_tool_postgres as postgres;
#[cfg(feature = "layers")]
pub use memory_tool_proposals as proposals;
#[cfg(feature = "sqlite")]
pub use memory_tool_sqlite as sqlite;

/// Search of a memory.
#[cfg(feature = "layers")]
pub mod search {
    pub use memory_tool_core::{
        DEFAULT_MAX_LINE_CHARACTERS, DEFAULT_MAX_MATCHES, DEFAULT_MAX_SEARCHED_BYTES, FoundLine, FoundPath, LetterCase,
        MAX_PATTERN_BYTES, MAX_PATTERN_WORDS, Search, SearchError, SearchReport, SearchedPart, SkipReason, SkippedItem,
        StopReason,
    };
}
