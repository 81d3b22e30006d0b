//! Runs the conformance suite on the in-memory store and on a tool over it, and tests the suite itself on broken
//! backends. The target has its own `main`, so that each case and each fault is a named test.

#![cfg(test)]

mod broken;
mod faults;
mod tool;

use std::process::ExitCode;

use memory_tool_core::BoxError;
use memory_tool_test_fixtures::{Fixtures, InMemoryFixture, Tier};

fn main() -> Result<ExitCode, BoxError> {
    if let Some(status) = broken::serve_if_requested() {
        return Ok(status);
    }
    let mut fixtures = Fixtures::default();
    if Tier::current() >= Tier::Full {
        fixtures.add_tests(faults::trials());
    }
    fixtures.add("in_memory", InMemoryFixture::new);
    fixtures.add_suite("tool", tool::suite());
    fixtures.run()
}
