//! The conformance suite on the in-memory store under each policy, with generous settings; and one audit log of several processes,
//! whose tests start themselves again. They have a `main` of their own, so that each case is a named test.

#![cfg(test)]

mod audit_processes;

use std::io;
use std::process::ExitCode;

use memory_tool_core::BoxError;
use memory_tool_test_fixtures::{Fixtures, InMemoryFixture, Policy, Under};
use tracing_subscriber::filter::LevelFilter;

fn main() -> Result<ExitCode, BoxError> {
    if audit_processes::work_if_asked() {
        return Ok(ExitCode::SUCCESS);
    }
    // So that what is observed is put into words.
    tracing_subscriber::fmt().with_max_level(LevelFilter::DEBUG).with_writer(io::sink).init();
    let mut fixtures = Fixtures::default();
    fixtures.add_tests(audit_processes::trials());
    for policy in Policy::ALL {
        fixtures.add(policy.name(), |name| Under::new(policy, InMemoryFixture::new(name)));
    }
    fixtures.run()
}
