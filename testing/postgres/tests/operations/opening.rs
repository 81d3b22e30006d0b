//! Opening: creating tables, their versions, schemas and pools; and verifying.

use deadpool_postgres::{Manager, Pool};
use memory_tool_core::{Batch, ErrorKind, MemoryName, OpenOptions, Store as _, StoreError, StoreExt as _};
use memory_tool_postgres::{PostgresStore, PostgresStoreBuilder};
use memory_tool_test_fixtures::path;
use memory_tool_test_postgres::{Database, builder, open, server};

use crate::{succeed, view};

fn read_only(url: &str) -> PostgresStoreBuilder {
    builder(url).options(OpenOptions::new().read_only())
}

async fn write(store: &PostgresStore, file: &str, text: &str) -> Result<(), StoreError> {
    store.apply(Batch::new().write(path(file), text)).await
}

async fn text(store: &PostgresStore, file: &str) -> Option<String> {
    let file = store.read(file).await.unwrap().into_file()?;
    Some(String::from_utf8(file.content).unwrap())
}

fn database_sql(database: &Database, statements: &str) -> String {
    server().sql_in(database.role(), database.name(), statements).unwrap()
}

async fn failure(builder: PostgresStoreBuilder) -> (ErrorKind, String) {
    let error = builder.open().await.unwrap_err();
    (error.kind(), format!("{error}"))
}

#[tokio::test]
async fn concurrent_openings_create_the_tables_once() {
    let database = Database::new(server());
    let url = database.url(server());
    let opened = futures::future::join_all((0..8).map(|_| async { open(&url).await.unwrap() })).await;
    write(&opened[0], "/memories/a", "a").await.unwrap();
    assert_eq!(text(&opened[7], "/memories/a").await.as_deref(), Some("a"));
    assert_eq!(database_sql(&database, "SELECT number FROM memory_tool.schema_version"), "1");
}

#[tokio::test]
async fn a_missing_store_is_not_created_by_other_modes() {
    let database = Database::new(server());
    let url = database.url(server());
    for options in [OpenOptions::new().must_exist(), OpenOptions::new().read_only()] {
        assert_eq!(failure(builder(&url).options(options)).await.0, ErrorKind::NotFound);
    }
    assert_eq!(database_sql(&database, "SELECT count(*) FROM pg_namespace WHERE nspname = 'memory_tool'"), "0");
    let store = open(&url).await.unwrap();
    read_only(&url).open().await.unwrap();
    assert_eq!(failure(read_only(&format!("{url}?memory=alice"))).await.0, ErrorKind::NotFound);
    write(&store.memory("alice".parse().unwrap()), "/memories/a", "a").await.unwrap();
    write(&store, "/memories/a", "a").await.unwrap();
    let alice = read_only(&format!("{url}?memory=alice")).open().await.unwrap();
    assert!(matches!(
        write(&alice, "/memories/a", "b").await,
        Err(StoreError::Failure { kind: ErrorKind::AccessDenied, .. })
    ));
    let names: [MemoryName; 2] = ["alice", "default"].map(|name| name.parse().unwrap());
    assert_eq!(store.memory_names().await.unwrap(), names);
}

#[tokio::test]
async fn unsuitable_databases_are_refused() {
    let database = Database::new(server());
    let url = database.url(server());
    open(&url).await.unwrap();
    database_sql(&database, "UPDATE memory_tool.schema_version SET number = 9");
    let (kind, message) = failure(builder(&url)).await;
    assert_eq!(kind, ErrorKind::Unsupported);
    assert!(message.ends_with("the tables have version 9; this program supports versions up to 1"), "{message}");
    database_sql(&database, "UPDATE memory_tool.schema_version SET number = 0");
    let (kind, message) = failure(builder(&url).options(OpenOptions::new().must_exist())).await;
    assert_eq!(kind, ErrorKind::Unsupported);
    assert!(message.contains("run memory-tool migrate to upgrade them to version 1"), "{message}");

    let (kind, _) = failure(builder(&url).schema("A B")).await;
    assert_eq!(kind, ErrorKind::Invalid);
}

#[tokio::test]
#[ignore = "needs version 13 of PostgreSQL: .ci/long postgres"]
async fn an_old_server_is_refused() {
    let database = Database::new(server());
    let (kind, message) = failure(builder(&database.url(server()))).await;
    assert_eq!(kind, ErrorKind::Unsupported);
    assert!(message.contains("version 13") && message.contains("14"), "{message}");
}

#[tokio::test]
async fn schemas_are_separate_stores() {
    let database = Database::new(server());
    let url = database.url(server());
    let (first, second) = (open(&url).await.unwrap(), open(&format!("{url}?schema=agents")).await.unwrap());
    write(&first, "/memories/a", "first").await.unwrap();
    assert_eq!(text(&second, "/memories/a").await, None);
    write(&second, "/memories/a", "second").await.unwrap();
    assert_eq!(text(&first, "/memories/a").await.as_deref(), Some("first"));
}

#[tokio::test]
async fn a_program_passes_its_own_pool() {
    let database = Database::new(server());
    let config = database.url(server()).parse().unwrap();
    let pool = Pool::builder(Manager::new(config, tokio_postgres::NoTls)).max_size(1).build().unwrap();
    let store = PostgresStore::builder(pool.clone()).memory("alice".parse().unwrap()).open().await.unwrap();
    write(&store, "/memories/a", "a").await.unwrap();
    drop(store);
    let client = pool.get().await.unwrap();
    let stored = client.query_one("SELECT memory, content FROM memory_tool.file", &[]).await.unwrap();
    assert_eq!((stored.get(0), stored.get(1)), ("alice", &b"a"[..]));
}

/// ANALYZE copies values to the statistics, and leaves them there when the table is empty.
#[tokio::test]
async fn the_statistics_of_the_server_have_no_contents() {
    let database = Database::new(server());
    let store = open(&database.url(server())).await.unwrap();
    for number in 0..20 {
        write(&store, &format!("/memories/{number}"), &format!("text {}", number % 5)).await.unwrap();
    }
    database_sql(&database, "ANALYZE memory_tool.file");
    let columns = database_sql(&database, "SELECT attname FROM pg_stats WHERE tablename = 'file'");
    let columns: Vec<_> = columns.lines().map(str::trim).collect();
    assert!(columns.contains(&"path"), "{columns:?}");
    assert!(!columns.contains(&"content"), "{columns:?}");
}

#[tokio::test]
async fn damage_is_reported() {
    let database = Database::new(server());
    let store = open(&database.url(server())).await.unwrap();
    write(&store, "/memories/a", "a").await.unwrap();
    assert_eq!(store.verify(|_| {}).await.unwrap().problems, []);
    let insert = |memory: &str, path: &str| {
        let insert = "INSERT INTO memory_tool.file (memory, path, version, created_at, modified_at, content)";
        database_sql(&database, &format!("{insert} VALUES ('{memory}', '{path}', '1', -1, 0, 'b')"));
    };
    insert("default", "/memories/a/b");
    insert("default", "/memories/c//d");
    insert("default", "/elsewhere");
    insert("other", "/memories");
    let problems = store.verify(|_| {}).await.unwrap().problems;
    let messages: Vec<_> = problems.iter().map(|problem| problem.message.as_str()).collect();
    for expected in [
        "/memories/a in memory default is a file, but /memories/a/b is under it",
        "invalid path \"/elsewhere\" in memory \"default\"",
        "invalid path \"/memories\" in memory \"other\": a file cannot be /memories itself",
        "/memories/c/ cannot be listed",
    ] {
        assert!(messages.iter().any(|message| message.starts_with(expected)), "{expected} in {messages:?}");
    }
    let view = succeed(&store, view("/memories")).await;
    assert!(view.contains("/memories/a"), "{view}");
}
