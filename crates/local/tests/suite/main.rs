//! The conformance suite on the local store, and tests that start themselves again as another process or report what
//! they cannot do here as ignored. They have a `main` of their own, so that each case is a named test.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test prints, and fails by panicking"
)]

mod batch_crash;
mod faults;
mod mounts;
#[path = "../it/support/mod.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod support;

use std::process::ExitCode;

use memory_tool_core::BoxError;
use memory_tool_test_fixtures::{Fixtures, LocalFixture, Tier};

fn main() -> Result<ExitCode, BoxError> {
    batch_crash::write_if_asked();
    if let Some(status) = faults::make_change_if_asked() {
        return Ok(status);
    }
    let mut fixtures = Fixtures::default();
    fixtures.add_tests([batch_crash::trial()]);
    if Tier::current() >= Tier::Full {
        fixtures.add_tests(faults::trials().chain(mounts::trials()));
    }
    fixtures.add("conformance", LocalFixture::new);
    fixtures.run()
}
