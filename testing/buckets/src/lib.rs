//! Shared code of the tests on object-store servers: a [client] of a server's bucket, [`session`]s that serve a store
//! in it, broken stores that make a [`Mistake`], and the [`mod@reference`] with the expected replies.

mod mistake;
pub mod reference;
pub mod session;

pub use mistake::Mistake;

use std::sync::Arc;

use memory_tool_test_servers::Server;
use object_store::{ObjectStore, RetryConfig};

/// A part of the target of every request for the index. It has no dot, because Google's client encodes dots.
pub const INDEX: &str = "index";

/// Creates a client of the bucket, without a proxy or retries.
///
/// # Errors
/// The errors of `object_store`.
pub fn client(server: &dyn Server) -> object_store::Result<Arc<dyn ObjectStore>> {
    server.client(server.url(), RetryConfig { max_retries: 0, ..RetryConfig::default() })
}
