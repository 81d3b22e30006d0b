#![doc = include_str!("../README.md")]

mod access;
mod files;
mod fronts;
#[cfg(fuzzing)]
pub mod fuzzing;
mod http;
mod memories;
mod options;
mod server;
mod service;

#[cfg(feature = "mcp")]
pub use access::issuer::{AccessRule, IssuerOptions, IssuerUrl};
pub use access::mounts::{Groups, Mount};
pub use access::public_url::PublicUrl;
pub use access::tokens::{TokenEntry, TokenFile};
pub use access::{Grant, Right};
#[cfg(feature = "mcp")]
pub use fronts::mcp::{Mcp, McpError};
pub use http::tls::TlsFiles;
pub use options::{ConfigurationError, Listen, MemoryQuota, Network, ServerLimits, ServerOptions};
pub use server::Server;
