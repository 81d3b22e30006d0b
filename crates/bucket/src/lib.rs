#![doc = include_str!("../README.md")]
#![doc(test(attr(deny(warnings))))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod blocking;
mod bucket;
mod cloud;
mod commit;
mod config;
mod content;
mod deadline;
mod diagnosis;
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure", test))]
mod environment;
mod failure;
#[cfg(any(fuzzing, test))]
#[doc(hidden)]
pub mod fuzzing;
mod gc;
mod id;
mod index;
mod inner;
mod keys;
mod machine;
mod open_failure;
mod probe;
mod staging;
mod store;
mod url_error;

pub use config::BucketStoreBuilder;
pub use gc::{DEFAULT_GRACE, GcReport};
pub use index::MAX_INDEX_BYTES;
pub use open_failure::OpenFailure;
pub use store::BucketStore;
pub use url_error::UrlError;
