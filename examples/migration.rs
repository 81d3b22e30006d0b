//! A memory moves from one backend to another: read, written where nothing is yet, verified; at any time again.
//! Run it: `cargo run -p examples --example migration`
//!
//! `memory-tool copy` does the same on the command line, and more. `tests/it/migration.rs` tests this file.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;

use memory_tool::local::LocalStore;
use memory_tool::sqlite::SqliteStore;
use memory_tool::{Batch, MemoryPath, Node, Precondition, Store, StoreError, StoreExt};

/// What became of the files.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct Migrated {
    /// Files that were written.
    pub(crate) copied: usize,
    /// Files that were there already, with the same bytes.
    pub(crate) unchanged: usize,
    /// Files that were there with other bytes, and stay so.
    pub(crate) conflicts: Vec<MemoryPath>,
}

/// Copies all files of one store into another.
pub(crate) async fn migrate(from: &dyn Store, to: &dyn Store) -> Result<Migrated, Box<dyn Error>> {
    let mut migrated = Migrated::default();
    for entry in from.list("/memories").await? {
        let path = entry.path;
        let Node::File(file) = from.read(&path).await? else { continue }; // removed since it was listed
        // Under `Precondition::Absent`, nothing is ever overwritten, whoever else writes at the same time.
        let write = Batch::new().require(path.clone(), Precondition::Absent).write(path.clone(), file.content.clone());
        let is_new = match to.apply(write).await {
            Ok(()) => true,
            Err(StoreError::AlreadyExists { .. }) => false,
            Err(error) => return Err(error.into()),
        };
        let is_same = matches!(to.read(&path).await?, Node::File(there) if there.content == file.content);
        match (is_new, is_same) {
            (true, true) => migrated.copied += 1,
            (false, true) => migrated.unchanged += 1,
            (true, false) => return Err(format!("{path} is not what was written").into()),
            (false, false) => migrated.conflicts.push(path),
        }
    }
    Ok(migrated)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let from = LocalStore::open("./memory").await?;
    let to = SqliteStore::open("./memory.db").await?;
    println!("{:?}", migrate(&from, &to).await?);
    Ok(())
}
