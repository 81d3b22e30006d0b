//! Limits: how much a memory may hold.

mod limited_store;
mod policy;

pub use limited_store::LimitedStore;
pub use policy::{DEFAULT_MAX_BYTES, DEFAULT_MAX_DEPTH, DEFAULT_MAX_FILE_BYTES, DEFAULT_MAX_FILES, Limits};
