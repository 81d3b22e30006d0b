//! Records, and the times in listings.

use std::time::{Duration, UNIX_EPOCH};

use crate::support::{TestDirectory, name, write};
use memory_tool_core::{Batch, FileEntry, OpenOptions, ReadOptions, Store, StoreExt, StorePath};
use memory_tool_sqlite::SqliteStore;
use memory_tool_test_fixtures::record;

async fn content(store: &SqliteStore, name: &StorePath) -> Option<Vec<u8>> {
    store.read_opts(name, ReadOptions::new()).await.unwrap().into_file().map(|record| record.content)
}

#[tokio::test]
async fn each_memory_has_its_own_records() {
    let (_directory, store) = TestDirectory::opened().await;
    let (alice, bob) = (store.memory(name("alice")), store.memory(name("bob")));
    for (store, text) in [(&alice, "of alice"), (&bob, "of bob")] {
        write(store, "/memories/a", "text").await.unwrap();
        store.apply(Batch::new().write(record("a"), text)).await.unwrap();
    }
    alice.remove("/memories").await.unwrap();
    assert_eq!(content(&alice, &record("a")).await.unwrap(), b"of alice");
    alice.apply(Batch::new().remove(record("a"))).await.unwrap();
    assert_eq!(content(&bob, &record("a")).await.unwrap(), b"of bob");
    assert_eq!(store.memory_names().await.unwrap(), [name("bob")], "a memory without records and files is not listed");
}

#[tokio::test]
async fn an_oversized_record_is_neither_read_nor_written() {
    let directory = TestDirectory::new();
    directory.open().await.apply(Batch::new().write(record("large"), vec![0; 9])).await.unwrap();
    let limited = SqliteStore::builder(directory.database()).options(OpenOptions::new().max_file_bytes(8));
    let limited = limited.open().await.unwrap();
    assert!(limited.read_opts(&record("large"), ReadOptions::new()).await.is_err());
    assert!(limited.apply(Batch::new().write(record("new"), vec![0; 9])).await.is_err());
    limited.apply(Batch::new().write(record("large"), vec![0; 8])).await.unwrap();
    assert_eq!(content(&limited, &record("large")).await.unwrap(), [0; 8]);
}

async fn only_file(store: &SqliteStore) -> FileEntry {
    let mut files = store.list("/memories").await.unwrap();
    assert_eq!(files.len(), 1);
    files.remove(0)
}

#[tokio::test]
async fn a_listing_has_the_stored_times() {
    let (directory, store) = TestDirectory::opened().await;
    write(&store, "/memories/a", "text").await.unwrap();
    directory.connection().execute("UPDATE file SET created_at = 1, modified_at = 2", ()).unwrap();
    store.rename("/memories/a", "/memories/d/b").await.unwrap();
    let renamed = only_file(&store).await;
    let at = |milliseconds| Some(UNIX_EPOCH + Duration::from_millis(milliseconds));
    assert_eq!((renamed.created, renamed.modified), (at(1), at(2)));
    directory.connection().execute("UPDATE file SET created_at = -1, modified_at = 9223372036854775807", ()).unwrap();
    assert_eq!(only_file(&store).await.created, None);
}
