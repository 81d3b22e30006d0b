//! Files whose contents another program removed: reading them is an error, and they can be removed, renamed or written.

use std::fs;
use std::process::Command;

use crate::support::{TestDirectory, call, name, path, read, write};
use memory_tool_core::{
    Batch, Engine, ErrorKind, MemoryTool, Node, Precondition, Store, StoreError, StoreExt, StorePath,
};
use memory_tool_sqlite::SqliteStore;
use serde_json::json;

const LOST: &str = "/memories/d/lost";

/// A store with a file whose content is missing, and two intact files.
async fn damaged(directory: &TestDirectory) -> SqliteStore {
    let store = directory.open().await;
    for file in [LOST, "/memories/d/whole", "/memories/other"] {
        write(&store, file, "text").await.unwrap();
    }
    lose(directory, LOST);
    store
}

/// Removes the content of a file, as a program might that ignores the schema.
fn lose(directory: &TestDirectory, file: &str) {
    let other = directory.connection();
    other.pragma_update(None, "foreign_keys", false).unwrap();
    let lost =
        other.execute("DELETE FROM content WHERE id = (SELECT content_id FROM file WHERE path = ?1)", [file]).unwrap();
    assert_eq!(lost, 1);
}

async fn assert_damaged(store: &SqliteStore, file: &str) {
    let error = store.read(&path(file)).await.unwrap_err();
    assert!(matches!(error, StoreError::Failure { kind: ErrorKind::Damaged, .. }), "{error:?}");
}

#[tokio::test]
async fn a_damaged_file_is_listed_and_others_are_intact() {
    let directory = TestDirectory::new();
    let store = damaged(&directory).await;
    assert_damaged(&store, LOST).await;
    let listed = store.list(&StorePath::memories()).await.unwrap();
    assert!(listed.iter().any(|file| file.path == path(LOST)), "{listed:?}");
    assert_eq!(read(&store, "/memories/d/whole").await.unwrap(), "text");
    let reply = call(&store, json!({"command": "view", "path": LOST})).await;
    assert_eq!(reply, "Error: The memory storage holds damaged data here. Nothing was changed.");
}

#[tokio::test]
async fn a_damaged_file_can_be_written() {
    let directory = TestDirectory::new();
    let store = damaged(&directory).await;
    for content in ["a new text", "", "another"] {
        write(&store, LOST, content).await.unwrap();
        assert_eq!(read(&store, LOST).await.unwrap(), content);
        assert_eq!(store.verify(|_| {}).await.unwrap().problems, []);
        lose(&directory, LOST);
    }
    let overwriting = Engine::builder(store.clone()).create_overwrites(true).build();
    overwriting.call(json!({"command": "create", "path": LOST, "file_text": "by Claude"})).await.unwrap();
    assert_eq!(read(&store, LOST).await.unwrap(), "by Claude");
    assert_eq!(store.verify(|_| {}).await.unwrap().problems, []);
}

/// The time of creation stays, and the version is new.
#[tokio::test]
async fn a_rewritten_file_keeps_its_creation_time_and_gets_a_new_version() {
    let (directory, store) = TestDirectory::opened().await;
    write(&store, LOST, "text").await.unwrap();
    directory.connection().execute("UPDATE file SET created_at = 1", ()).unwrap();
    let Node::File(before) = store.read(&path(LOST)).await.unwrap() else { unreachable!() };
    lose(&directory, LOST);
    write(&store, LOST, "text").await.unwrap();
    let stale = Batch::new().require(path(LOST), Precondition::Version(before.version));
    let refused = store.apply(stale.write(path(LOST), "stale")).await.unwrap_err();
    assert!(matches!(refused, StoreError::VersionMismatch { .. }), "{refused:?}");
    let created: i64 = directory.connection().query_row("SELECT created_at FROM file", (), |row| row.get(0)).unwrap();
    assert_eq!(created, 1);
}

#[tokio::test]
async fn a_damaged_file_can_be_removed_alone_and_with_its_directory() {
    for removed in [LOST, "/memories/d", "/memories"] {
        let directory = TestDirectory::new();
        let store = damaged(&directory).await;
        store.apply(Batch::new().remove(path(removed))).await.unwrap();
        assert_eq!(store.read(&path(LOST)).await.unwrap(), Node::Absent);
        assert_eq!(store.verify(|_| {}).await.unwrap().problems, []);
    }
}

#[tokio::test]
async fn a_damaged_file_can_be_renamed_alone_and_with_its_directory() {
    for (from, to, now) in [(LOST, "/memories/e", "/memories/e"), ("/memories/d", "/memories/e", "/memories/e/lost")] {
        let directory = TestDirectory::new();
        let store = damaged(&directory).await;
        store.apply(Batch::new().rename(path(from), path(to))).await.unwrap();
        assert_eq!(store.read(&path(LOST)).await.unwrap(), Node::Absent);
        assert_damaged(&store, now).await;
        write(&store, now, "new").await.unwrap();
        assert_eq!(store.verify(|_| {}).await.unwrap().problems, []);
    }
}

/// A precondition cannot be checked against a missing content.
#[tokio::test]
async fn a_precondition_on_a_damaged_file_fails_as_damaged() {
    let (directory, store) = TestDirectory::opened().await;
    write(&store, LOST, "text").await.unwrap();
    let Node::File(before) = store.read(&path(LOST)).await.unwrap() else { unreachable!() };
    lose(&directory, LOST);
    for expected in [Precondition::Absent, Precondition::Version(before.version)] {
        let batch = Batch::new().require(path(LOST), expected).write(path(LOST), "new");
        let error = store.apply(batch).await.unwrap_err();
        assert!(matches!(error, StoreError::Failure { kind: ErrorKind::Damaged, .. }), "{error:?}");
        assert_damaged(&store, LOST).await;
    }
}

#[tokio::test]
async fn the_same_path_in_another_memory_is_unaffected() {
    let directory = TestDirectory::new();
    let store = damaged(&directory).await;
    let other = store.memory(name("other"));
    write(&other, LOST, "of the other").await.unwrap();
    write(&store, LOST, "new").await.unwrap();
    assert_eq!(read(&other, LOST).await.unwrap(), "of the other");
    assert_eq!(read(&store, LOST).await.unwrap(), "new");
    assert_eq!(store.verify(|_| {}).await.unwrap().problems, []);
}

/// The commands of the documentation, on a database whose pages of contents are partly overwritten.
#[cfg(unix)]
#[tokio::test]
async fn the_documented_way_recovers_what_is_intact() {
    let directory = TestDirectory::new();
    let store = directory.open().await;
    for number in 0..100 {
        write(&store, &format!("/memories/{number}"), &"y".repeat(2_000)).await.unwrap();
    }
    drop(store);
    directory.connection().query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(())).unwrap();
    let mut bytes = fs::read(directory.database()).unwrap();
    let is_content = |page: &&mut [u8]| page.windows(1_000).any(|window| window.iter().all(|&byte| byte == b'y'));
    bytes.chunks_mut(4_096).filter(is_content).nth(20).unwrap()[..100].fill(0xa5);
    fs::write(directory.database(), bytes).unwrap();
    let commands = include_str!("../../README.md").split_once("## Damage").unwrap().1.split("```").nth(1).unwrap();
    let run = Command::new("sh")
        .args(["-c", commands.strip_prefix("sh").unwrap()])
        .current_dir(directory.path())
        .output()
        .unwrap();
    if String::from_utf8_lossy(&run.stderr).contains("not found") {
        return; // there is no `sqlite3`
    }
    let recovered = SqliteStore::open(directory.path().join("recovered.sqlite")).await.unwrap();
    let problems = recovered.verify(|_| {}).await.unwrap().problems;
    assert!((1..10).contains(&problems.len()), "{problems:?}");
    assert!(problems.iter().all(|problem| problem.to_string().contains("has no content")), "{problems:?}");
    assert_eq!(recovered.list(&StorePath::memories()).await.unwrap().len(), 100);
    assert_eq!(read(&recovered, "/memories/0").await.unwrap().len(), 2_000);
    write(&recovered, "/memories/new", "text").await.unwrap();
}
