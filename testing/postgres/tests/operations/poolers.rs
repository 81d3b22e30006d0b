//! Poolers in transaction mode: a session has another connection for each transaction.

use memory_tool_core::StoreExt as _;
use memory_tool_test_fixtures::by_tier;
use memory_tool_test_postgres::{Database, open, server};
use memory_tool_test_servers::PgBouncer;
use serde_json::json;

use crate::{create, succeed, view};

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
