//! What a mode of opening allows: which database it finds, and what it leaves unchanged.

use std::fs;
use std::path::Path;

use crate::support::{Place, cause, name, path, read, write};
use memory_tool_core::{Batch, FailureKind, MemoryPath, OpenError, OpenMode, OpenOptions, Store, StoreError};
use memory_tool_sqlite::{OpenFailure, SqliteStore};

async fn open(database: &Path, mode: OpenMode) -> Result<SqliteStore, OpenError> {
    SqliteStore::builder(database).options(OpenOptions::new().mode(mode)).open().await
}

async fn open_named(database: &Path, store: &str, mode: OpenMode) -> Result<SqliteStore, OpenError> {
    SqliteStore::builder(database).memory(name(store)).options(OpenOptions::new().mode(mode)).open().await
}

/// All files of a directory with their contents.
fn contents(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let mut contents: Vec<_> =
        entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect();
    contents.sort();
    contents
}

/// Copies some of the files of a database that is open into a directory.
fn copy(place: &Place, suffixes: &[&str]) -> Place {
    let copy = Place::new();
    for suffix in suffixes {
        let file = format!("memory.sqlite{suffix}");
        fs::copy(place.directory().join(&file), copy.directory().join(&file)).unwrap();
    }
    copy
}

#[tokio::test]
async fn what_is_not_there_is_not_found_and_not_created() {
    let place = Place::new();
    for mode in [OpenMode::Existing, OpenMode::ReadOnly] {
        let error = open(&place.directory().join("typo/memory.sqlite"), mode).await.unwrap_err();
        assert!(error.is_not_found(), "{error:?}");
        let error = open(&place.database(), mode).await.unwrap_err();
        assert!(error.is_not_found(), "{error:?}");
        assert_eq!(contents(place.directory()), []);
    }
    fs::write(place.database(), "").unwrap();
    for mode in [OpenMode::Existing, OpenMode::ReadOnly] {
        assert!(open(&place.database(), mode).await.unwrap_err().is_not_found());
        assert_eq!(contents(place.directory()), [("memory.sqlite".to_owned(), Vec::new())]);
    }
}

#[tokio::test]
async fn a_memory_without_a_file_is_not_found() {
    let place = Place::new();
    let store = place.open().await;
    write(&store.memory(name("alice")), "/memories/a", "text").await.unwrap();
    for mode in [OpenMode::Existing, OpenMode::ReadOnly] {
        let error = open_named(&place.database(), "typo", mode).await.unwrap_err();
        assert!(error.is_not_found(), "{error:?}");
        assert!(matches!(cause(&error), OpenFailure::NoSuchMemory { name } if name.as_str() == "typo"), "{error:?}");
        assert_eq!(
            read(&open_named(&place.database(), "alice", mode).await.unwrap(), "/memories/a").await.unwrap(),
            "text"
        );
        assert_eq!(open(&place.database(), mode).await.unwrap().verify(|_| {}).await.unwrap().problems, []);
    }
    write(&open_named(&place.database(), "alice", OpenMode::Existing).await.unwrap(), "/memories/b", "b")
        .await
        .unwrap();
    open_named(&place.database(), "new", OpenMode::Create).await.unwrap();
    let error = open(place.directory(), OpenMode::Existing).await.unwrap_err();
    assert!(!error.is_not_found(), "{error:?}");
}

/// Whatever files lie beside the database: none is created, changed or removed, and what was committed is found.
#[tokio::test]
async fn a_read_only_store_writes_nothing() {
    let place = Place::new();
    let store = place.open().await;
    write(&store, "/memories/first", "1").await.unwrap();
    place.connection().query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(())).unwrap();
    write(&store, "/memories/second", "2").await.unwrap();
    for (suffixes, finds_second) in [
        (&["", "-wal", "-shm"][..], true),
        (&["", "-wal"], true), // what a copy of a crashed machine's disk may hold
        (&["", "-shm"], false),
        (&[""], false), // the log was lost
    ] {
        let copy = copy(&place, suffixes);
        let before = contents(copy.directory());
        let store = open(&copy.database(), OpenMode::ReadOnly).await.unwrap();
        assert_eq!(read(&store, "/memories/first").await.as_deref(), Some("1"), "{suffixes:?}");
        assert_eq!(read(&store, "/memories/second").await.is_some(), finds_second, "{suffixes:?}");
        assert_eq!(store.verify(|_| {}).await.unwrap().problems, [], "{suffixes:?}");
        store.apply(Batch::new()).await.unwrap();
        for batch in [
            Batch::new().write(path("/memories/third"), "3"),
            Batch::new().remove(path("/memories/first")),
            Batch::new().remove(MemoryPath::root()),
        ] {
            let refused = store.apply(batch).await.unwrap_err();
            assert!(matches!(refused, StoreError::Failure { kind: FailureKind::AccessDenied, .. }), "{refused:?}");
        }
        drop(store);
        assert_eq!(contents(copy.directory()), before, "{suffixes:?}");
    }
}

#[tokio::test]
async fn a_read_only_store_sees_what_others_write() {
    let place = Place::new();
    let writer = place.open().await;
    write(&writer, "/memories/a", "old").await.unwrap();
    let reader = open(&place.database(), OpenMode::ReadOnly).await.unwrap();
    assert_eq!(read(&reader, "/memories/a").await.unwrap(), "old");
    write(&writer, "/memories/a", "new").await.unwrap();
    assert_eq!(read(&reader, "/memories/a").await.unwrap(), "new");
    drop(writer);
    let files = || fs::read_dir(place.directory()).unwrap().count();
    while files() > 1 {
        tokio::task::yield_now().await; // the writer closes the file, and removes the log
    }
    assert_eq!(read(&reader, "/memories/a").await.unwrap(), "new");
    write(&place.open().await, "/memories/a", "newest").await.unwrap();
    assert_eq!(read(&reader, "/memories/a").await.unwrap(), "newest");
}

#[tokio::test]
async fn an_interrupted_change_is_not_undone_by_a_read_only_store() {
    let place = Place::new();
    write(&place.open().await, "/memories/a", "text").await.unwrap();
    fs::write(place.directory().join("memory.sqlite-journal"), "x").unwrap();
    let failure = open(&place.database(), OpenMode::ReadOnly).await.unwrap_err();
    assert!(matches!(cause(&failure), OpenFailure::Failed { kind: FailureKind::AccessDenied, .. }), "{failure:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn any_path_can_be_opened_read_only() {
    let place = Place::new();
    for odd in [":memory:", "a?b=c#d%41 &é", "link"] {
        let database = place.directory().join(odd);
        if odd == "link" {
            std::os::unix::fs::symlink(place.directory().join(":memory:"), &database).unwrap();
        }
        write(&SqliteStore::open(&database).await.unwrap(), "/memories/a", odd).await.unwrap();
        assert_eq!(read(&open(&database, OpenMode::ReadOnly).await.unwrap(), "/memories/a").await.unwrap(), odd);
    }
}
