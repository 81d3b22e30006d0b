//! Opening: creating and upgrading tables, versions, encodings and replicas.

use memory_tool_core::{ErrorKind, MemoryName, OpenOptions, StoreError};
use memory_tool_postgres::{OpenFailure, PostgresStoreBuilder};
use serde_json::json;

use crate::support::{OWNER, builder, open, read_only, reply, server, text, write};

async fn failure(builder: PostgresStoreBuilder) -> (ErrorKind, String) {
    let error = builder.open().await.unwrap_err();
    (error.kind(), format!("{error}"))
}

#[tokio::test]
async fn concurrent_openings_create_the_tables_once() {
    let server = server();
    let url = server.url(OWNER, OWNER);
    let opened = futures::future::join_all((0..8).map(|_| open(&url))).await;
    write(&opened[0], "/memories/a", "a").await.unwrap();
    assert_eq!(text(&opened[7], "/memories/a").await.as_deref(), Some("a"));
    assert_eq!(server.sql_in(OWNER, OWNER, "SELECT number FROM memory_tool.schema_version").unwrap(), "1");
}

#[tokio::test]
async fn a_missing_store_is_not_created_by_other_modes() {
    let server = server();
    let url = server.url(OWNER, OWNER);
    for options in [OpenOptions::new().must_exist(), OpenOptions::new().read_only()] {
        assert_eq!(failure(builder(&url).options(options)).await.0, ErrorKind::NotFound);
    }
    assert_eq!(
        server.sql_in(OWNER, OWNER, "SELECT count(*) FROM pg_namespace WHERE nspname = 'memory_tool'").unwrap(),
        "0"
    );
    let store = open(&url).await;
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
    let server = server();
    let url = server.url(OWNER, OWNER);
    open(&url).await;
    server.sql_in(OWNER, OWNER, "UPDATE memory_tool.schema_version SET number = 9").unwrap();
    let (kind, message) = failure(builder(&url)).await;
    assert_eq!(kind, ErrorKind::Unsupported);
    assert!(message.ends_with("the tables have version 9; this program supports versions up to 1"), "{message}");
    server.sql_in(OWNER, OWNER, "UPDATE memory_tool.schema_version SET number = 0").unwrap();
    let (kind, message) = failure(builder(&url).options(OpenOptions::new().must_exist())).await;
    assert_eq!(kind, ErrorKind::Unsupported);
    assert!(message.contains("run memory-tool migrate to upgrade them to version 1"), "{message}");

    server.sql(&format!("CREATE DATABASE latin OWNER {OWNER} ENCODING LATIN1 LOCALE 'C' TEMPLATE template0")).unwrap();
    let (kind, message) = failure(builder(&server.url(OWNER, "latin"))).await;
    assert_eq!(kind, ErrorKind::Unsupported);
    assert!(message.ends_with("the encoding of the database is LATIN1; UTF8 is required"), "{message}");

    let (kind, message) = failure(builder(&server.url(OWNER, "missing"))).await;
    assert_eq!(kind, ErrorKind::Other);
    assert!(message.contains(r#"database "missing" does not exist"#), "{message}");
    let (kind, _) = failure(builder(&url).schema("A B")).await;
    assert_eq!(kind, ErrorKind::Invalid);
}

#[tokio::test]
async fn schemas_are_separate_stores() {
    let server = server();
    let url = server.url(OWNER, OWNER);
    let (first, second) = (open(&url).await, open(&format!("{url}?schema=agents")).await);
    write(&first, "/memories/a", "first").await.unwrap();
    assert_eq!(text(&second, "/memories/a").await, None);
    write(&second, "/memories/a", "second").await.unwrap();
    assert_eq!(text(&first, "/memories/a").await.as_deref(), Some("first"));
}

#[tokio::test]
async fn a_replica_can_be_read() {
    let server = server();
    let url = server.url(OWNER, OWNER);
    let store = open(&url).await;
    write(&store, "/memories/a", "a").await.unwrap();
    let standby = server.standby().unwrap();
    let url = standby.url(OWNER, OWNER);
    let error = builder(&url).open().await.unwrap_err();
    let failure = std::error::Error::source(&error).unwrap().downcast_ref();
    assert!(matches!(failure, Some(OpenFailure::Replica)), "{error:?}");
    let replica = read_only(&url).open().await.unwrap();
    assert_eq!(text(&replica, "/memories/a").await.as_deref(), Some("a"));
}

#[tokio::test]
async fn damage_is_reported() {
    let server = server();
    let store = open(&server.url(OWNER, OWNER)).await;
    write(&store, "/memories/a", "a").await.unwrap();
    assert_eq!(store.verify(|_| {}).await.unwrap().problems, []);
    let insert = |memory: &str, path: &str| {
        let insert = "INSERT INTO memory_tool.file (memory, path, version, created_at, modified_at, content)";
        server.sql_in(OWNER, OWNER, &format!("{insert} VALUES ('{memory}', '{path}', '1', -1, 0, 'b')")).unwrap();
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
    let view = reply(&store, json!({"command": "view", "path": "/memories"})).await;
    assert!(view.contains("/memories/a"), "{view}");
}
