#![doc = include_str!("../README.md")]

mod access;
mod admission;
mod api;
mod connections;
mod error;
mod hosts;
#[cfg(feature = "mcp")]
mod mcp;
mod memories;
mod server;
mod service;
mod tokens;
mod tool;

pub use access::{Caller, Grant, Right};
pub use error::ApiError;
#[cfg(feature = "mcp")]
pub use mcp::{Mcp, McpError};
pub use memories::{Memories, OpenMemory};
pub use server::Server;
pub use tokens::{TokenEntry, TokenFile};
