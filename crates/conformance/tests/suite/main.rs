//! Runs the conformance suite on the in-memory store and on a tool over it, and tests the suite itself on broken
//! backends. The target has its own `main`, so that each case and each fault is a named test.

#![allow(
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and a served program prints its responses"
)]

mod broken;
mod faults;
mod in_memory;
mod tool;

use std::process::ExitCode;

use memory_tool_core::BoxError;
use memory_tool_test_fixtures::{Fixtures, Tier};

fn main() -> Result<ExitCode, BoxError> {
    if let Some(status) = broken::serve_if_requested() {
        return Ok(status);
    }
    let mut fixtures = Fixtures::default();
    if Tier::current() >= Tier::Full {
        fixtures.add_tests(faults::trials());
    }
    fixtures.add_suite("in_memory", in_memory::suite());
    fixtures.add_suite("tool", tool::suite());
    fixtures.run()
}
