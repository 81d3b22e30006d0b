#![doc = include_str!("../README.md")]
#![doc(test(attr(deny(warnings))))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod backend;
mod builder;
mod command_queue;
mod dry_run;
mod home;
#[cfg(feature = "policies")]
mod layers;
mod memory;
mod notify;
#[cfg(feature = "options")]
mod options;
mod redaction;
mod store_url;
#[cfg(feature = "transfer")]
mod transfer;
#[cfg(feature = "encrypted")]
mod unprobed;

// The memory and its options.
pub use backend::Backend;
pub use builder::MemoryBuilder;
pub use home::{HomeError, expand_home};
#[cfg(feature = "policies")]
pub use layers::Expiring;
pub use memory::Memory;
pub use memory_tool_core::{
    DEFAULT_MAX_FILE_BYTES, DEFAULT_TIMEOUT, OpenError, OpenMode, OpenOptions, Problem, VerifyProgress, VerifyReport,
};
pub use notify::MemoryChange;
#[cfg(feature = "options")]
pub use options::{LogDetail, MemoryOptions, OptionsError, Screening};
pub use redaction::redact_credentials;
pub use store_url::{StoreUrl, StoreUrlError};
#[cfg(feature = "transfer")]
pub use transfer::{
    CopyOptions, CopyReport, Export, ExportReport, FileProblem, Import, ImportReport, TransferError, TransferProgress,
    WriteReport,
};
#[cfg(feature = "encrypted")]
pub use unprobed::KeysRequired;

#[cfg(all(fuzzing, feature = "transfer"))]
#[doc(hidden)]
pub use transfer::fuzzing;

// The tool and its calls.
pub use command_queue::{CommandQueue, Turn, TurnGuard};
pub use memory_tool_core::{
    Answer, CacheControl, Content, ContentBlock, ImageSource, MemoryTool, RejectedToolUse, TOOL_NAME, TOOL_TYPE,
    ToolDefinition, ToolFailure, ToolResult, ToolRun, ToolRunner, ToolUse,
};

// Commands and replies.
pub use memory_tool_core::{
    Command, CommandName, CreateCommand, DEFAULT_MAX_VIEW_CHARACTERS, DeleteCommand, DirectoryItem, DirectoryView,
    Engine, EngineBuilder, FileView, ImageView, InsertCommand, InsertLine, RenameCommand, Reply, Snippet,
    StrReplaceCommand, ViewCommand, ViewCut, ViewRange,
};

// Errors.
pub use memory_tool_core::{BoxError, Error, ErrorKind, FailureKind, InputError, NotTextReason, StoreError};

// Stores and their contents.
pub use memory_tool_core::{
    Actor, ActorError, Batch, Change, CheckInputs, FileEntry, InMemoryStore, InvalidBatch, Listing, MAX_ACTOR_BYTES,
    MAX_PATH_BYTES, MAX_SEGMENT_BYTES, MemoryPath, Node, NodeKind, PathError, PathMap, PathMapEdits, PathMapEntry,
    Precondition, Quota, QuotaKind, ReadOnlyStore, ReadOptions, Snapshot, Stat, Store, StoreExt, StorePath, StoreState,
    StoredFile, UnlistedItem, UnlistedReason, Usage, Version, escape_unprintable, is_unprintable,
};

// Context editing of the Messages API.
pub use memory_tool_core::{BETA_HEADER, COMPACTION_BETA_HEADER, ClearToolUses, Compact, ContextAmount};

#[cfg(any(feature = "azure", feature = "gcs", feature = "s3"))]
pub use memory_tool_bucket as bucket;
#[cfg(feature = "conformance")]
pub use memory_tool_conformance as conformance;
#[cfg(feature = "encrypted")]
pub use memory_tool_encrypted as encrypted;
#[cfg(feature = "local")]
pub use memory_tool_local as local;
#[cfg(feature = "policies")]
pub use memory_tool_policies as policies;
#[cfg(feature = "sqlite")]
pub use memory_tool_sqlite as sqlite;
