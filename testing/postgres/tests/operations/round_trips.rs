//! The round trips of each command, counted by a proxy, and the scans, counted by the server.

use std::time::Duration;

use memory_tool_postgres::PostgresStore;
use memory_tool_test_postgres::{Database, open, server};
use memory_tool_test_servers::SqlProxy;
use serde_json::{Value, json};

use crate::{create, succeed, view};

/// Long enough that a client sends its whole pipeline on a busy machine.
const DELAY: Duration = Duration::from_millis(10);

/// A slow machine can only add round trips, so the least of several runs counts.
const RUNS: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn commands_have_few_round_trips() {
    let database = Database::new(server());
    let proxy = SqlProxy::start(server(), DELAY).unwrap();
    let store = open(&proxy.url(database.role(), database.name())).await.unwrap();
    // The first command of each kind also prepares its statements.
    for command in commands(RUNS) {
        succeed(&store, command.1).await;
    }
    let mut least = [usize::MAX; 7];
    for run in 0..RUNS {
        for (number, (_, command, _)) in commands(run).into_iter().enumerate() {
            least[number] = least[number].min(round_trips(&proxy, &store, command).await);
        }
    }
    let table: Vec<_> = commands(0).iter().zip(least).map(|(command, found)| (command.0, found, command.2)).collect();
    println!("{table:?}");
    for (command, found, most) in table {
        assert!((1..=most).contains(&found), "{command}: {found} round trips, at most {most} expected");
    }
}

async fn round_trips(proxy: &SqlProxy, store: &PostgresStore, command: Value) -> usize {
    let before = proxy.round_trips();
    succeed(store, command).await;
    proxy.round_trips() - before
}

/// The plans are made while the table is empty.
#[tokio::test(flavor = "multi_thread")]
async fn no_command_scans_the_table() {
    let database = Database::new(server());
    let sql = |statement: &str| server().sql_in("postgres", database.name(), statement).unwrap();
    drop(open(&database.url(server())).await.unwrap());
    sql("VACUUM ANALYZE memory_tool.file");
    let store = open(&format!("{}?application_name=planned", database.url(server()))).await.unwrap();
    for run in 0..RUNS {
        for command in commands(run) {
            succeed(&store, command.1).await;
        }
    }
    store.memory_names().await.unwrap();
    drop(store);
    // A session counts its scans before it ends.
    while sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'planned'") != "0" {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The creation of the key took one.
    let scans = sql("SELECT idx_scan > 20, seq_scan <= 1 FROM pg_stat_user_tables WHERE relname = 'file'");
    assert_eq!(scans, "t|t");
}

/// Commands with the most round trips that they may have. An edit reads the file, unless it is the last result.
fn commands(run: usize) -> [(&'static str, Value, usize); 7] {
    let path = format!("/memories/d{run}/file");
    let other = format!("/memories/e{run}/file");
    [
        ("create", create(&path, "a\n"), 1),
        ("view of a file", view(&path), 1),
        ("view of a directory", view("/memories"), 1),
        ("str_replace", json!({"command": "str_replace", "path": path, "old_str": "a", "new_str": "b"}), 2),
        ("insert", json!({"command": "insert", "path": path, "insert_line": 0, "insert_text": "c"}), 1),
        ("rename", json!({"command": "rename", "old_path": path, "new_path": other}), 1),
        ("delete", json!({"command": "delete", "path": other}), 1),
    ]
}
