//! Lost connections, restarts and limits of the server: each is a clear error, and the store works again.

use std::time::Duration;

use memory_tool_core::{Batch, ErrorKind, OpenOptions, Store as _, StoreError};
use memory_tool_test_servers::{Fault, Requests, SqlProxy};
use serde_json::json;

use crate::support::{OWNER, builder, open, path, reply, server, text, write};

/// The commit of an edit is lost before or after the server gets it. It takes effect exactly once.
#[tokio::test]
async fn the_outcome_of_a_lost_commit_is_found_out() {
    let server = server();
    let proxy = SqlProxy::start(&server, Duration::ZERO).unwrap();
    let store = open(&format!("{}?sslmode=disable", proxy.url(OWNER, OWNER))).await;
    write(&store, "/memories/a", "0").await.unwrap();
    let mut edits = 0;
    let faults = [Fault::CutRequest, Fault::CloseUnanswered, Fault::ResetUnanswered, Fault::CutAnswer];
    for (number, fault) in faults.into_iter().cycle().take(40).enumerate() {
        proxy.fault_at(Requests::all().with("COMMIT"), 1, fault);
        let from = edits.to_string();
        edits += 1;
        let edit =
            json!({"command": "str_replace", "path": "/memories/a", "old_str": from, "new_str": edits.to_string()});
        let reply = reply(&store, edit).await;
        assert!(!reply.starts_with("Error"), "{number}: {reply}");
        assert_eq!(text(&store, "/memories/a").await, Some(edits.to_string()));

        proxy.fault_at(Requests::all().with("COMMIT"), 1, fault);
        let created = format!("/memories/created-{number}");
        write(&store, &created, "new").await.unwrap();
        proxy.fault_at(Requests::all().with("COMMIT"), 1, fault);
        let renamed = Batch::new().rename(path(&created), path(&format!("/memories/renamed-{number}")));
        store.apply(renamed).await.unwrap();
        assert_eq!(text(&store, &created).await, None);
    }
    assert_eq!(proxy.faults(), 120);
}

/// A connection in a transaction must not be used again.
#[tokio::test]
async fn a_dropped_batch_leaves_the_old_or_the_new_state() {
    let server = server();
    let proxy = SqlProxy::start(&server, Duration::from_millis(2)).unwrap();
    let url = format!("{}?sslmode=disable", proxy.url(OWNER, OWNER));
    let store = builder(&url).max_connections(1).open().await.unwrap();
    write(&store, "/memories/a", "0").await.unwrap();
    for microseconds in (0..10_000).step_by(500) {
        let batch = Batch::new().write(path("/memories/a"), "1").write(path("/memories/b"), "1");
        let _ = tokio::time::timeout(Duration::from_micros(microseconds), store.apply(batch)).await;
        let found = (text(&store, "/memories/a").await.unwrap(), text(&store, "/memories/b").await);
        let is_old = found == ("0".to_owned(), None);
        assert!(is_old || found == ("1".to_owned(), Some("1".to_owned())), "{found:?}");
        store.apply(Batch::new().write(path("/memories/a"), "0").remove(path("/memories"))).await.unwrap_err();
        write(&store, "/memories/a", "0").await.unwrap();
        if !is_old {
            store.apply(Batch::new().remove(path("/memories/b"))).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_store_works_again_when_the_server_does() {
    let mut server = server();
    let url = server.url(OWNER, OWNER);
    let store = open(&url).await;
    write(&store, "/memories/a", "a").await.unwrap();
    for round in 0..3 {
        server.stop().unwrap();
        let view = reply(&store, json!({"command": "view", "path": "/memories/a"})).await;
        assert!(view.starts_with("Error") && !view.contains("postgres") && !view.contains('/'), "{view}");
        assert!(write(&store, "/memories/a", "b").await.is_err());
        server.restart().unwrap();
        let expected = if round == 0 { "a" } else { "0" };
        assert_eq!(text(&store, "/memories/a").await.as_deref(), Some(expected));
        write(&store, "/memories/a", "0").await.unwrap();
        server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'keeper'").unwrap();
        write(&store, "/memories/a", "0").await.unwrap();
    }
}

#[tokio::test]
async fn limits_of_the_server_are_busy() {
    let server = server();
    let url = server.url(OWNER, OWNER);
    let options = OpenOptions::new().timeout(Duration::from_millis(300));
    let store = builder(&url).options(options).open().await.unwrap();
    write(&store, "/memories/a", "a").await.unwrap();

    // Another program holds all locks.
    let (client, connection) =
        tokio_postgres::connect(&url.replace("postgres://", "postgresql://"), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("BEGIN; LOCK TABLE memory_tool.file IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let is_busy = |result: Result<(), StoreError>| {
        assert!(matches!(result, Err(StoreError::Failure { kind: ErrorKind::Busy, .. })), "{result:?}");
    };
    is_busy(write(&store, "/memories/a", "b").await);
    is_busy(store.read_opts(&path("/memories/a"), Default::default()).await.map(|_| ()));
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(text(&store, "/memories/a").await.as_deref(), Some("a"));

    let other = open(&format!("{url}?application_name=other")).await;
    server.sql("ALTER ROLE keeper SET statement_timeout = 100").unwrap();
    let hasty = open(&format!("{url}?application_name=hasty")).await;
    client.batch_execute("BEGIN; LOCK TABLE memory_tool.file IN ACCESS EXCLUSIVE MODE").await.unwrap();
    is_busy(write(&hasty, "/memories/a", "b").await);
    client.batch_execute("ROLLBACK").await.unwrap();

    server.sql("ALTER ROLE keeper CONNECTION LIMIT 1").unwrap();
    let opened = builder(&format!("{url}?application_name=late")).options(options).open().await;
    assert_eq!(opened.unwrap_err().kind(), ErrorKind::Busy);
    write(&other, "/memories/a", "b").await.unwrap();
    server
        .sql("ALTER DATABASE keeper SET default_transaction_read_only = on; ALTER ROLE keeper CONNECTION LIMIT -1")
        .unwrap();
    let refused = write(&open(&format!("{url}?application_name=reader")).await, "/memories/a", "c").await;
    assert!(matches!(refused, Err(StoreError::Failure { kind: ErrorKind::AccessDenied, .. })), "{refused:?}");
}
