//! Tests that run the program `memory-tool`.

#![cfg(test)]

mod commands;
#[cfg(unix)]
mod completions;
mod container;
#[cfg(unix)]
mod damaged_stores;
#[cfg(unix)]
mod diff;
#[cfg(unix)]
mod edit;
#[cfg(unix)]
mod encrypted;
#[cfg(unix)]
mod files;
mod help;
#[cfg(unix)]
mod history;
#[cfg(unix)]
mod interruption;
#[cfg(unix)]
mod lint;
#[cfg(all(feature = "mcp", unix))]
mod mcp;
#[cfg(unix)]
mod memories;
mod policies;
#[cfg(target_os = "linux")]
mod process_memory;
#[cfg(unix)]
mod proposals;
mod protocol;
#[cfg(unix)]
mod readme;
mod search;
#[cfg(all(feature = "server", unix))]
mod serve;
#[cfg(all(feature = "server", unix))]
mod server;
mod stores;
#[cfg(unix)]
mod sync;
#[cfg(unix)]
mod terminal;
mod transfer;
mod usage;
mod verify;
