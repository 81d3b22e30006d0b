//! The conformance suite on the SQLite store, and tests that start themselves again as another process or report what
//! they cannot do here as ignored. They have a `main` of their own, so that each case is a named test.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test prints, and fails by panicking"
)]

mod crash;
mod disks;
#[path = "../it/support/mod.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod support;

use std::process::ExitCode;

use memory_tool_core::BoxError;
use memory_tool_test_fixtures::{Fixtures, SqliteFixture, Tier};

fn main() -> Result<ExitCode, BoxError> {
    crash::write_if_asked();
    if disks::run_child() {
        return Ok(ExitCode::SUCCESS);
    }
    let mut fixtures = Fixtures::default();
    fixtures.add_tests([crash::trial()]);
    if Tier::current() >= Tier::Full {
        fixtures.add_tests(disks::trials());
    }
    fixtures.add("conformance", SqliteFixture::new);
    fixtures.run()
}
