#![doc = include_str!("../README.md")]
#![doc(test(attr(deny(warnings))))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod open;
mod store_url;

pub use open::{OpenError, open};
pub use store_url::{StoreUrl, StoreUrlError};
