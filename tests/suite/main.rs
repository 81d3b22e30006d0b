//! The conformance suite on what crosses crates: a [`Memory`](memory_tool::Memory), the store of an example, and the stores of this
//! machine under all policies at once, with generous settings. It has a `main` of its own, so that each case is a named test.
//!
//! A policy reaches a store only through [`Store`](memory_tool_core::Store), and each store passes the suite by itself, so each policy
//! on each store adds little: the long tier has those. Under a policy the cases of races run fewer races than they do on the store by
//! itself, for the same reason.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod custom_store;
mod memory;

use std::io;
use std::process::ExitCode;

use memory_tool_core::BoxError;
use memory_tool_test_fixtures::{EncryptedFixture, Fixtures, LocalFixture, Policy, SqliteFixture, Tier, Under};
use tracing_subscriber::filter::LevelFilter;

fn main() -> Result<ExitCode, BoxError> {
    // So that what is observed is put into words.
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
        fixtures.add(on("local"), |name| under(policy, local(name)));
        fixtures.add(on("sqlite"), |name| under(policy, sqlite(name)));
        fixtures.add(on("encrypted_local"), |name| under(policy, EncryptedFixture::over(local(name))));
        fixtures.add(on("encrypted_sqlite"), |name| under(policy, EncryptedFixture::over(sqlite(name))));
    }
    fixtures.run()
}

/// The stores of a fixture under the policy. The default tier leaves the cases that only read to the in-memory store.
fn under<F>(policy: Policy, beneath: F) -> Under<F> {
    let under = Under::new(policy, beneath);
    if Tier::current() == Tier::Default { under.only_changes() } else { under }
}
