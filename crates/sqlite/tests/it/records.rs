//! Records, and the times in listings.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::support::{TestDirectory, name, path, write};
use memory_tool_core::{
    Batch, FileEntry, Node, OpenOptions, Precondition, ReadOptions, RecordName, Store, StoreError, StoreExt,
};
use memory_tool_sqlite::SqliteStore;

fn record(name: &str) -> RecordName {
    name.parse().unwrap()
}

async fn content(store: &SqliteStore, name: &RecordName) -> Option<Vec<u8>> {
    store.read_record(name).await.unwrap().map(|record| record.content)
}

/// This includes records that were removed and written again.
#[tokio::test]
async fn each_content_of_a_record_has_its_own_version() {
    let directory = TestDirectory::new();
    let (store, name) = (directory.open().await, record("a/b"));
    let mut versions = Vec::new();
    for _ in 0..3 {
        for batch in [Batch::new().write_record(name.clone(), "same"), Batch::new().write_record(name.clone(), "same")]
        {
            store.apply(batch).await.unwrap();
            versions.push(store.read_record(&name).await.unwrap().unwrap().version);
        }
        store.apply(Batch::new().remove_record(name.clone())).await.unwrap();
        assert_eq!(content(&store, &name).await, None);
    }
    for (index, version) in versions.iter().enumerate() {
        assert!(!versions[..index].contains(version), "{versions:?}");
    }
    store.apply(Batch::new().write_record(name.clone(), "same")).await.unwrap();
    for stale in versions {
        let batch = Batch::new().require_record(name.clone(), Precondition::Version(stale));
        let refused = store.apply(batch.write(path("/memories/a"), "a")).await.unwrap_err();
        assert!(matches!(refused, StoreError::RecordMismatch { .. }), "{refused:?}");
    }
    assert_eq!(store.list("/memories").await.unwrap(), []);
}

#[tokio::test]
async fn another_program_can_replace_but_not_update_a_record() {
    let directory = TestDirectory::new();
    let (store, name) = (directory.open().await, record("a"));
    store.apply(Batch::new().write_record(name.clone(), "ours")).await.unwrap();
    let version = store.read_record(&name).await.unwrap().unwrap().version;
    let other = directory.connection();
    assert!(other.execute("UPDATE record SET bytes = x'00'", ()).is_err());
    other.execute("INSERT OR REPLACE INTO record (store, name, bytes) VALUES ('default', 'a', x'00')", ()).unwrap();
    let replaced = store.read_record(&name).await.unwrap().unwrap();
    assert_eq!(replaced.content, [0]);
    assert_ne!(replaced.version, version);
}

#[tokio::test]
async fn each_memory_has_its_own_records() {
    let directory = TestDirectory::new();
    let store = directory.open().await;
    let (alice, bob) = (store.memory(name("alice")), store.memory(name("bob")));
    for (store, text) in [(&alice, "of alice"), (&bob, "of bob")] {
        write(store, "/memories/a", "text").await.unwrap();
        store.apply(Batch::new().write_record(record("a"), text)).await.unwrap();
    }
    alice.remove("/memories").await.unwrap();
    assert_eq!(content(&alice, &record("a")).await.unwrap(), b"of alice");
    alice.apply(Batch::new().remove_record(record("a"))).await.unwrap();
    assert_eq!(content(&bob, &record("a")).await.unwrap(), b"of bob");
    assert_eq!(store.memory_names().await.unwrap(), [name("bob")], "a record alone does not list a memory");
}

#[tokio::test]
async fn an_oversized_record_is_neither_read_nor_written() {
    let directory = TestDirectory::new();
    directory.open().await.apply(Batch::new().write_record(record("large"), vec![0; 9])).await.unwrap();
    let limited = SqliteStore::builder(directory.database()).options(OpenOptions::new().max_file_bytes(8));
    let limited = limited.open().await.unwrap();
    assert!(limited.read_record(&record("large")).await.is_err());
    assert!(limited.apply(Batch::new().write_record(record("new"), vec![0; 9])).await.is_err());
    limited.apply(Batch::new().write_record(record("large"), vec![0; 8])).await.unwrap();
    assert_eq!(content(&limited, &record("large")).await.unwrap(), [0; 8]);
}

#[tokio::test]
async fn verify_reports_records_with_invalid_names() {
    let directory = TestDirectory::new();
    let store = directory.open().await;
    let insert = "INSERT INTO record (store, name, bytes) VALUES ('default', '../a', x''), ('', 'a', x'')";
    directory.connection().execute(insert, ()).unwrap();
    let problems = store.verify(|_| {}).await.unwrap().problems;
    assert_eq!(problems.len(), 2, "{problems:?}");
    let illegal = "invalid record \"../a\" in memory \"default\": ";
    assert!(problems.iter().any(|problem| problem.message.starts_with(illegal)), "{problems:?}");
}

/// Both files change in each batch. A read of one under the version of the other never sees a partial batch.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_read_under_preconditions_is_consistent() {
    let directory = TestDirectory::in_ram();
    let store = directory.open().await;
    let both = |text: String| Batch::new().write(path("/memories/a"), text.clone()).write(path("/memories/b"), text);
    store.apply(both(String::new())).await.unwrap();
    let writing = tokio::spawn({
        let store = store.clone();
        async move {
            for number in 0..500 {
                store.apply(both(number.to_string())).await.unwrap();
            }
        }
    });
    let mut agreed = 0;
    while !writing.is_finished() {
        let Node::File(a) = store.read("/memories/a").await.unwrap() else { panic!("a is there") };
        let options = ReadOptions::new().require(path("/memories/a"), Precondition::Version(a.version));
        match store.read_opts(&path("/memories/b"), options).await {
            Ok(Node::File(b)) => {
                assert_eq!(a.content, b.content);
                agreed += 1;
            }
            Err(StoreError::VersionMismatch { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    writing.await.unwrap();
    assert!(agreed > 0);
}

async fn only_file(store: &SqliteStore) -> FileEntry {
    let mut files = store.list("/memories").await.unwrap();
    assert_eq!(files.len(), 1);
    files.remove(0)
}

#[tokio::test]
async fn a_listing_has_the_times_of_creation_and_of_the_last_write() {
    let directory = TestDirectory::new();
    let store = directory.open().await;
    let before = SystemTime::now() - Duration::from_millis(1);
    write(&store, "/memories/a", "text").await.unwrap();
    let created = only_file(&store).await;
    assert!(created.created.is_some() && created.created == created.modified, "{created:?}");
    assert!(created.created.unwrap() >= before && created.created.unwrap() <= SystemTime::now());
    directory.connection().execute("UPDATE file SET created_at = 1, modified_at = 2", ()).unwrap();
    store.rename("/memories/a", "/memories/d/b").await.unwrap();
    let renamed = only_file(&store).await;
    let at = |milliseconds| Some(UNIX_EPOCH + Duration::from_millis(milliseconds));
    assert_eq!((renamed.created, renamed.modified), (at(1), at(2)));
    write(&store, "/memories/d/b", "same").await.unwrap();
    let written = only_file(&store).await;
    assert_eq!(written.created, at(1));
    assert!(written.modified.unwrap() >= before, "{written:?}");
    directory.connection().execute("UPDATE file SET created_at = -1, modified_at = 9223372036854775807", ()).unwrap();
    assert_eq!(only_file(&store).await.created, None);
}
