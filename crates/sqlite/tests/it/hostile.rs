//! Hostile databases and files beside them: they run no code and change no other file.

use std::fs;
use std::path::Path;

use crate::support::{TestDirectory, call, cause, name, path, read, write};
use memory_tool_core::{
    Batch, ErrorKind, Node, OpenError, OpenMode, OpenOptions, Quota, ReadOptions, Store, StoreError, StoreExt,
    StorePath,
};
use memory_tool_sqlite::{OpenFailure, SqliteStore};

const MODES: [OpenMode; 3] = [OpenMode::Create, OpenMode::Existing, OpenMode::ReadOnly];

async fn refusal(database: &Path, mode: OpenMode) -> OpenError {
    SqliteStore::builder(database).options(OpenOptions::new().mode(mode)).open().await.unwrap_err()
}

/// A database with a file, which no program has open.
async fn database_with_a_file() -> TestDirectory {
    let directory = TestDirectory::new();
    write(&directory.open().await, "/memories/a", "text").await.unwrap();
    while fs::read_dir(directory.path()).unwrap().count() > 1 {
        tokio::task::yield_now().await; // a thread closes the database, which removes the log
    }
    directory
}

#[tokio::test]
async fn a_foreign_schema_is_refused_and_unchanged() {
    let to_a_view =
        "CREATE TABLE hidden AS SELECT * FROM file; DROP TABLE file; CREATE VIEW file AS SELECT * FROM hidden;";
    for (changed, object) in [
        (
            "CREATE TRIGGER evil AFTER INSERT ON file BEGIN DELETE FROM content WHERE id <> new.content_id; END",
            "DROP TRIGGER IF EXISTS \"evil\";",
        ),
        ("CREATE TRIGGER evil AFTER UPDATE ON content BEGIN INSERT INTO content VALUES (99, 1, x''); END", "\"evil\""),
        ("DROP TRIGGER revision_grows", "trigger \"revision_grows\""),
        ("CREATE TABLE more (a)", "DROP TABLE IF EXISTS \"more\";"),
        ("CREATE INDEX more ON file (size)", "DROP INDEX IF EXISTS \"more\";"),
        ("CREATE VIEW pragma_user_version AS SELECT 1 AS user_version", "DROP VIEW IF EXISTS \"pragma_user_version\";"),
        ("ALTER TABLE content ADD COLUMN more TEXT", "table \"content\""),
        ("ALTER TABLE file ADD COLUMN more INTEGER AS (size + 1) VIRTUAL", "table \"file\""),
        ("DROP VIEW file_text; CREATE VIEW file_text AS SELECT 1", "view \"file_text\""),
        (to_a_view, "view \"file\""),
        ("CREATE TABLE \"\u{1b}[2J\" (a)", "table \"\\u{1b}[2J\""),
        (
            "ANALYZE; PRAGMA writable_schema = ON;
             UPDATE sqlite_schema SET sql = 'CREATE TABLE sqlite_stat1(tbl,idx,stat,more)' WHERE name = 'sqlite_stat1'",
            "table \"sqlite_stat1\"",
        ),
        (
            // The stored text of the schema is changed directly.
            "PRAGMA writable_schema = ON;
             UPDATE sqlite_schema SET sql = replace(sql, 'DEFAULT 1', 'DEFAULT (random())') WHERE name = 'content'",
            "table \"content\"",
        ),
    ] {
        let directory = database_with_a_file().await;
        directory.connection().execute_batch(changed).unwrap();
        let before = fs::read(directory.database()).unwrap();
        for mode in MODES {
            let failure = refusal(&directory.database(), mode).await;
            assert!(is_foreign(cause(&failure)), "{changed}: {failure:?}");
            assert!(cause(&failure).to_string().contains(object), "{changed}: {failure}");
        }
        assert!(fs::read(directory.database()).unwrap() == before, "{changed}");
    }
}

fn is_foreign(failure: &OpenFailure) -> bool {
    matches!(failure, OpenFailure::ForeignSchema { .. } | OpenFailure::AddedObjects { .. })
}

/// The error of an operation on an open store after another program changed the schema.
fn assert_foreign<T: std::fmt::Debug>(result: Result<T, StoreError>, changed: &str) {
    let Err(StoreError::Failure { source, .. }) = &result else { panic!("{changed}: {result:?}") };
    assert!(source.downcast_ref().is_some_and(is_foreign), "{changed}: {source:?}");
}

/// An added trigger or view does not run in the next operation, on an old or a new connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_becomes_foreign_is_refused_by_the_next_operation() {
    for (changed, undone) in [
        (
            "CREATE TRIGGER evil AFTER INSERT ON file BEGIN DELETE FROM content WHERE id <> new.content_id; END",
            "DROP TRIGGER evil",
        ),
        ("CREATE TRIGGER evil AFTER UPDATE ON content BEGIN DELETE FROM file; END", "DROP TRIGGER evil"),
        ("ALTER TABLE file ADD COLUMN more INTEGER AS (size + 1) VIRTUAL", "ALTER TABLE file DROP COLUMN more"),
        ("ALTER TABLE file RENAME TO hidden; CREATE VIEW file AS SELECT * FROM hidden", ""),
        ("DROP TRIGGER revision_grows", ""),
        ("CREATE INDEX more ON file (size)", "DROP INDEX more"),
    ] {
        let directory = database_with_a_file().await;
        let (used, fresh) = (directory.open().await, directory.open().await);
        let reading = OpenOptions::new().read_only();
        let read_only = SqliteStore::builder(directory.database()).options(reading).open().await.unwrap();
        assert_eq!(read(&used, "/memories/a").await.unwrap(), "text");
        directory.connection().execute_batch(changed).unwrap();
        for store in [&used, &fresh, &read_only] {
            assert_foreign(store.read(&path("/memories/a")).await, changed);
            assert_foreign(store.list(&StorePath::memories()).await, changed);
            assert_foreign(store.read_opts(&"/records/test/a".parse().unwrap(), ReadOptions::new()).await, changed);
            assert_foreign(store.memory_names().await, changed);
            assert_foreign(store.verify(|_| {}).await, changed);
        }
        for store in [&used, &fresh] {
            assert_foreign(write(store, "/memories/a", "new").await, changed);
            assert_foreign(write(store, "/memories/b", "new").await, changed);
            assert_foreign(store.apply(Batch::new().remove(StorePath::memories())).await, changed);
        }
        if !undone.is_empty() {
            directory.connection().execute_batch(undone).unwrap();
            assert_eq!(read(&used, "/memories/a").await.unwrap(), "text", "{changed}");
            write(&fresh, "/memories/b", "new").await.unwrap();
        }
    }
}

/// `PRAGMA optimize`, which SQLite recommends to every program, and `ANALYZE` write statistics.
#[tokio::test]
async fn statistics_are_accepted() {
    let directory = database_with_a_file().await;
    let (used, fresh) = (directory.open().await, directory.open().await);
    assert_eq!(read(&used, "/memories/a").await.unwrap(), "text");
    for analyzed in ["ANALYZE", "PRAGMA optimize = 0x10002", "ANALYZE file; ANALYZE sqlite_schema"] {
        directory.connection().execute_batch(analyzed).unwrap();
        for store in [&used, &fresh, &directory.open().await] {
            write(store, "/memories/b", analyzed).await.unwrap();
            assert_eq!(read(store, "/memories/a").await.unwrap(), "text", "{analyzed}");
            assert_eq!(store.verify(|_| {}).await.unwrap().problems, [], "{analyzed}");
        }
    }
    let count: u32 =
        directory.connection().query_row("SELECT count(*) FROM sqlite_stat4", (), |row| row.get(0)).unwrap();
    assert!(count > 0);
    let reading = OpenOptions::new().read_only();
    let read_only = SqliteStore::builder(directory.database()).options(reading).open().await.unwrap();
    assert_eq!(read(&read_only, "/memories/a").await.unwrap(), "text");
}

/// The statements of the error remove what tools such as sqlite-utils add.
#[tokio::test]
async fn an_error_names_the_statements_that_remove_added_objects() {
    for added in [
        "CREATE TABLE more (a PRIMARY KEY); CREATE INDEX of_more ON more (a); CREATE VIEW \"a \"\" b\" AS SELECT 1",
        "CREATE INDEX idx_file_size ON file (size)",
        "CREATE VIRTUAL TABLE file_fts USING fts5(path, content=file);
         CREATE TRIGGER file_ai AFTER INSERT ON file BEGIN INSERT INTO file_fts (path) VALUES (new.path); END",
        "CREATE TABLE _counts (\"table\" TEXT PRIMARY KEY, count INTEGER DEFAULT 0);
         CREATE TRIGGER file_counts_insert AFTER INSERT ON file BEGIN
         INSERT OR REPLACE INTO _counts VALUES ('file', coalesce((SELECT count FROM _counts), 0) + 1); END",
    ] {
        let directory = database_with_a_file().await;
        directory.connection().execute_batch(added).unwrap();
        let failure = refusal(&directory.database(), OpenMode::Create).await;
        let OpenFailure::AddedObjects { removal } = cause(&failure) else { panic!("{added}: {failure:?}") };
        assert!(cause(&failure).to_string().contains(removal), "{failure}");
        directory.connection().execute_batch(removal).unwrap();
        let store = directory.open().await;
        assert_eq!(read(&store, "/memories/a").await.unwrap(), "text", "{removal}");
        write(&store, "/memories/a", "new").await.unwrap();
    }
}

#[tokio::test]
async fn a_schema_that_stays_the_same_is_accepted_under_a_new_number() {
    let directory = database_with_a_file().await;
    let store = directory.open().await;
    assert_eq!(read(&store, "/memories/a").await.unwrap(), "text");
    let number = || directory.connection().query_row("PRAGMA schema_version", (), |row| row.get::<_, i64>(0)).unwrap();
    let before = number();
    directory.connection().execute_batch("VACUUM").unwrap();
    assert_ne!(number(), before);
    assert_eq!(read(&store, "/memories/a").await.unwrap(), "text");
    write(&store, "/memories/a", "new").await.unwrap();
}

/// A journal may name another file, which SQLite removes after undoing the change.
#[tokio::test]
async fn a_journal_removes_no_other_file() {
    const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    let directory = database_with_a_file().await;
    let victim = directory.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let victims_name = victim.to_str().unwrap().as_bytes();
    let mut journal = MAGIC.to_vec();
    for number in [0_u32, 1, 2, 512, 4096] {
        journal.extend(number.to_be_bytes());
    }
    journal.resize(512, 0);
    journal.extend((0x4000_0000_u32 / 4096 + 1).to_be_bytes());
    journal.extend(victims_name);
    journal.extend((victims_name.len() as u32).to_be_bytes());
    journal.extend(victims_name.iter().map(|&byte| u32::from(byte)).sum::<u32>().to_be_bytes());
    journal.extend(MAGIC);
    for mode in MODES {
        fs::write(directory.path().join("memory.sqlite-journal"), &journal).unwrap();
        let opened = SqliteStore::builder(directory.database()).options(OpenOptions::new().mode(mode)).open().await;
        assert_eq!(fs::read(&victim).unwrap(), b"precious", "{mode:?}");
        let failure = opened.unwrap_err();
        assert!(matches!(cause(&failure), OpenFailure::Failed { kind: ErrorKind::AccessDenied, .. }), "{failure:?}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_with_another_hard_link_is_not_written() {
    for file in ["memory.sqlite", "memory.sqlite-wal", "memory.sqlite-shm", "memory.sqlite-journal"] {
        let directory = database_with_a_file().await;
        let own = directory.path().join(file);
        let other = directory.path().join("other");
        if !own.exists() {
            fs::write(&own, "").unwrap();
        }
        fs::hard_link(&own, &other).unwrap();
        let before = fs::read(&other).unwrap();
        for mode in [OpenMode::Create, OpenMode::Existing] {
            let failure = refusal(&directory.database(), mode).await;
            assert!(
                matches!(cause(&failure), OpenFailure::Failed { kind: ErrorKind::AccessDenied, .. }),
                "{failure:?}"
            );
        }
        assert!(fs::read(&other).unwrap() == before, "{file}");
    }
}

/// Links with the names of the files that SQLite keeps beside a database.
#[cfg(unix)]
#[tokio::test]
async fn links_beside_the_database_are_not_followed() {
    for ending in ["-wal", "-shm", "-journal"] {
        let directory = database_with_a_file().await;
        let victim = directory.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let file = directory.path().join(format!("memory.sqlite{ending}"));
        let _ = fs::remove_file(&file);
        std::os::unix::fs::symlink(&victim, &file).unwrap();
        if let Ok(store) = SqliteStore::builder(directory.database()).open().await {
            let _ = write(&store, "/memories/b", "text").await;
        }
        assert_eq!(fs::read(&victim).unwrap(), b"precious", "{ending}");
    }
}

/// Impossible sizes, and text that is not UTF-8.
#[tokio::test]
async fn invalid_rows_break_no_operation() {
    let directory = database_with_a_file().await;
    let store = directory.open().await;
    for file in ["/memories/b", "/memories/c", "/memories/d"] {
        write(&store, file, "text").await.unwrap();
    }
    directory
        .connection()
        .execute_batch(
            "UPDATE file SET size = 9223372036854775807 WHERE path IN ('/memories/a', '/memories/b');
             UPDATE file SET size = -1 WHERE path = '/memories/c';
             UPDATE file SET path = CAST(x'2f6d656d6f726965732fff' AS TEXT) WHERE path = '/memories/d';
             INSERT INTO content VALUES (50, 1, x'');
             INSERT INTO file VALUES (CAST(x'ff' AS TEXT), '/memories/x', 0, 50, 0, 0);",
        )
        .unwrap();
    let listing = call(&store, serde_json::json!({"command": "view", "path": "/memories"})).await;
    assert!(listing.ends_with("\n[1 items could not be listed: 1 with an illegal name.]"), "{listing}");
    assert!(listing.contains("/memories/a") && listing.contains("damaged\t/memories/c"), "{listing}");
    assert_eq!(read(&store, "/memories/a").await.unwrap(), "text");
    assert_eq!(store.memory_names().await.unwrap(), [name("default")]);
    let limited = Batch::new().limit(StorePath::memories(), Quota::new().with_bytes(9));
    let refused = store.apply(limited.write(path("/memories/e"), "e")).await.unwrap_err();
    assert!(matches!(refused, StoreError::OverQuota { .. }), "{refused:?}");
    let problems = store.verify(|_| {}).await.unwrap().problems;
    let illegal = problems.iter().filter(|problem| problem.to_string().contains("not UTF-8")).count();
    assert_eq!((problems.len(), illegal), (5, 2), "{problems:?}");
}

#[tokio::test]
async fn an_oversized_file_is_not_read() {
    let (directory, store) = TestDirectory::opened().await;
    write(&store, "/memories/at-the-limit", &"x".repeat(1_000)).await.unwrap();
    write(&store, "/memories/above", &"x".repeat(1_001)).await.unwrap();
    let limited = SqliteStore::builder(directory.database())
        .options(OpenOptions::new().max_file_bytes(1_000))
        .open()
        .await
        .unwrap();
    let limited = limited.memory(name("other")).memory(name("default"));
    assert_eq!(read(&limited, "/memories/at-the-limit").await.unwrap().len(), 1_000);
    let refused = limited.read(&path("/memories/above")).await.unwrap_err();
    let reason = "The file is too large to read: it has 1001 bytes and the limit is 1000. You can delete or rename it.";
    assert!(matches!(&refused, StoreError::Refused { reason: given, .. } if given == reason), "{refused:?}");
    let refused = write(&limited, "/memories/new", &"x".repeat(1_001)).await.unwrap_err();
    assert!(matches!(refused, StoreError::Refused { .. }), "{refused:?}");
    assert_eq!(limited.list(&StorePath::memories()).await.unwrap().len(), 2);
    limited.apply(Batch::new().rename(path("/memories/above"), path("/memories/moved"))).await.unwrap();
    limited.apply(Batch::new().remove(path("/memories/moved"))).await.unwrap();
    assert_eq!(limited.read(&path("/memories/moved")).await.unwrap(), Node::Absent);
}
