//! The number of round trips of each command.

use std::time::Duration;

use memory_tool_core::{Batch, Quota, Store as _, StorePath};
use memory_tool_test_servers::SqlProxy;
use serde_json::{Value, json};

use crate::support::{OWNER, open, path, reply, server};

#[tokio::test]
async fn commands_take_few_round_trips() {
    let server = server();
    let proxy = SqlProxy::start(&server, Duration::from_millis(20)).unwrap();
    let store = open(&format!("{}?sslmode=disable", proxy.url(OWNER, OWNER))).await;
    let file = "/memories/a.txt";
    let count = async |input: Value| {
        let before = proxy.round_trips();
        let reply = reply(&store, input).await;
        assert!(!reply.starts_with("Error"), "{reply}");
        proxy.round_trips() - before
    };
    for (input, round_trips) in [
        (json!({"command": "create", "path": file, "file_text": "one\ntwo\n"}), 2),
        (json!({"command": "view", "path": file}), 1),
        (json!({"command": "view", "path": "/memories"}), 1),
        (json!({"command": "str_replace", "path": file, "old_str": "one", "new_str": "three"}), 2),
        (json!({"command": "insert", "path": file, "insert_line": 0, "insert_text": "zero\n"}), 2),
        (json!({"command": "rename", "old_path": file, "new_path": "/memories/b/c"}), 2),
        (json!({"command": "delete", "path": "/memories/b"}), 2),
    ] {
        assert_eq!(count(input.clone()).await, round_trips, "{input}");
    }
    let limited = Batch::new().write(path(file), "text").limit(StorePath::memories(), Quota::new().with_files(9));
    let before = proxy.round_trips();
    store.apply(limited).await.unwrap();
    assert_eq!(proxy.round_trips() - before, 2);
}
