#![doc = include_str!("../README.md")]

mod access;
mod error;
mod memories;
#[expect(dead_code, reason = "the routes use it")]
mod service;

pub use access::{Caller, Grant, Right};
pub use error::ApiError;
pub use memories::{Memories, OpenMemory};
