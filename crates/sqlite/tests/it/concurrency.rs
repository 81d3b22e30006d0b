//! `[X3]`: several tasks, stores and connections on one file behave as if their commands ran one after another. Readers
//! never wait.

use std::time::Duration;

use crate::support::{TestDirectory, call, name, read, write};
use memory_tool_core::{ErrorKind, OpenOptions, StoreError, StoreExt, StorePath};
use memory_tool_sqlite::SqliteStore;
use serde_json::json;

const PROCESSES: usize = 8;
/// The limit for operations that should not wait, below the timeout of the store.
const MAX_WAIT: Duration = Duration::from_secs(20);

/// All of them open it at the moment of its creation.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn many_tasks_can_open_a_new_file() {
    for _ in 0..20 {
        let directory = TestDirectory::in_ram();
        let open = |number: usize| {
            let database = directory.database();
            tokio::spawn(async move {
                let store = SqliteStore::open(database).await.unwrap();
                write(&store, &format!("/memories/{number}"), "text").await.unwrap();
            })
        };
        for opening in (0..PROCESSES).map(open).collect::<Vec<_>>() {
            opening.await.unwrap();
        }
        assert_eq!(directory.open().await.list(&StorePath::memories()).await.unwrap().len(), PROCESSES);
    }
}

#[tokio::test]
async fn readers_do_not_wait_for_a_writer() {
    let (directory, store) = TestDirectory::opened().await;
    write(&store, "/memories/a", "old").await.unwrap();
    let other = directory.connection();
    other.execute_batch("BEGIN IMMEDIATE; DELETE FROM file").unwrap();
    let writing = tokio::spawn({
        let store = store.clone();
        async move { write(&store, "/memories/b", "new").await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let reading = async {
        assert_eq!(read(&store, "/memories/a").await.unwrap(), "old");
        assert_eq!(store.list(&StorePath::memories()).await.unwrap().len(), 1);
        assert_eq!(
            read(&directory.open().await, "/memories/a").await.unwrap(),
            "old",
            "a new store does not wait either"
        );
    };
    tokio::time::timeout(MAX_WAIT, reading).await.unwrap();
    assert!(!writing.is_finished());
    other.execute_batch("COMMIT").unwrap();
    writing.await.unwrap().unwrap();
    assert_eq!(read(&store, "/memories/a").await, None);
}

#[tokio::test]
async fn a_lock_that_is_never_released_is_an_error() {
    let directory = TestDirectory::new();
    let store = SqliteStore::builder(directory.database())
        .options(OpenOptions::new().timeout(Duration::from_millis(50)))
        .open()
        .await
        .unwrap();
    let other = directory.connection();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let create = json!({"command": "create", "path": "/memories/a", "file_text": "a"});
    let busy = "Error: The memory storage is busy. Nothing was changed. Try again.";
    assert_eq!(call(&store, create.clone()).await, busy);
    let all_at_once = (0..10).map(|number| {
        let store = store.clone();
        tokio::spawn(async move { write(&store, &format!("/memories/{number}"), "text").await })
    });
    let all_at_once: Vec<_> = all_at_once.collect();
    let refused = async {
        for writing in all_at_once {
            let refused = writing.await.unwrap();
            assert!(matches!(refused, Err(StoreError::Failure { kind: ErrorKind::Busy, .. })), "{refused:?}");
        }
    };
    tokio::time::timeout(MAX_WAIT, refused).await.expect("they wait concurrently");
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(call(&store, create).await, "File created successfully at: /memories/a");
    assert_eq!(store.list(&StorePath::memories()).await.unwrap().len(), 1);
}

/// Writers wait without a thread, so readers and other stores proceed even with few blocking threads.
#[test]
fn waiting_writers_do_not_occupy_the_threads() {
    let directory = TestDirectory::new();
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = directory.open().await;
        let other = directory.connection();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let writers = (0..50).map(|number| {
            let store = store.memory(name(&format!("tenant {number}")));
            tokio::spawn(async move { write(&store, "/memories/a", "text").await })
        });
        let writers: Vec<_> = writers.collect();
        tokio::time::sleep(Duration::from_millis(50)).await;
        let reading = tokio::time::timeout(MAX_WAIT, read(&store, "/memories/a"));
        assert_eq!(reading.await.expect("a thread is free"), None);
        other.execute_batch("COMMIT").unwrap();
        for writer in writers {
            writer.await.unwrap().unwrap();
        }
        assert_eq!(store.memory_names().await.unwrap().len(), 50);
    });
}
