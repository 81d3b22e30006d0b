//! What a tool and its store do, for the operator: spans and events of [`tracing`], and metrics by the feature `metrics`.
//!
//! [`ObservedTool`] tells of each command, [`ObservedStore`] of each operation beneath it. Contents are never told, paths only
//! where [`with_paths`](ObservedTool::with_paths) asks for them.
//!
//! | | span | event, inside the span | metrics |
//! |---|---|---|---|
//! | a command | `memory_command`: `store`, `command`, and `path`, `new_path` where asked for | `outcome`, `error`, `duration_us`, `text_bytes`, `shown_bytes` | `memory_commands_total{store, command, outcome}`, `memory_command_seconds{store, command}` |
//! | an operation of the store | `memory_store`: `store`, `operation`, and `path` where asked for | `outcome`, `error`, `duration_us` | `memory_store_operations_total{store, operation, outcome}`, `memory_store_operation_seconds{store, operation}` |
//!
//! An `outcome` is `done`, `refused` (the command does not fit the state, or a policy forbids it), `failed` (the storage did) or
//! `dropped` (the caller stopped waiting; it may have been done). `error` is the kind of refusal or failure, such as `not_found`
//! or `busy`. Each attempt of an edit that met one of somebody else is an `apply` with the error `version_mismatch`, so retries are
//! counted by these.
//!
//! Commands are told at the level `INFO`, operations of the store at `DEBUG`, failures of either at `ERROR`.

mod names;
mod record;
mod store;
mod tool;

pub use store::ObservedStore;
pub use tool::ObservedTool;
