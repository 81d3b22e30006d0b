#![doc = include_str!("../README.md")]
#![doc(test(attr(deny(warnings))))]

mod config;
mod environment;
mod failure;
mod files;
mod pool;
mod recent;
mod schema;
mod store;
mod tls;
mod transaction;
mod url;
mod verify;

pub use config::PostgresStoreBuilder;
pub use failure::OpenFailure;
pub use store::PostgresStore;
pub use url::UrlError;
