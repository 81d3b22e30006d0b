//! The conformance suite on the in-memory store under each policy, and tests of one audit log shared by several
//! processes.
//!
//! The custom `main` makes each case a named test, and lets a test start its own executable as another process.

#![cfg(test)]

mod audit_processes;

use std::io;
use std::process::ExitCode;

use memory_tool_core::BoxError;
use memory_tool_test_fixtures::{Fixtures, InMemoryFixture, Policy, Tier, Under};
use tracing_subscriber::filter::LevelFilter;

fn main() -> Result<ExitCode, BoxError> {
    if audit_processes::run_task_if_requested() {
        return Ok(ExitCode::SUCCESS);
    }
    // Makes sure that events are formatted.
    tracing_subscriber::fmt().with_max_level(LevelFilter::DEBUG).with_writer(io::sink).init();
    let mut fixtures = Fixtures::default();
    fixtures.add_tests(audit_processes::trials());
    for policy in Policy::ALL {
        let under = |name: &str| Under::new(policy, InMemoryFixture::new(name));
        if Tier::current() == Tier::Default && policy != Policy::All {
            fixtures.add_part(policy.name(), under);
        } else {
            fixtures.add(policy.name(), under);
        }
    }
    fixtures.run()
}
