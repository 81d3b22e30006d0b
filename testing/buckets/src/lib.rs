//! Shared code of the tests on object-store servers: a [client] of a server's bucket, and [`session`]s that serve a
//! store in it.

pub mod session;

use std::sync::Arc;

use memory_tool_test_servers::Server;
use object_store::{ObjectStore, RetryConfig};

/// A part of the path of every request for a commit.
pub const COMMIT: &str = "/log/00000";

/// A part of the path of every request for a checkpoint.
pub const CHECKPOINT: &str = "/checkpoints/00000";

/// Creates a client of the bucket that retries failed requests, because Azurite sometimes resets connections.
///
/// # Errors
/// The errors of `object_store`.
pub fn patient_client(server: &dyn Server) -> object_store::Result<Arc<dyn ObjectStore>> {
    server.client(server.url(), RetryConfig::default())
}

/// Creates a client of the bucket, without a proxy or retries.
///
/// # Errors
/// The errors of `object_store`.
pub fn client(server: &dyn Server) -> object_store::Result<Arc<dyn ObjectStore>> {
    server.client(server.url(), RetryConfig { max_retries: 0, ..RetryConfig::default() })
}
