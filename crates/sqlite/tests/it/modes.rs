//! Open modes: finding a database, and leaving it unchanged.

use std::fs;
use std::io::{BufRead as _, BufReader, stdin};
#[cfg(unix)]
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{TestDirectory, cause, database_of_the_test, name, path, read, start_test, write};
use memory_tool_core::{Batch, ErrorKind, OpenError, OpenMode, OpenOptions, Store, StoreError, StorePath};
use memory_tool_sqlite::{OpenFailure, SqliteStore};

async fn open(database: &Path, mode: OpenMode) -> Result<SqliteStore, OpenError> {
    SqliteStore::builder(database).options(OpenOptions::new().mode(mode)).open().await
}

async fn open_named(database: &Path, store: &str, mode: OpenMode) -> Result<SqliteStore, OpenError> {
    SqliteStore::builder(database).memory(name(store)).options(OpenOptions::new().mode(mode)).open().await
}

fn contents(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let mut contents: Vec<_> =
        entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect();
    contents.sort();
    contents
}

/// Copies some files of an open database to a new directory.
fn copy(directory: &TestDirectory, suffixes: &[&str]) -> TestDirectory {
    let copy = TestDirectory::new();
    for suffix in suffixes {
        let file = format!("memory.sqlite{suffix}");
        fs::copy(directory.path().join(&file), copy.path().join(&file)).unwrap();
    }
    copy
}

#[tokio::test]
async fn a_missing_database_is_not_created() {
    let directory = TestDirectory::new();
    for mode in [OpenMode::Existing, OpenMode::ReadOnly] {
        let error = open(&directory.path().join("typo/memory.sqlite"), mode).await.unwrap_err();
        assert!(error.is_not_found(), "{error:?}");
        let error = open(&directory.database(), mode).await.unwrap_err();
        assert!(error.is_not_found(), "{error:?}");
        assert_eq!(contents(directory.path()), []);
    }
    fs::write(directory.database(), "").unwrap();
    for mode in [OpenMode::Existing, OpenMode::ReadOnly] {
        assert!(open(&directory.database(), mode).await.unwrap_err().is_not_found());
        assert_eq!(contents(directory.path()), [("memory.sqlite".to_owned(), Vec::new())]);
    }
}

#[tokio::test]
async fn a_memory_without_a_file_is_not_found() {
    let (directory, store) = TestDirectory::opened().await;
    write(&store.memory(name("alice")), "/memories/a", "text").await.unwrap();
    for mode in [OpenMode::Existing, OpenMode::ReadOnly] {
        let error = open_named(&directory.database(), "typo", mode).await.unwrap_err();
        assert!(error.is_not_found(), "{error:?}");
        assert!(matches!(cause(&error), OpenFailure::NoSuchMemory { name } if name.as_str() == "typo"), "{error:?}");
        assert_eq!(
            read(&open_named(&directory.database(), "alice", mode).await.unwrap(), "/memories/a").await.unwrap(),
            "text"
        );
        assert_eq!(open(&directory.database(), mode).await.unwrap().verify(|_| {}).await.unwrap().problems, []);
    }
    write(&open_named(&directory.database(), "alice", OpenMode::Existing).await.unwrap(), "/memories/b", "b")
        .await
        .unwrap();
    open_named(&directory.database(), "new", OpenMode::Create).await.unwrap();
    let error = open(directory.path(), OpenMode::Existing).await.unwrap_err();
    assert!(!error.is_not_found(), "{error:?}");
}

/// Regardless of the files beside the database, none is created, changed or removed, and committed changes are visible.
#[tokio::test]
async fn a_read_only_store_writes_nothing() {
    let (directory, store) = TestDirectory::opened().await;
    write(&store, "/memories/first", "1").await.unwrap();
    directory.connection().query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(())).unwrap();
    write(&store, "/memories/second", "2").await.unwrap();
    for (suffixes, finds_second) in [
        (&["", "-wal", "-shm"][..], true),
        (&["", "-wal"], true), // as in a copy of a crashed machine's disk
        (&["", "-shm"], false),
        (&[""], false), // the log was lost
    ] {
        let copy = copy(&directory, suffixes);
        let before = contents(copy.path());
        let store = open(&copy.database(), OpenMode::ReadOnly).await.unwrap();
        assert_eq!(read(&store, "/memories/first").await.as_deref(), Some("1"), "{suffixes:?}");
        assert_eq!(read(&store, "/memories/second").await.is_some(), finds_second, "{suffixes:?}");
        assert_eq!(store.verify(|_| {}).await.unwrap().problems, [], "{suffixes:?}");
        store.apply(Batch::new()).await.unwrap();
        for batch in [
            Batch::new().write(path("/memories/third"), "3"),
            Batch::new().remove(path("/memories/first")),
            Batch::new().remove(StorePath::memories()),
        ] {
            let refused = store.apply(batch).await.unwrap_err();
            assert!(matches!(refused, StoreError::Failure { kind: ErrorKind::AccessDenied, .. }), "{refused:?}");
        }
        drop(store);
        assert_eq!(contents(copy.path()), before, "{suffixes:?}");
    }
}

#[tokio::test]
async fn a_read_only_store_sees_what_others_write() {
    let (directory, writer) = TestDirectory::opened().await;
    write(&writer, "/memories/a", "old").await.unwrap();
    let reader = open(&directory.database(), OpenMode::ReadOnly).await.unwrap();
    assert_eq!(read(&reader, "/memories/a").await.unwrap(), "old");
    write(&writer, "/memories/a", "new").await.unwrap();
    assert_eq!(read(&reader, "/memories/a").await.unwrap(), "new");
    drop(writer);
    let files = || fs::read_dir(directory.path()).unwrap().count();
    while files() > 1 {
        tokio::task::yield_now().await; // the writer closes the file and removes the log
    }
    assert_eq!(read(&reader, "/memories/a").await.unwrap(), "new");
    write(&directory.open().await, "/memories/a", "newest").await.unwrap();
    assert_eq!(read(&reader, "/memories/a").await.unwrap(), "newest");
}

/// A writer was killed between the header of the log and the first frame.
#[tokio::test]
async fn a_log_without_a_change_is_no_obstacle() {
    let directory = TestDirectory::new();
    write(&directory.open().await, "/memories/a", "text").await.unwrap();
    let beside = |suffix: &str| directory.path().join(format!("memory.sqlite{suffix}"));
    while beside("-wal").exists() {
        tokio::task::yield_now().await; // the writer closes the file and removes the log
    }
    let numbers = [0x377f_0682_u32, 3_007_000, 4_096, 0, 1, 2, 3, 4];
    fs::write(beside("-wal"), numbers.map(u32::to_be_bytes).concat()).unwrap();
    fs::write(beside("-shm"), vec![0; 32 * 1024]).unwrap();
    let opening = OpenOptions::new().read_only().timeout(Duration::from_secs(60));
    let reader = SqliteStore::builder(directory.database()).options(opening).open().await.unwrap();
    assert_eq!(read(&reader, "/memories/a").await.unwrap(), "text");
    write(&directory.open().await, "/memories/a", "new").await.unwrap();
    assert_eq!(read(&reader, "/memories/a").await.unwrap(), "new");
}

/// A reader that must not repair the shared memory, and sees it in the middle of a commit, waits for the writer.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_store_waits_for_the_end_of_a_commit() {
    let directory = TestDirectory::new();
    let mut writer = start_test("modes::hold_a_database_open", &directory.database());
    let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    while lines.next().unwrap().unwrap() != "open" {}
    let shared_memory = directory.path().join("memory.sqlite-shm");
    let before = fs::read(&shared_memory).unwrap();
    let change = |byte: u8| {
        let file = fs::File::options().write(true).open(&shared_memory).unwrap();
        file.write_all_at(&[byte], 8).unwrap(); // in the first copy of the header
    };
    change(!before[8]);
    let started = Instant::now();
    let opening = OpenOptions::new().read_only().timeout(Duration::from_millis(50));
    let busy = SqliteStore::builder(directory.database()).options(opening).open().await.unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::Busy, "{busy:?}");
    let reading = tokio::spawn({
        let database = directory.database();
        async move { read(&open(&database, OpenMode::ReadOnly).await.unwrap(), "/memories/a").await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    change(before[8]);
    assert_eq!(reading.await.unwrap().unwrap(), "text");
    assert!(started.elapsed() > Duration::from_millis(100));
    drop(writer.stdin.take());
    assert!(writer.wait().unwrap().success());
}

#[tokio::test]
#[ignore = "needs a database: run by `a_read_only_store_waits_for_the_end_of_a_commit`"]
async fn hold_a_database_open() {
    let store = SqliteStore::open(database_of_the_test()).await.unwrap();
    write(&store, "/memories/a", "text").await.unwrap();
    println!("\nopen");
    stdin().read_line(&mut String::new()).unwrap();
}

#[tokio::test]
async fn an_interrupted_change_is_not_undone_by_a_read_only_store() {
    let directory = TestDirectory::new();
    write(&directory.open().await, "/memories/a", "text").await.unwrap();
    fs::write(directory.path().join("memory.sqlite-journal"), "x").unwrap();
    let failure = open(&directory.database(), OpenMode::ReadOnly).await.unwrap_err();
    assert!(matches!(cause(&failure), OpenFailure::Failed { kind: ErrorKind::AccessDenied, .. }), "{failure:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn any_path_can_be_opened_read_only() {
    let directory = TestDirectory::new();
    for odd in [":memory:", "a?b=c#d%41 &é", "link"] {
        let database = directory.path().join(odd);
        if odd == "link" {
            std::os::unix::fs::symlink(directory.path().join(":memory:"), &database).unwrap();
        }
        write(&SqliteStore::open(&database).await.unwrap(), "/memories/a", odd).await.unwrap();
        assert_eq!(read(&open(&database, OpenMode::ReadOnly).await.unwrap(), "/memories/a").await.unwrap(), odd);
    }
}
