//! The conformance suite on a [`Memory`](memory_tool::Memory), on the store of an example, and on local stores under
//! all policies at once, with generous limits. Its custom `main` makes each case a named test.
//!
//! A policy uses a store only through [`Store`](memory_tool_core::Store), and each store passes the suite without
//! policies. Testing each policy on each store therefore adds little, so only the long tier does it.

#![cfg(test)]

mod custom_store;
mod memory;

use std::io;
use std::process::ExitCode;

use memory_tool_core::BoxError;
use memory_tool_test_fixtures::{EncryptedFixture, Fixtures, LocalFixture, Policy, SqliteFixture, Tier, Under};
use tracing_subscriber::filter::LevelFilter;

fn main() -> Result<ExitCode, BoxError> {
    // Formats every event, so that a panic in formatting is detected.
    tracing_subscriber::fmt().with_max_level(LevelFilter::DEBUG).with_writer(io::sink).init();
    let mut fixtures = Fixtures::default();
    if Tier::current() == Tier::Default {
        fixtures.leave_out("the_full_tier", "set MEMORY_TOOL_TESTS=full and run `cargo test --workspace`");
    }
    fixtures.add_suite("custom_store", custom_store::suite());
    fixtures.add_suite("memory", memory::suite());
    for policy in Policy::ALL {
        if policy != Policy::All && Tier::current() != Tier::Long {
            continue;
        }
        let on = |store| format!("{}::{store}", policy.name());
        let (local, sqlite) = (LocalFixture::new, SqliteFixture::new);
        let on_local = |name: &str| Under::new(policy, local(name));
        if Tier::current() != Tier::Default {
            fixtures.add(on("local"), on_local);
            fixtures.add_part(on("sqlite"), |name| Under::new(policy, sqlite(name)));
            fixtures.add_part(on("encrypted_local"), |name| Under::new(policy, EncryptedFixture::over(local(name))));
        }
        fixtures.add_part(on("encrypted_sqlite"), |name| Under::new(policy, EncryptedFixture::over(sqlite(name))));
    }
    fixtures.run()
}
