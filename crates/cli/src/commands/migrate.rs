//! `memory-tool migrate`: creates or upgrades the tables of a database.

use std::io;

use clap::Args;
use memory_tool::OpenOptions;

use crate::failure::Failure;
use crate::memory;
use crate::options::StoreArgument;
use crate::terminal::interruption::{CLEANUP_TIME, run_until_interrupted};
use crate::terminal::output::write_line;

#[derive(Args, Debug)]
pub(crate) struct MigrateArguments {
    #[command(flatten)]
    pub(crate) store: StoreArgument,
}

/// Creates or upgrades the tables, and reports their version.
pub(crate) fn run(arguments: &MigrateArguments) -> Result<(), Failure> {
    let store = &arguments.store;
    memory::refuse_temporary(&store.url)?;
    let options = OpenOptions::new().timeout(store.timeout.timeout.0);
    let version =
        run_until_interrupted(CLEANUP_TIME, async { store.url.migrate(options).await.map_err(memory::failure) })?;
    match version {
        Some(version) => {
            let line = format!("the tables have version {version}").into_bytes();
            write_line(&mut io::stdout().lock(), line).map(|_| ())
        }
        None => Err(Failure::new("nothing to migrate: only PostgreSQL has tables that a program may not create")),
    }
}
