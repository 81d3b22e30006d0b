//! A store in a bucket of a real server, for the tests of each cloud.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod session;

use std::sync::Arc;

use memory_tool_test_servers::Server;
use object_store::{ObjectStore, RetryConfig};

/// What the target of each request for the index contains. Google's client encodes the dot.
pub(crate) const INDEX: &str = "index";

/// A client of the bucket past any proxy, which sends each request once.
pub(crate) fn client(server: &dyn Server) -> object_store::Result<Arc<dyn ObjectStore>> {
    server.client(server.url(), RetryConfig { max_retries: 0, ..RetryConfig::default() })
}
