//! What the tests on servers of object stores share: a [client] of a server's bucket, [`session`]s that serve a store in it,
//! stores that make a [`Mistake`], and the [`mod@reference`] that says what a store must reply.

mod mistake;
pub mod reference;
pub mod session;

pub use mistake::Mistake;

use std::sync::Arc;

use memory_tool_test_servers::Server;
use object_store::{ObjectStore, RetryConfig};

/// What the target of each request for the index contains. Google's client encodes the dot.
pub const INDEX: &str = "index";

/// A client of the bucket past any proxy, which sends each request once.
///
/// # Errors
/// Those of `object_store`.
pub fn client(server: &dyn Server) -> object_store::Result<Arc<dyn ObjectStore>> {
    server.client(server.url(), RetryConfig { max_retries: 0, ..RetryConfig::default() })
}
