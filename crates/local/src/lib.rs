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
mod listing;
mod lock;
mod name;
mod records;
mod state;
mod step;
mod store;
mod transaction;
mod tree;
mod usage_cache;
mod walk;

pub use config::LocalStoreBuilder;
pub use store::LocalStore;
