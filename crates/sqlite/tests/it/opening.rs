//! Opening new files, files of every version, and files that are not memory stores. Errors leave the file unchanged.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{TestDirectory, call, cause, name, path, read, write};
use memory_tool_core::{Batch, ErrorKind, OpenError, OpenOptions, ReadOptions, Store, StoreError, StoreExt, StorePath};
use memory_tool_sqlite::{OpenFailure, SqliteStore};
use rusqlite::Connection;
use serde_json::json;

/// The contents of `tests/versions/{n}.sqlite`, written by the first release with schema version `n`.
const VERSIONS: [u32; 1] = [1];
const STORED: [(&str, &str, &str); 3] = [
    ("default", "/memories/notes/a.txt", "first\nsecond\n"),
    ("default", "/memories/é/b.txt", ""),
    ("user/1", "/memories/notes/a.txt", "another\n"),
];

/// A record of the memory `default`.
const RECORD: (&str, &str) = ("/records/wrapper/state", "of the wrapper");

async fn refusal(path: &Path) -> OpenError {
    SqliteStore::open(path).await.unwrap_err()
}

/// Copies the log into the file.
fn settle(directory: &TestDirectory) {
    let connection = directory.connection();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(())).unwrap();
}

#[tokio::test]
async fn a_file_of_every_version_is_read_verified_and_written() {
    for version in VERSIONS {
        let directory = TestDirectory::new();
        let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/versions/{version}.sqlite"));
        fs::copy(stored, directory.database()).unwrap();
        let store = directory.open().await;
        assert_eq!(store.verify(|_| {}).await.unwrap().problems, []);
        for (tenant, path, content) in STORED {
            let store = store.memory(name(tenant));
            assert_eq!(read(&store, path).await.as_deref(), Some(content));
            write(&store, path, "new").await.unwrap();
            assert_eq!(read(&store, path).await.as_deref(), Some("new"));
            write(&store, "/memories/new", "new").await.unwrap();
        }
        assert_eq!(store.list(&StorePath::memories()).await.unwrap().len(), 3);
        let record = store.read_opts(&RECORD.0.parse().unwrap(), ReadOptions::new()).await.unwrap().into_file();
        assert_eq!(record.map(|record| record.content), Some(RECORD.1.into()));
        assert_eq!(store.verify(|_| {}).await.unwrap().problems, []);
    }
}

/// Creates the stored file of the newest version, once, before its release: `cargo test -- --ignored store_a_file`.
#[tokio::test]
#[ignore = "writes to the tree"]
async fn store_a_file_of_the_newest_version() {
    let (directory, store) = TestDirectory::opened().await;
    for (tenant, path, content) in STORED {
        write(&store.memory(name(tenant)), path, content).await.unwrap();
    }
    store.apply(Batch::new().write(RECORD.0.parse::<StorePath>().unwrap(), RECORD.1)).await.unwrap();
    let version: u32 = directory.connection().query_row("PRAGMA user_version", (), |row| row.get(0)).unwrap();
    settle(&directory);
    let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/versions/{version}.sqlite"));
    fs::copy(directory.database(), stored).unwrap();
}

#[tokio::test]
async fn an_empty_file_becomes_a_store() {
    let directory = TestDirectory::new();
    fs::write(directory.database(), "").unwrap();
    write(&directory.open().await, "/memories/a", "text").await.unwrap();
    assert_eq!(read(&directory.open().await, "/memories/a").await.unwrap(), "text");
}

#[tokio::test]
async fn a_file_that_is_not_a_database_is_refused_and_unchanged() {
    let directory = TestDirectory::new();
    for content in [b"x".repeat(10), b"no database ".repeat(1_000)] {
        fs::write(directory.database(), &content).unwrap();
        assert!(matches!(cause(&refusal(&directory.database()).await), OpenFailure::NotADatabase));
        assert_eq!(fs::read(directory.database()).unwrap(), content);
    }
    fs::remove_file(directory.database()).unwrap();
    fs::create_dir(directory.database()).unwrap();
    let failure = refusal(&directory.database()).await;
    assert!(matches!(cause(&failure), OpenFailure::Failed { kind: ErrorKind::AccessDenied, .. }), "{failure:?}");
}

#[tokio::test]
async fn a_database_of_another_program_is_refused_and_unchanged() {
    for foreign in [
        "CREATE TABLE customer (name TEXT)",
        "PRAGMA application_id = 42",
        "PRAGMA user_version = 1",
        "CREATE TABLE file (store TEXT, path TEXT); PRAGMA user_version = 1",
    ] {
        let directory = TestDirectory::new();
        directory.connection().execute_batch(foreign).unwrap();
        let before = fs::read(directory.database()).unwrap();
        assert!(matches!(cause(&refusal(&directory.database()).await), OpenFailure::NotAStore), "{foreign}");
        assert_eq!(fs::read(directory.database()).unwrap(), before, "{foreign}");
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused_even_by_an_open_store() {
    let (directory, store) = TestDirectory::opened().await;
    write(&store, "/memories/a", "old").await.unwrap();
    directory.connection().execute_batch("PRAGMA user_version = 7").unwrap();
    let refused = write(&store, "/memories/a", "new").await.unwrap_err();
    assert!(matches!(refused, StoreError::Failure { kind: ErrorKind::Other, .. }), "{refused:?}");
    let failure = refusal(&directory.database()).await;
    assert!(matches!(cause(&failure), OpenFailure::NewerSchema { found: 7, known: 1 }), "{failure:?}");
    assert!(cause(&failure).to_string().contains("version 7"), "{failure:?}");
    directory.connection().execute_batch("PRAGMA user_version = 1").unwrap();
    assert_eq!(read(&store, "/memories/a").await.unwrap(), "old");
}

#[tokio::test]
async fn a_locked_database_is_busy() {
    let directory = TestDirectory::new();
    directory.connection().execute_batch("PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE; ROLLBACK").unwrap();
    let other = directory.connection();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let opening = SqliteStore::builder(directory.database())
        .options(OpenOptions::new().timeout(Duration::from_millis(50)))
        .open();
    let failure = opening.await.unwrap_err();
    assert!(matches!(cause(&failure), OpenFailure::Failed { kind: ErrorKind::Busy, .. }), "{failure:?}");
    let opening = tokio::spawn(SqliteStore::open(directory.database()));
    tokio::time::sleep(Duration::from_millis(50)).await;
    other.execute_batch("COMMIT").unwrap();
    opening.await.unwrap().unwrap();
}

#[tokio::test]
async fn damage_is_reported_and_intact_files_stay_readable() {
    let (directory, store) = TestDirectory::opened().await;
    write(&store, "/memories/first", "text").await.unwrap();
    write(&store, "/memories/large", &"x".repeat(1_000_000)).await.unwrap();
    for number in 0..100 {
        write(&store, &format!("/memories/{number}"), &"y".repeat(2_000)).await.unwrap();
    }
    drop(store);
    settle(&directory);
    let mut bytes = fs::read(directory.database()).unwrap();
    let is_content = |page: &&mut [u8]| page.windows(1_000).any(|window| window.iter().all(|&byte| byte == b'y'));
    let content = bytes.chunks_mut(4_096).filter(is_content).nth(10).unwrap();
    content[..100].fill(0xa5);
    fs::write(directory.database(), bytes).unwrap();
    let store = directory.open().await;
    assert_eq!(read(&store, "/memories/first").await.unwrap(), "text");
    let damaged = "Error: The memory storage holds damaged data here. Nothing was changed.";
    let mut replies = Vec::new();
    for number in 0..100 {
        replies.push(call(&store, json!({"command": "view", "path": format!("/memories/{number}")})).await);
    }
    let lost = replies.iter().filter(|reply| *reply == damaged).count();
    assert!((1..10).contains(&lost), "{lost}");
    assert_eq!(replies.iter().filter(|reply| reply.contains("yyy")).count(), 100 - lost);
    let problems = store.verify(|_| {}).await.unwrap().problems;
    assert!(problems[0].to_string().starts_with("SQLite: "), "{problems:?}");
}

/// Comparing each unreadable file with several listings would take minutes.
#[tokio::test]
async fn a_check_of_a_database_with_much_damage_ends() {
    let directory = TestDirectory::in_ram();
    let store = directory.open().await;
    let many = (0..8_000).map(|number| path(&format!("/memories/{number}")));
    store.apply(many.fold(Batch::new(), |batch, path| batch.write(path, "y".repeat(2_000)))).await.unwrap();
    drop(store);
    settle(&directory);
    let mut bytes = fs::read(directory.database()).unwrap();
    let is_content = |page: &&mut [u8]| page.windows(1_000).any(|window| window.iter().all(|&byte| byte == b'y'));
    bytes.chunks_mut(4_096).filter(is_content).for_each(|page| page[..100].fill(0xa5));
    fs::write(directory.database(), bytes).unwrap();
    let started = Instant::now();
    let problems = directory.open().await.verify(|_| {}).await.unwrap().problems;
    assert!(problems[0].to_string().starts_with("SQLite: "), "{problems:?}");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

/// Invalid rows of another program are reported and harmless.
#[tokio::test]
async fn verify_reports_invalid_rows() {
    let (directory, store) = TestDirectory::opened().await;
    for file in ["/memories/a", "/memories/b", "/memories/c"] {
        write(&store, file, "text").await.unwrap();
    }
    let other = directory.connection();
    other
        .execute_batch(
            "PRAGMA foreign_keys = OFF;
             INSERT INTO content VALUES
                 (10, 1, x'00'), (11, 1, x'00'), (12, 1, x'00'), (13, 1, x'00'), (14, 1, x'00'),
                 (15, 1, x'00'), (99, 1, x'00');
             INSERT INTO file VALUES ('default', '/memories/a/under', 1, 10, 0, 0),
                 ('default', 'elsewhere', 1, 11, 0, 0),
                 ('default', '/memories/../x', 1, 12, 0, 0), ('default', '/memories/x/', 1, 13, 0, 0),
                 ('', '/memories/x', 1, 14, 0, 0), ('default', '/records/../a', 1, 15, 0, 0);
             DELETE FROM content WHERE id = (SELECT content_id FROM file WHERE path = '/memories/b');
             UPDATE file SET size = 7 WHERE path = '/memories/c';",
        )
        .unwrap();
    let mut found: Vec<_> = store.verify(|_| {}).await.unwrap().problems.iter().map(ToString::to_string).collect();
    found.sort();
    let mut expected = [
        "/memories/a in memory default is a file, but /memories/a/under is under it",
        "/memories/b in memory default has no content",
        "/memories/.. cannot be listed: its name is not legal in a path of the memory",
        "/records/.. cannot be listed: its name is not legal in a path of the memory",
        "/memories/c in memory default has 4 bytes instead of 7",
        "/memories/x/ cannot be listed: its name is not legal in a path of the memory",
        "content 99 does not belong to any file",
        "invalid path \"/memories/x\" in memory \"\": the name of a memory must not be empty",
        "invalid path \"elsewhere\" in memory \"default\": Path must start with /memories, got: elsewhere",
    ];
    expected.sort();
    assert_eq!(found, expected);
    let damaged = store.read(&path("/memories/b")).await.unwrap_err();
    assert!(matches!(damaged, StoreError::Failure { kind: ErrorKind::Damaged, .. }), "{damaged:?}");
    let files = store.list(&StorePath::memories()).await.unwrap();
    assert_eq!(files.len(), 4, "rows with invalid paths are skipped: {files:?}");
    assert_eq!(store.memory_names().await.unwrap(), [name("default")]);
    store.apply(Batch::new().remove(StorePath::memories())).await.unwrap();
    let contents: i64 = other.query_row("SELECT count(*) FROM content", (), |row| row.get(0)).unwrap();
    assert_eq!(contents, 4, "of `elsewhere`, of the unnamed memory, of an invalid record, and of no file");
}

/// Without a new revision, a store would not detect the change.
#[tokio::test]
async fn a_content_cannot_be_changed_without_its_revision() {
    let directory = TestDirectory::new();
    write(&directory.open().await, "/memories/a", "text").await.unwrap();
    assert!(directory.connection().execute("UPDATE content SET bytes = x'00'", ()).is_err());
    let update = "UPDATE content SET bytes = x'00', revision = revision + 1";
    assert_eq!(directory.connection().execute(update, ()).unwrap(), 1);
}

#[tokio::test]
async fn the_view_shows_files_as_text() {
    let directory = TestDirectory::new();
    write(&directory.open().await, "/memories/a", "Grüße").await.unwrap();
    let sql = "SELECT memory, path, text, size, created, modified FROM file_text";
    let row: (String, String, String, i64, String, String) = directory
        .connection()
        .query_row(sql, (), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?)))
        .unwrap();
    assert_eq!((&*row.0, &*row.1, &*row.2, row.3), ("default", "/memories/a", "Grüße", 7));
    assert!(row.4.starts_with("20") && row.4.ends_with('Z') && row.4 <= row.5, "{row:?}");
}

/// SQLite gives these names a meaning: a database in RAM, a temporary database, a URI.
#[test]
fn every_path_is_a_file() {
    let directory = TestDirectory::new();
    let program = std::env::current_exe().unwrap();
    let test = ["--exact", "opening::open_odd_names", "--ignored"];
    let run = std::process::Command::new(program).args(test).current_dir(directory.path()).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
    let names = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    // The process may have ended before its connections were closed, which would remove the logs.
    let mut names: Vec<_> = names.filter(|name| !name.ends_with("-wal") && !name.ends_with("-shm")).collect();
    names.sort();
    assert_eq!(names, [":memory:", "file:a?mode=memory"]);
}

#[tokio::test]
#[ignore = "creates files in the current directory: run by `every_path_is_a_file`"]
async fn open_odd_names() {
    for odd in [":memory:", "file:a?mode=memory"] {
        write(&SqliteStore::open(odd).await.unwrap(), "/memories/a", "text").await.unwrap();
        assert_eq!(read(&SqliteStore::open(odd).await.unwrap(), "/memories/a").await.unwrap(), "text");
        let connection = Connection::open(Path::new(".").join(odd)).unwrap();
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(())).unwrap();
    }
    assert!(SqliteStore::open("").await.is_err());
}
