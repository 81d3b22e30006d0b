#![doc = include_str!("../README.md")]
#![doc(test(attr(deny(warnings))))]

mod applying;
mod cached_read;
mod completion;
mod config;
mod directories;
mod disk;
mod failure;
mod file_system;
#[cfg(any(fuzzing, test))]
#[doc(hidden)]
pub mod fuzzing;
mod handles;
mod journal;
mod layout;
mod leftovers;
mod listing;
mod lock;
mod locked_files;
mod log;
mod logging;
mod name;
mod open_files;
mod probe;
mod removal;
mod sequence;
mod step;
mod store;
mod transaction;
mod tree;
mod undo;
mod usage_cache;
mod version_cache;
mod walk;

pub use config::LocalStoreBuilder;
pub use store::LocalStore;
