#![doc = include_str!("../README.md")]
#![doc(test(attr(deny(warnings))))]

mod caching;
mod config;
mod database;
mod failure;
mod file_system;
mod files;
mod open_files;
mod permissions;
mod pool;
mod read_only;
mod schema;
mod shared_memory;
mod sidecar;
mod store;
mod verify;

pub use config::SqliteStoreBuilder;
pub use failure::OpenFailure;
pub use store::SqliteStore;
