//! The conformance suite on a store in a bucket of S3, served by ministack.

mod object_store;

use std::process::ExitCode;

use memory_tool_core::BoxError;
use memory_tool_test_servers::S3Server;

fn main() -> Result<ExitCode, BoxError> {
    object_store::run_suite(S3Server::start, object_store::NO_POLICIES)
}
