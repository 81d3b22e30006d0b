#![doc = include_str!("../README.md")]

mod access;
mod admission;
mod api;
mod error;
mod followed;
#[cfg(fuzzing)]
pub mod fuzzing;
mod health;
mod hosts;
mod listener;
mod memories;
mod metrics;
mod options;
mod page;
mod path;
mod proxies;
mod server;
mod service;
mod tls;
mod tokens;
mod tool;
mod upkeep;

pub use access::{Grant, Right};
pub use options::{ConfigurationError, Listen, Network, ServerLimits, ServerOptions, TlsFiles};
pub use server::Server;
pub use tokens::{TokenEntry, TokenFile};
