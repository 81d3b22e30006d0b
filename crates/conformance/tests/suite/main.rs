//! The conformance suite on the in-memory store and on the tool over it, and tested itself on broken backends. It has a `main` of its
//! own, so that each case and each fault is a named test.

#![cfg(test)]

mod broken;
mod faults;
mod tool;

use std::process::ExitCode;

use memory_tool_core::BoxError;
use memory_tool_test_fixtures::{Fixtures, InMemoryFixture, Tier};

fn main() -> Result<ExitCode, BoxError> {
    if let Some(status) = broken::serve_when_asked() {
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
