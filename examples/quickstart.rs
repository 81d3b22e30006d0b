//! The six commands and their replies, on an in-process store.
//! Run it: `cargo run -p examples --example quickstart`

#![allow(clippy::print_stdout, reason = "an example prints")]

use memory_tool::{Engine, InMemoryStore, MemoryTool};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let tool = Engine::new(InMemoryStore::new());
    let calls = [
        json!({"command": "view", "path": "/memories"}),
        json!({"command": "create", "path": "/memories/preferences.txt", "file_text": "Favorite color: blue\n"}),
        json!({"command": "str_replace", "path": "/memories/preferences.txt", "old_str": "blue", "new_str": "green"}),
        json!({"command": "insert", "path": "/memories/preferences.txt",
               "insert_line": 1, "insert_text": "Likes: tea"}),
        json!({"command": "rename", "old_path": "/memories/preferences.txt", "new_path": "/memories/anna/likes.txt"}),
        json!({"command": "view", "path": "/memories/anna/likes.txt"}),
        json!({"command": "delete", "path": "/memories/anna"}),
        json!({"command": "delete", "path": "/memories/anna"}),
    ];
    for input in calls {
        println!("> {input}");
        match tool.call(input).await {
            Ok(reply) => println!("{reply}\n"),
            Err(error) => println!("{error}\n"),
        }
    }
}
