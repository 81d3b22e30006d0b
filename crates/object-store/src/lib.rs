#![doc = include_str!("../README.md")]
#![doc(test(attr(deny(warnings))))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod bucket;
mod cloud;
mod config;
mod content;
mod deadline;
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure", test))]
mod environment;
mod failure;
#[cfg(any(fuzzing, test))]
#[doc(hidden)]
pub mod fuzzing;
mod gc;
mod id;
mod index;
mod keys;
mod large;
mod machine;
mod probe;
mod shared;
mod store;
mod swap;

pub use cloud::UrlError;
pub use config::{BucketStoreBuilder, DEFAULT_DEADLINE, OpenError, OpenFailure};
pub use gc::{DEFAULT_GRACE, GcReport};
pub use index::MAX_INDEX_BYTES;
pub use store::BucketStore;
