#![doc = include_str!("../README.md")]
#![doc(test(attr(deny(warnings))))]

mod config;
mod disk;
mod failure;
#[cfg(any(fuzzing, test))]
#[doc(hidden)]
pub mod fuzzing;
mod journal;
mod layout;
mod lock;
mod name;
mod step;
mod store;
mod tally;
mod transaction;
mod tree;

pub use config::{DEFAULT_LOCK_TIMEOUT, LocalStoreBuilder, OpenError};
pub use store::LocalStore;
