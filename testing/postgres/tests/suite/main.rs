//! The conformance suite on PostgreSQL, directly and through PgBouncer in transaction mode, and with encryption and
//! under policies. A pooler with few connections gives each transaction another one. The store without layers runs all
//! cases, and in the default tier those about batches. The others run those about changes. The long tier runs all cases
//! through the pooler and with encryption, too, and tests each policy.
//!
//! The name of a test has the layer, the store and the case, such as `all_policies::postgres::create::no-overwrite`.
//! The test starts and kills itself as another process that serves a store.

#![cfg(test)]
#![cfg(target_os = "linux")]

mod database;

use std::process::ExitCode;
use std::sync::Arc;

use database::{Database, PostgresFixture};
use memory_tool_conformance::Suite;
use memory_tool_core::BoxError;
use memory_tool_test_fixtures::{EncryptedFixture, Fixtures, Policy, Tier, Under};

/// The groups of cases that start no programs.
const CHANGES: [&str; 6] = ["create.", "str_replace.", "insert.", "delete.", "rename.", "store."];

fn main() -> Result<ExitCode, BoxError> {
    let database = Arc::new(Database::default());
    let mut fixtures = Fixtures::default();
    let direct = |name: &str| PostgresFixture::new(name, &database, false);
    if Tier::current() == Tier::Default {
        fixtures.add_part("postgres", direct);
    } else {
        fixtures.add("postgres", direct);
    }
    fixtures.add_part("pgbouncer", |name| PostgresFixture::new(name, &database, true));
    let encrypted = |name: &str| EncryptedFixture::over(PostgresFixture::new(name, &database, false));
    if Tier::current() == Tier::Long {
        fixtures.add_part("encrypted::postgres", encrypted);
    } else if Tier::current() == Tier::Full {
        // The cases about damage open the store hundreds of times.
        let suite = Suite::for_store(encrypted("encrypted::postgres"));
        fixtures.add_suite("encrypted::postgres", CHANGES.into_iter().fold(suite, Suite::filter));
    }
    for policy in Policy::ALL {
        if ![Policy::All, Policy::History].contains(&policy) && Tier::current() != Tier::Long {
            continue;
        }
        fixtures.add_part(format!("{}::postgres", policy.name()), |name| {
            let under = Under::new(policy, PostgresFixture::new(name, &database, false));
            if policy == Policy::All { under } else { under.only_changes() }
        });
    }
    fixtures.run()
}
