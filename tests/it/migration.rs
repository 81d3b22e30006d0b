//! Tests of `examples/migration.rs` between two backends.

#[path = "../../examples/migration.rs"]
#[allow(dead_code, reason = "its `main` is not used here")]
mod example;

use example::{Migrated, migrate};
use memory_tool_core::{Node, Store, StoreExt, StorePath};
use memory_tool_local::LocalStore;
use memory_tool_sqlite::SqliteStore;

fn path(name: &str) -> StorePath {
    StorePath::memories().join(name).unwrap()
}

async fn write(store: &dyn Store, name: &str, content: &[u8]) {
    store.write(path(name), content).await.unwrap();
}

#[tokio::test]
async fn migration_resumes_and_overwrites_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let from = LocalStore::open(directory.path().join("memory")).await.unwrap();
    let to = SqliteStore::open(directory.path().join("memory.db")).await.unwrap();
    for (name, content) in [("a", b"one".as_slice()), ("b", b"\xff"), ("c", b"mine")] {
        write(&from, name, content).await;
    }
    write(&to, "a", b"one").await;
    write(&to, "c", b"theirs").await;
    let conflicts = vec![path("c")];
    let first = migrate(&from, &to).await.unwrap();
    assert_eq!(first, Migrated { copied: 1, unchanged: 1, conflicts: conflicts.clone() });
    assert_eq!(migrate(&from, &to).await.unwrap(), Migrated { copied: 0, unchanged: 2, conflicts });
    for (name, content) in [("a", b"one".as_slice()), ("b", b"\xff"), ("c", b"theirs")] {
        let Node::File(copied) = to.read(path(name)).await.unwrap() else { panic!("{name} is not a file") };
        assert_eq!(copied.content, content);
    }
}
