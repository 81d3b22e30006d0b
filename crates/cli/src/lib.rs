//! The program `memory-tool` as a function, which the packages for Python and Node.js call too. Programs in Rust use
//! the crate `memory-tool` instead.

// Hidden modules are for the program `memory-tool-conformance`.
#[doc(hidden)]
pub mod command_line;
#[doc(hidden)]
pub mod commands;
mod differences;
#[doc(hidden)]
pub mod exit_status;
#[doc(hidden)]
pub mod failure;
mod files;
mod history;
mod log;
#[doc(hidden)]
pub mod memory;
#[doc(hidden)]
pub mod options;
mod others;
mod places;
mod protocol;
#[doc(hidden)]
pub mod terminal;
mod tool_command;
mod transfer;
mod warnings;

use std::ffi::OsString;

use crate::commands::Action;

pub use crate::log::start_log_of_package;

/// Runs the program with these arguments, the name of the program included. Returns its exit status.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    command_line::run(command_line::command(), arguments, |action: Action| action.run())
}
