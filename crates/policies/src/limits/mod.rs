//! Quotas for a whole store.

mod default_quota;
mod limited_store;

pub use default_quota::{
    DEFAULT_QUOTA_BYTES, DEFAULT_QUOTA_DEPTH, DEFAULT_QUOTA_FILE_BYTES, DEFAULT_QUOTA_FILES, default_quota,
};
pub use limited_store::LimitedStore;
