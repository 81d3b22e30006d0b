//! The conformance suite on encrypted stores over the in-memory store, a local directory and SQLite, with and without
//! padding. Also tests the locations of keys in process memory. A custom `main` makes each case a named test.

#![cfg(test)]

#[cfg(target_os = "linux")]
mod process_memory;

use std::process::ExitCode;

use memory_tool_core::BoxError;
use memory_tool_encrypted::Padding;
use memory_tool_test_fixtures::{EncryptedFixture, Fixtures, InMemoryFixture, LocalFixture, SqliteFixture, Tier};

fn main() -> Result<ExitCode, BoxError> {
    let is_full = Tier::current() >= Tier::Full;
    let mut fixtures = Fixtures::default();
    #[cfg(target_os = "linux")]
    {
        if process_memory::run_as_child() {
            return Ok(ExitCode::SUCCESS);
        }
        if is_full {
            fixtures.add_tests(process_memory::trials());
        }
    }
    fixtures.add("in_memory", |name| EncryptedFixture::over(InMemoryFixture::new(name)));
    let on_local = |name: &str| EncryptedFixture::over(LocalFixture::new(name));
    if is_full {
        fixtures.add("local", on_local);
        fixtures
            .add_part("local_padded", |name| EncryptedFixture::over(LocalFixture::new(name)).padding(Padding::Padme));
        fixtures.add_part("sqlite", |name| EncryptedFixture::over(SqliteFixture::new(name)));
    } else {
        fixtures.add_part("local", on_local);
    }
    fixtures.run()
}
