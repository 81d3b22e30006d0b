#![doc = include_str!("../README.md")]
#![doc(test(attr(deny(warnings))))]

mod config;
mod database;
mod failure;
mod files;
mod idle;
mod name;
mod private;
mod read_only;
mod schema;
mod store;
mod verify;

pub use config::{DEFAULT_BUSY_TIMEOUT, OpenError, OpenFailure, SqliteStoreBuilder};
pub use name::{MAX_STORE_NAME_BYTES, StoreName, StoreNameError};
pub use store::SqliteStore;
pub use verify::Problem;
