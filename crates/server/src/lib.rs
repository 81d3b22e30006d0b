#![doc = include_str!("../README.md")]

mod access;
mod error;
mod memories;

pub use access::{Caller, Grant, Right};
pub use error::ApiError;
pub use memories::{Memories, OpenMemory};
