//! The conformance suite on memories whose changes wait: in-process, local, SQLite, encrypted over both, and in a
//! bucket.

#![cfg(test)]

mod bucket;

use std::process::ExitCode;

use memory_tool_conformance::Suite;
use memory_tool_core::BoxError;
use memory_tool_test_fixtures::{
    EncryptedFixture, Fixtures, InMemoryFixture, LocalFixture, Policy, SqliteFixture, Tier, Under,
};

fn main() -> Result<ExitCode, BoxError> {
    let mut fixtures = Fixtures::default();
    fixtures.add("in_memory", |name| Under::new(Policy::Proposals, InMemoryFixture::new(name)));
    if Tier::current() >= Tier::Full {
        fixtures.add("local", |name| Under::new(Policy::Proposals, LocalFixture::new(name)));
        fixtures.add("sqlite", |name| Under::new(Policy::Proposals, SqliteFixture::new(name)));
        let encrypted_local = |name: &str| EncryptedFixture::over(LocalFixture::new(name));
        fixtures.add_part("encrypted_local", |name| Under::new(Policy::Proposals, encrypted_local(name)));
        let encrypted_sqlite = |name: &str| EncryptedFixture::over(SqliteFixture::new(name));
        fixtures.add_part("encrypted_sqlite", |name| Under::new(Policy::Proposals, encrypted_sqlite(name)));
        fixtures.add_suite("bucket", Suite::for_store(bucket::BucketFixture::default()));
    }
    fixtures.run()
}
