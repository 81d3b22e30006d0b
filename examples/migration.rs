//! Copies a memory from one backend to another, verifies each file and overwrites nothing.
//! Run it: `cargo run -p examples --example migration`
//!
//! Run it again to resume. `memory-tool copy` is the full version; `tests/it/migration.rs` tests this one.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;

use memory_tool::local::LocalStore;
use memory_tool::sqlite::SqliteStore;
use memory_tool::store::{Batch, Precondition, StorePath};
use memory_tool::{Node, Store, StoreError, StoreExt};

/// The result of a migration.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct Migrated {
    /// The number of files that were written.
    pub(crate) copied: usize,
    /// The number of files that existed with the same content.
    pub(crate) unchanged: usize,
    /// Files that existed with another content, and were not overwritten.
    pub(crate) conflicts: Vec<StorePath>,
}

/// Copies all files of one store into another.
pub(crate) async fn migrate(from: &dyn Store, to: &dyn Store) -> Result<Migrated, Box<dyn Error>> {
    let mut migrated = Migrated::default();
    for entry in from.list("/memories").await? {
        let path = entry.path;
        let Node::File(file) = from.read(&path).await? else { continue }; // removed after it was listed
        // `Precondition::Absent` prevents overwriting a file, even one that another process creates now.
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
            (true, false) => return Err(format!("{path} differs from the content that was written").into()),
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
