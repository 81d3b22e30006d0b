//! Limits: how much a memory may hold.

mod default_quota;
mod limited_store;

pub use default_quota::{
    DEFAULT_MAX_BYTES, DEFAULT_MAX_DEPTH, DEFAULT_MAX_FILE_BYTES, DEFAULT_MAX_FILES, default_quota,
};
pub use limited_store::LimitedStore;
