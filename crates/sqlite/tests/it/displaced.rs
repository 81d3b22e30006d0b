//! Removal or replacement of the files of an open store: no change of a removed file is acknowledged.
#![cfg(unix)]

use std::fs;

use crate::support::{TestDirectory, database_of_the_test, path, read, start_test, write};
use memory_tool_core::{StoreError, StoreExt};
use memory_tool_sqlite::{OpenFailure, SqliteStore};

const FILES: [&str; 3] = ["memory.sqlite", "memory.sqlite-wal", "memory.sqlite-shm"];

/// A backup with the text `old`, and an open store with the text `new`. Both have used their connections.
async fn opened_with_backup() -> (TestDirectory, SqliteStore) {
    let (directory, store) = TestDirectory::opened().await;
    write(&store, "/memories/a", "old").await.unwrap();
    let backup = directory.path().join("backup");
    directory.connection().execute("VACUUM INTO ?1", [backup.to_str().unwrap()]).unwrap();
    write(&store, "/memories/a", "new").await.unwrap();
    assert_eq!(read(&store, "/memories/a").await.unwrap(), "new");
    (directory, store)
}

fn remove(directory: &TestDirectory, files: &[&str]) {
    for file in files {
        fs::remove_file(directory.path().join(file)).unwrap();
    }
}

#[tokio::test]
async fn a_removed_database_takes_no_change_and_is_not_created_again() {
    let (directory, store) = opened_with_backup().await;
    remove(&directory, &FILES);
    for _ in 0..2 {
        let refused = write(&store, "/memories/b", "b").await.unwrap_err();
        let StoreError::Failure { source, .. } = &refused else { panic!("{refused:?}") };
        assert!(matches!(source.downcast_ref(), Some(OpenFailure::NotFound)), "{refused:?}");
        store.read(&path("/memories/a")).await.unwrap_err();
    }
    drop(store);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "the backup");
}

/// As the documentation describes a restore, but with a store that was left open.
#[tokio::test]
async fn a_restored_database_is_read_and_changed_by_an_open_store() {
    for is_copied_in_place in [false, true] {
        let (directory, store) = opened_with_backup().await;
        let second = directory.open().await;
        assert_eq!(read(&second, "/memories/a").await.unwrap(), "new");
        remove(&directory, &FILES[1..]);
        if is_copied_in_place {
            fs::copy(directory.path().join("backup"), directory.database()).unwrap();
        } else {
            fs::rename(directory.path().join("backup"), directory.database()).unwrap();
        }
        for (store, at) in [(&store, "/memories/b"), (&second, "/memories/c")] {
            assert_eq!(read(store, "/memories/a").await.unwrap(), "old");
            write(store, at, "kept").await.unwrap();
        }
        drop((store, second));
        let fresh = directory.open().await;
        for at in ["/memories/b", "/memories/c"] {
            assert_eq!(read(&fresh, at).await.unwrap(), "kept", "in place: {is_copied_in_place}");
        }
        assert_eq!(fresh.verify(|_| {}).await.unwrap().problems, []);
    }
}

/// As by a program that cleans up. The changes in the log are lost, but no later ones.
#[tokio::test]
async fn changes_after_the_removal_of_the_log_are_kept() {
    let (directory, store) = opened_with_backup().await;
    remove(&directory, &FILES[1..]);
    let other = start_test("displaced::write_in_another_process", &directory.database());
    let run = other.wait_with_output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
    write(&store, "/memories/b", "kept").await.unwrap();
    drop(store);
    let fresh = directory.open().await;
    for at in ["/memories/b", "/memories/other"] {
        assert_eq!(read(&fresh, at).await.unwrap(), "kept");
    }
    assert_eq!(fresh.verify(|_| {}).await.unwrap().problems, []);
}

#[tokio::test]
#[ignore = "needs a database: run by `changes_after_the_removal_of_the_log_are_kept`"]
async fn write_in_another_process() {
    let store = SqliteStore::open(database_of_the_test()).await.unwrap();
    write(&store, "/memories/other", "kept").await.unwrap();
}
