//! The conformance suite on the store of this crate.

use std::process::ExitCode;

use memory_tool_core::BoxError;
use memory_tool_test_fixtures::LocalFixture;

fn main() -> Result<ExitCode, BoxError> {
    memory_tool_test_fixtures::run(LocalFixture::new)
}
