//! Creates large stores, without the tools and without a flush per file.

use std::fs;
use std::path::Path;
use std::process::Command;

use memory_tool_core::{Batch, Store, StorePath};
use memory_tool_sqlite::SqliteStore;

use crate::contestant::{Contestant, database};
use crate::file_floor::with_parent;
use crate::sqlite_floor::SqliteFloor;
use crate::workloads::{LISTINGS, growth_store, listing_store};

/// The number of files in one transaction.
const BATCH: usize = 100_000;
const TEXT: &str = "a note\n";

/// Creates the stores that are listed and the growing stores.
pub(crate) fn create_stores(directory: &Path, growth: &[usize]) {
    for contestant in Contestant::ALL {
        let base = contestant.base(directory);
        for files in LISTINGS {
            let path = |number: usize| match files {
                100 => format!("/memories/note{number}.txt"),
                _ => format!("/memories/topic{}/note{number}.txt", number % 100),
            };
            fill(contestant, &base.join(listing_store(files)), &(0..files).map(path).collect::<Vec<_>>());
        }
        for &files in growth.iter().filter(|_| contestant.is_ours()) {
            let path = |number| format!("/memories/project{}/topic{}/note{number}.txt", number % 10, number % 1_000);
            fill(contestant, &base.join(growth_store(files)), &(0..files).map(path).collect::<Vec<_>>());
        }
    }
    let _ = Command::new("sync").status(); // so that the disk is idle when the measurement starts
}

fn fill(contestant: Contestant, store: &Path, paths: &[String]) {
    match contestant {
        Contestant::Sqlite => fill_sqlite(&database(store), paths),
        Contestant::SqliteFloor => SqliteFloor::open(&database(store)).fill(paths, TEXT),
        _ => {
            for path in paths {
                let path = store.join(&path[1..]);
                with_parent(&path, || fs::write(&path, TEXT)).unwrap();
            }
        }
    }
}

fn fill_sqlite(database: &Path, paths: &[String]) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store = runtime.block_on(SqliteStore::open(database)).unwrap();
    for paths in paths.chunks(BATCH) {
        let batch =
            paths.iter().fold(Batch::new(), |batch, path| batch.write(path.parse::<StorePath>().unwrap(), TEXT));
        runtime.block_on(store.apply(batch)).unwrap();
    }
}
