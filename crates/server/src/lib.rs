#![doc = include_str!("../README.md")]

mod access;
mod api;
mod error;
mod memories;
#[expect(dead_code, reason = "the routes use it")]
mod service;

pub use access::{Caller, Grant, Right};
pub use api::memory_stores;
pub use error::ApiError;
pub use memories::{Memories, OpenMemory};
