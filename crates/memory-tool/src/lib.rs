#![doc = include_str!("../README.md")]
#![doc(test(attr(deny(warnings))))]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub use memory_tool_core::*;
pub use memory_tool_url as url;
pub use memory_tool_url::open;

#[cfg(feature = "conformance")]
pub use memory_tool_conformance as conformance;
#[cfg(feature = "encrypted")]
pub use memory_tool_encrypted as encrypted;
#[cfg(feature = "local")]
pub use memory_tool_local as local;
#[cfg(any(feature = "azure", feature = "gcs", feature = "s3"))]
pub use memory_tool_object_store as object_store;
#[cfg(feature = "policies")]
pub use memory_tool_policies as policies;
#[cfg(feature = "sqlite")]
pub use memory_tool_sqlite as sqlite;
