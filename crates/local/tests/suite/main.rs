//! The conformance suite on the local store, and tests that start this program again or need special rights.

#![allow(
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test prints, and fails by panicking"
)]

mod call_counts;
mod descriptors;
mod mounts;
mod permissions;
mod power_loss;
#[path = "../it/support/mod.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod support;
mod system_calls;

use std::process::ExitCode;

use memory_tool_core::BoxError;
use memory_tool_local::LocalStore;
use memory_tool_test_fixtures::faults::{kill_writers, trial, write_until_killed};
use memory_tool_test_fixtures::{Fixtures, LocalFixture, Tier};

fn main() -> Result<ExitCode, BoxError> {
    write_until_killed(async |base| LocalStore::open(base).await.unwrap());
    let children = [
        system_calls::run_child,
        power_loss::run_child,
        call_counts::run_child,
        permissions::run_child,
        descriptors::run_child,
    ];
    if let Some(status) = children.iter().find_map(|run| run()) {
        return Ok(status);
    }
    let mut fixtures = Fixtures::default();
    fixtures.add_tests([trial("crash::kills_leave_no_partial_batch", true, "", kills_leave_no_partial_batch)]);
    fixtures.add_tests(permissions::trials().into_iter().chain(descriptors::trials()));
    if Tier::current() >= Tier::Full {
        fixtures.add_tests(system_calls::trials().chain(call_counts::trials()));
        fixtures.add_tests(power_loss::trials().chain(mounts::trials()));
    }
    fixtures.add("conformance", LocalFixture::new);
    fixtures.run()
}

/// Continues until a kill leaves a journal to be completed.
fn kills_leave_no_partial_batch() {
    let directory = tempfile::tempdir().unwrap();
    let journal = directory.path().join(".memory-tool/journal");
    let check = async |store: &LocalStore| assert_eq!(store.verify(|_| {}).await.unwrap().problems, []);
    kill_writers(directory.path(), async |base| LocalStore::open(base).await.unwrap(), |_| journal.exists(), 1, check);
}
