//! Creates large stores, without the tools and without a flush per file.

use std::fs;
use std::path::Path;
use std::process::Command;

use memory_tool_core::{Batch, Store};
use memory_tool_sqlite::SqliteStore;
use rusqlite::Connection;

use crate::contestant::Contestant;
use crate::worker::CREATE_TABLE;
use crate::workloads::{LISTINGS, growth_store, listing_store};

/// The number of files in one transaction.
const BATCH: usize = 100_000;
const TEXT: &str = "a note\n";

/// Creates the stores that are listed: one directory of files, and 100 directories of files.
pub(crate) fn listings(contestant: Contestant, directory: &Path) {
    for files in LISTINGS {
        let path = |number: usize| match files {
            100 => format!("/memories/note{number}.txt"),
            _ => format!("/memories/topic{}/note{number}.txt", number % 100),
        };
        fill(contestant, directory, &listing_store(files), (0..files).map(path));
    }
}

/// Creates a store of files in a tree.
pub(crate) fn growth(contestant: Contestant, directory: &Path, files: usize) {
    let path = |number| format!("/memories/project{}/topic{}/note{number}.txt", number % 10, number % 1_000);
    fill(contestant, directory, &growth_store(files), (0..files).map(path));
}

/// Waits for the disk, so that it is idle when the measurement starts.
pub(crate) fn flush() {
    let _ = Command::new("sync").status();
}

fn fill(contestant: Contestant, directory: &Path, store: &str, paths: impl Iterator<Item = String>) {
    let base = contestant.base(directory);
    fs::create_dir_all(&base).unwrap();
    let database = base.join(format!("{store}.sqlite"));
    match contestant {
        Contestant::Sqlite => fill_sqlite(&database, paths),
        Contestant::SqliteFloor => fill_table(&database, paths),
        _ => fill_directory(&base.join(store), paths),
    }
}

fn fill_directory(base: &Path, paths: impl Iterator<Item = String>) {
    for path in paths {
        let path = base.join(&path[1..]);
        if fs::write(&path, TEXT).is_err() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, TEXT).unwrap();
        }
    }
}

fn fill_sqlite(database: &Path, paths: impl Iterator<Item = String>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store = runtime.block_on(SqliteStore::open(database)).unwrap();
    let paths: Vec<_> = paths.collect();
    for paths in paths.chunks(BATCH) {
        let batch = paths.iter().fold(Batch::new(), |batch, path| batch.write(path.parse().unwrap(), TEXT));
        runtime.block_on(store.apply(batch)).unwrap();
    }
}

fn fill_table(database: &Path, paths: impl Iterator<Item = String>) {
    let mut connection = Connection::open(database).unwrap();
    connection.execute_batch(CREATE_TABLE).unwrap();
    let transaction = connection.transaction().unwrap();
    for path in paths {
        transaction.execute("INSERT INTO file (path, text) VALUES (?1, ?2)", [&path, TEXT]).unwrap();
    }
    transaction.commit().unwrap();
}
