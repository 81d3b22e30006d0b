#![doc = include_str!("../README.md")]
#![doc(test(attr(deny(warnings))))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod background;
mod blocking;
mod bucket;
mod checkpoint;
mod cloud;
mod collector;
mod commit;
mod config;
mod contact;
mod content;
mod contention;
mod deadline;
mod diagnosis;
mod digest;
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure", test))]
mod environment;
mod failure;
mod format;
#[cfg(any(fuzzing, test))]
#[doc(hidden)]
pub mod fuzzing;
mod gc;
mod id;
mod inner;
mod keys;
mod loading;
mod log;
mod machine;
mod manifest;
mod open_failure;
mod opening;
mod other_prefixes;
mod parts;
mod polls;
mod queue;
mod repair;
mod restoration;
mod staging;
mod state;
mod store;
mod url_error;
mod verify;
mod warnings;
mod writer;

pub use config::{BucketStoreBuilder, DEFAULT_GRACE};
pub use gc::GcReport;
pub use open_failure::OpenFailure;
pub use other_prefixes::OtherPrefixes;
pub use repair::RepairReport;
pub use store::BucketStore;
pub use url_error::UrlError;
