//! The conformance suite on a store in a bucket of Azure, served by Azurite.

mod object_store;

use std::process::ExitCode;

use memory_tool_core::BoxError;
use memory_tool_test_servers::AzureServer;

fn main() -> Result<ExitCode, BoxError> {
    object_store::run_suite(AzureServer::start, object_store::NO_POLICIES)
}
