//! The native module of the package `memory-tool` for Node.js: its side of the crate `memory-tool`.
//!
//! The classes that programs use are in `ts`, and call this module.

pub mod answer;
pub mod call;
pub mod conformance;
pub mod memory;
pub mod opening;
pub mod queue;
pub mod store;
pub mod watch;

use std::ffi::OsString;

use napi_derive::napi;

/// Runs the program `memory-tool` with these arguments, the name of the program included. Returns its exit status.
#[napi]
pub fn run_program(arguments: Vec<String>) -> u8 {
    memory_tool_cli::run(arguments.into_iter().map(OsString::from))
}
