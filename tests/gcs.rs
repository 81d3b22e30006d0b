//! The conformance suite on a store in a bucket of Google Cloud Storage.

mod object_store;

use std::process::ExitCode;

use memory_tool_core::BoxError;
use memory_tool_test_servers::GcsServer;

fn main() -> Result<ExitCode, BoxError> {
    object_store::run_suite(GcsServer::start, object_store::NO_POLICIES)
}
