//! Poolers: a session has another connection for each transaction or statement, and a standby responds to reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use memory_tool_core::{Batch, ErrorKind, OpenOptions, Quota, Store as _, StoreExt as _, StorePath};
use memory_tool_test_fixtures::by_tier;
use memory_tool_test_postgres::{Database, open, open_with, server};
use memory_tool_test_servers::{PgBouncer, PgPool, PostgresOptions};
use serde_json::json;
use tokio_postgres::SimpleQueryMessage;

use crate::{create, fail, impatient, message_of_opening, succeed, view};

#[tokio::test(flavor = "multi_thread")]
async fn tenants_on_one_pooled_connection_never_see_each_other() {
    let database = Database::new(server());
    let pooler = PgBouncer::start(server(), &[database.role()], 1).unwrap();
    let url = pooler.url(database.role(), database.name());
    let commands = by_tier(2_000, 10_000);
    let tenants = ["alice", "bob"].map(|tenant| {
        let url = format!("{url}?memory={tenant}");
        tokio::spawn(async move {
            let store = open(&url).await.unwrap();
            let other = if tenant == "alice" { "bob" } else { "alice" };
            succeed(&store, create("/memories/note", &format!("{tenant} 0\n"))).await;
            for number in 0..commands / 4 {
                let edit = json!({"command": "str_replace", "path": "/memories/note",
                    "old_str": format!("{tenant} {number}\n"), "new_str": format!("{tenant} {}\n", number + 1)});
                let new = format!("/memories/{number}/{tenant}");
                let replies = [
                    succeed(&store, edit).await,
                    succeed(&store, create(&new, tenant)).await,
                    succeed(&store, json!({"command": "delete", "path": format!("/memories/{number}")})).await,
                    succeed(&store, view("/memories/note")).await + &succeed(&store, view("/memories")).await,
                ];
                assert!(replies[3].contains(&format!("{tenant} {}", number + 1)), "{replies:?}");
                assert!(!replies.iter().any(|reply| reply.contains(other)), "{replies:?}");
            }
            let files: Vec<_> = store.list("/memories").await.unwrap();
            assert_eq!(files.len(), 1, "{files:?}");
        })
    });
    for tenant in tenants {
        tenant.await.unwrap();
    }
    // One connection of the role, which the pooler opened.
    let connections = format!("SELECT count(*) FROM pg_stat_activity WHERE usename = '{}'", database.role());
    assert_eq!(server().sql(&connections).unwrap(), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_is_dropped_leaves_no_transaction_on_the_pooled_connection() {
    let database = Database::new(server());
    let pooler = PgBouncer::start(server(), &[database.role()], 1).unwrap();
    let store = open(&pooler.url(database.role(), database.name())).await.unwrap();
    for number in 0..100_u64 {
        let path = format!("/memories/{number}");
        let write = store.write(&path, "x");
        let _ = tokio::time::timeout(std::time::Duration::from_micros(number * 40), write).await;
    }
    store.write("/memories/last", "x").await.unwrap();
    for file in store.list("/memories").await.unwrap() {
        assert_eq!(store.read(&file.path).await.unwrap().into_file().unwrap().content, b"x");
    }
    let open_transactions = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'";
    assert_eq!(server().sql(&format!("{open_transactions} AND usename = '{}'", database.role())).unwrap(), "0");
}

/// The URL of a pooler, and a database without a store.
fn pooled(connections: usize, settings: &str) -> (PgBouncer, Database, String) {
    let database = Database::new(server());
    let pooler = PgBouncer::start_with(server(), &[database.role()], connections, settings).unwrap();
    let url = pooler.url(database.role(), database.name());
    (pooler, database, url)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_mode_and_isolation_works_or_is_refused() {
    for mode in ["session", "transaction", "statement"] {
        for isolation in ["read committed", "repeatable read", "serializable"] {
            let (_pooler, database, url) = pooled(3, &format!("pool_mode = {mode}\n"));
            let set = format!("ALTER ROLE {} SET default_transaction_isolation = '{isolation}'", database.role());
            server().sql(&set).unwrap();
            let outcome = match open(&url).await {
                Ok(store) => {
                    succeed(&store, create("/memories/a", "text")).await;
                    let rename = json!({"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"});
                    succeed(&store, rename).await;
                    let quota = Batch::new().limit(StorePath::memories(), Quota::new().with_files(2));
                    let write = |path: &str| quota.clone().write(path.parse::<StorePath>().unwrap(), "text");
                    store.apply(write("/memories/c")).await.unwrap();
                    assert!(store.apply(write("/memories/d")).await.is_err(), "{mode}, {isolation}");
                    assert!(succeed(&store, view("/memories/b")).await.contains("text"));
                    "works"
                }
                Err(error) => {
                    assert_eq!((mode, error.kind()), ("statement", ErrorKind::Unsupported), "{error:?}");
                    assert!(
                        isolation != "read committed" && message_of_opening(&error).contains(isolation),
                        "{error:?}"
                    );
                    "refused"
                }
            };
            println!("PgBouncer, {mode} mode: default isolation {isolation}: {outcome}"); // for `.ci/world`
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_pooler_is_busy() {
    let (_pooler, _, url) = pooled(1, "pool_mode = transaction\nquery_wait_timeout = 1\n");
    let store = open_with(&url, OpenOptions::new().timeout(std::time::Duration::from_secs(3))).await.unwrap();
    succeed(&store, create("/memories/a", "text")).await;
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("BEGIN").await.unwrap();
    for command in [view("/memories/a"), create("/memories/b", "text")] {
        let message = fail(&store, command, &[ErrorKind::Busy]).await;
        assert!(message.contains("query_wait_timeout"), "{message}");
    }
    let error = open_with(&url, impatient()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{}", message_of_opening(&error));
    client.batch_execute("COMMIT").await.unwrap();
    succeed(&store, create("/memories/b", "text")).await;
}

/// A session reads its own writes, although the pooler sends reads to a standby that is behind.
#[tokio::test(flavor = "multi_thread")]
async fn a_standby_that_is_behind_does_not_respond() {
    let primary = PostgresOptions::new().setting("recovery_min_apply_delay", "300ms").start().unwrap();
    let database = Database::new(&primary);
    let standby = primary.standby().unwrap();
    let pooler = PgPool::start(&primary, &standby).unwrap();
    let url = pooler.url(database.role(), database.name());
    for session in 0..8 {
        // Each session gets another node for its reads.
        let store = open(&format!("{url}?application_name={session}&memory={session}")).await.unwrap();
        for number in 0..5 {
            let path = format!("/memories/{number}");
            succeed(&store, create(&path, "text")).await;
            assert!(succeed(&store, view(&path)).await.contains("text"));
            let rename = json!({"command": "rename", "old_path": path, "new_path": format!("/memories/new/{number}")});
            succeed(&store, rename).await;
            assert_eq!(store.list("/memories").await.unwrap().len(), number + 1);
            assert!(store.memory_names().await.unwrap().iter().any(|name| name.as_str() == session.to_string()));
        }
        assert!(store.verify(|_| ()).await.unwrap().problems.is_empty());
    }
    send_reads_to_the_standby(&url).await;
}

/// Waits until the pooler has sent a read to the standby.
async fn send_reads_to_the_standby(url: &str) {
    loop {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client.simple_query("SELECT 1").await.unwrap();
        let nodes = client.simple_query("SHOW pool_nodes").await.unwrap();
        let is_used = |message: &SimpleQueryMessage| {
            let SimpleQueryMessage::Row(node) = message else { return false };
            node.get("role") == Some("standby") && node.get("select_cnt") != Some("0")
        };
        if nodes.iter().any(is_used) {
            return;
        }
    }
}

/// This proxy treats each function as read-only.
#[tokio::test(flavor = "multi_thread")]
async fn a_standby_that_gets_changes_refuses_them_and_no_read_is_stale() {
    let primary = PostgresOptions::new().setting("recovery_min_apply_delay", "300ms").start().unwrap();
    let database = Database::new(&primary);
    let standby = primary.standby().unwrap();
    open(&database.url(&primary)).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(600)).await;
    let pooler = PgPool::start_with(&primary, &standby, "read_only_function_list = '.*'\n").unwrap();
    let url = pooler.url(database.role(), database.name());
    send_reads_to_the_standby(&url).await;
    let (mut opened, mut refused) = (0, 0);
    for session in 0..20 {
        match open_with(&format!("{url}?application_name={session}"), impatient()).await {
            Ok(store) => {
                opened += 1;
                let path = format!("/memories/{session}");
                match crate::run(&store, create(&path, "text")).await {
                    Ok(_) => assert!(succeed(&store, view(&path)).await.contains("text")),
                    // The pooler confuses its responses after an error of a standby.
                    Err(error) => {
                        let kinds = [ErrorKind::AccessDenied, ErrorKind::OutcomeUnknown];
                        assert!(kinds.contains(&error.kind()), "{}", crate::operators_message(&error));
                    }
                }
            }
            Err(error) => {
                refused += 1;
                assert!(message_of_opening(&error).contains("replica"), "{}", message_of_opening(&error));
            }
        }
    }
    println!("{opened} opened, {refused} refused");
}

/// The commit waits for a missing standby, and then loses its connection. The pooler reports another error.
#[tokio::test(flavor = "multi_thread")]
async fn the_error_of_a_pooler_after_a_commit_is_not_taken_for_a_refusal() {
    let server = PostgresOptions::new().setting("synchronous_commit", "on").start().unwrap();
    let database = Database::new(&server);
    let pooler = PgBouncer::start(&server, &[database.role()], 2).unwrap();
    let store = open(&pooler.url(database.role(), database.name())).await.unwrap();
    succeed(&store, create("/memories/a", "text")).await;
    server.sql("ALTER SYSTEM SET synchronous_standby_names = 'missing'").unwrap();
    server.sql("SELECT pg_reload_conf()").unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let creating = tokio::spawn({
        let is_over = Arc::clone(&is_over);
        async move {
            let mut number = 0;
            while !is_over.load(Ordering::Relaxed) {
                number += 1; // the first ones can be faster than the setting
                succeed(&store, create(&format!("/memories/{number}"), "text")).await;
            }
        }
    });
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    while server.sql(end).unwrap() == "0" {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    is_over.store(true, Ordering::Relaxed);
    creating.await.unwrap();
}
