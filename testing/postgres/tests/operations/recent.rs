//! Reads that allow a stale file, after another program has changed it.

use memory_tool_core::{Batch, Precondition, ReadOptions, Store as _, StoreExt as _};
use memory_tool_postgres::PostgresStore;
use memory_tool_test_fixtures::path;
use memory_tool_test_postgres::{Database, open, server};
use serde_json::json;

use crate::{create, run, succeed, view};

const FILE: &str = "/memories/a";
const OTHER: &str = "/memories/b";

/// The stores of two programs.
async fn programs(database: &Database) -> [PostgresStore; 2] {
    let url = database.url(server());
    [open(&url).await.unwrap(), open(&format!("{url}?application_name=other")).await.unwrap()]
}

async fn stale(store: &PostgresStore) -> String {
    let read = store.read_opts(&path(FILE), ReadOptions::new().allow_stale()).await;
    String::from_utf8(read.unwrap().into_file().unwrap().content).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_file_is_not_older_than_an_earlier_result() {
    let database = Database::new(server());
    let [ours, other] = programs(&database).await;
    ours.write(OTHER, "text").await.unwrap();
    for result in 0..6 {
        ours.write(FILE, "ours").await.unwrap();
        other.write(FILE, "other").await.unwrap();
        assert_eq!(stale(&ours).await, "ours");
        let absent = Batch::new().require(path(FILE), Precondition::Absent);
        match result {
            0 => drop(ours.list("/memories").await.unwrap()),
            1 => drop(ours.read(FILE).await.unwrap()),
            2 => drop(ours.read(OTHER).await.unwrap()),
            3 => drop(ours.apply(absent).await.unwrap_err()),
            4 => drop(ours.apply(absent.write(path(OTHER), "text")).await.unwrap_err()),
            _ => {
                let options = ReadOptions::new().require(path(FILE), Precondition::Absent);
                ours.read_opts(&path(OTHER), options).await.unwrap_err();
            }
        }
        assert_eq!(stale(&ours).await, "other", "after result {result}");
    }
    ours.write(FILE, "ours").await.unwrap();
    ours.apply(Batch::new().rename(path(FILE), path("/memories/c"))).await.unwrap();
    let read = ours.read_opts(&path(FILE), ReadOptions::new().allow_stale()).await;
    assert!(read.unwrap().into_file().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_of_a_stale_file_is_of_the_current_one() {
    let database = Database::new(server());
    let stores = programs(&database).await;
    succeed(&stores[0], create(FILE, "0\n")).await;
    for number in 0..6 {
        let (old, new) = (number.to_string(), (number + 1).to_string());
        let edit = json!({"command": "str_replace", "path": FILE, "old_str": old, "new_str": new});
        succeed(&stores[number % 2], edit.clone()).await;
        run(&stores[(number + 1) % 2], edit).await.unwrap_err();
        let insert = json!({"command": "insert", "path": FILE, "insert_line": 1, "insert_text": "line\n"});
        succeed(&stores[number % 2], insert).await;
    }
    for store in &stores {
        let lines: String = (2..8).map(|number| format!("\n{number:6}\tline")).collect();
        let view = succeed(store, view(FILE)).await;
        assert!(view.contains(&format!("\n     1\t6{lines}")), "{view}");
    }
}
