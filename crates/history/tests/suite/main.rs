//! The conformance suite on stores with a history: in-process, local, SQLite, and encrypted over both.

#![cfg(test)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kills;

use std::process::ExitCode;

use memory_tool_core::BoxError;
use memory_tool_test_fixtures::{
    EncryptedFixture, Fixtures, InMemoryFixture, LocalFixture, Policy, SqliteFixture, Tier, Under,
};

fn main() -> Result<ExitCode, BoxError> {
    kills::write_if_requested();
    let mut fixtures = Fixtures::default();
    fixtures.add_tests(kills::trials());
    fixtures.add("in_memory", |name| Under::new(Policy::History, InMemoryFixture::new(name)));
    if Tier::current() >= Tier::Full {
        fixtures.add("local", |name| Under::new(Policy::History, LocalFixture::new(name)));
        fixtures.add("sqlite", |name| Under::new(Policy::History, SqliteFixture::new(name)));
        let encrypted_local = |name: &str| EncryptedFixture::over(LocalFixture::new(name));
        fixtures.add_part("encrypted_local", |name| Under::new(Policy::History, encrypted_local(name)));
        let encrypted_sqlite = |name: &str| EncryptedFixture::over(SqliteFixture::new(name));
        fixtures.add_part("encrypted_sqlite", |name| Under::new(Policy::History, encrypted_sqlite(name)));
    }
    fixtures.run()
}
