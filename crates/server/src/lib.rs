#![doc = include_str!("../README.md")]

mod access;
mod admission;
mod api;
mod connections;
mod error;
mod folded;
mod followed;
#[cfg(fuzzing)]
pub mod fuzzing;
mod guard;
mod health;
mod hosts;
mod json;
mod listener;
#[cfg(feature = "mcp")]
mod mcp;
mod memories;
mod metrics;
mod offload;
mod options;
mod page;
mod path;
mod proxies;
mod record;
mod remainder;
mod server;
mod service;
mod tls;
mod tokens;
mod tool;
mod upkeep;

pub use access::{Grant, Right};
#[cfg(feature = "mcp")]
pub use mcp::{Mcp, McpError};
pub use options::{ConfigurationError, Listen, Network, ServerLimits, ServerOptions, TlsFiles};
pub use server::Server;
pub use tokens::{TokenEntry, TokenFile};
