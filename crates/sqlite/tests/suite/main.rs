//! The conformance suite on the SQLite store, and tests that start this program again or need special rights.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod disks;
#[path = "../it/support/mod.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod support;

use std::process::ExitCode;

use memory_tool_core::BoxError;
use memory_tool_sqlite::SqliteStore;
use memory_tool_test_fixtures::faults::{kill_writers, kills, trial, write_until_killed};
use memory_tool_test_fixtures::{Fixtures, SqliteFixture, Tier};

use crate::support::TestDirectory;

fn main() -> Result<ExitCode, BoxError> {
    write_until_killed(async |database| SqliteStore::open(database).await.unwrap());
    if disks::run_child() {
        return Ok(ExitCode::SUCCESS);
    }
    let mut fixtures = Fixtures::default();
    fixtures.add_tests([trial("crash::kills_leave_no_partial_batch", true, "", kills_leave_no_partial_batch)]);
    if Tier::current() >= Tier::Full {
        fixtures.add_tests(disks::trials());
    }
    fixtures.add("conformance", SqliteFixture::new);
    fixtures.run()
}

/// Continues until a quarter of the kills come after an acknowledged batch.
fn kills_leave_no_partial_batch() {
    let open = async |database: &std::path::Path| SqliteStore::open(database).await.unwrap();
    let check = async |store: &SqliteStore| assert_eq!(store.verify(|_| {}).await.unwrap().problems, []);
    kill_writers(&TestDirectory::new().database(), open, |has_acknowledged| has_acknowledged, kills() / 4, check);
}
