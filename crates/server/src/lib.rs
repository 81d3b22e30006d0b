#![doc = include_str!("../README.md")]

mod access;
mod admission;
mod api;
mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
mod hosts;
mod memories;
mod path;
mod server;
mod service;
mod tokens;
mod tool;

pub use access::{Grant, Right};
pub use memories::Memories;
pub use server::Server;
pub use tokens::{TokenEntry, TokenFile};
