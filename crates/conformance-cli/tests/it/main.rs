//! Tests that run the program `memory-tool-conformance`.

#![cfg(test)]

#[cfg(unix)]
mod action;
mod suite;
mod usage;

use std::process::Command;

/// The program without a default store.
fn program() -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_memory-tool-conformance"));
    program.env_remove("MEMORY_TOOL_STORE");
    program
}
