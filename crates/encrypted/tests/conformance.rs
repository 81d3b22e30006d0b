//! The conformance suite on encrypted stores: over the in-memory store, over a local directory and over SQLite, without padding and
//! with it.

use std::process::ExitCode;

use memory_tool_core::BoxError;
use memory_tool_encrypted::Padding;
use memory_tool_test_fixtures::{EncryptedFixture, Fixtures, InMemoryFixture, LocalFixture, SqliteFixture};

fn main() -> Result<ExitCode, BoxError> {
    let mut fixtures = Fixtures::default();
    fixtures.add("in_memory", |name| EncryptedFixture::over(InMemoryFixture::new(name)));
    fixtures.add("local", |name| EncryptedFixture::over(LocalFixture::new(name)));
    fixtures.add("local_padded", |name| EncryptedFixture::over(LocalFixture::new(name)).padding(Padding::Padme));
    fixtures.add("sqlite", |name| EncryptedFixture::over(SqliteFixture::new(name)));
    fixtures.run()
}
