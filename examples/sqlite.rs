//! Many memories in one SQLite file, each with a name of its own: none sees another's files.
//! Run it: `cargo run -p examples --example sqlite`

#![allow(clippy::print_stdout, reason = "an example prints")]

use memory_tool::sqlite::SqliteStore;
use memory_tool::{Engine, MemoryTool};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let database = SqliteStore::open("./memory.sqlite").await?; // made where it is missing
    for (user, text) in [("user/42", "Prefers tea."), ("user/43", "Prefers coffee.")] {
        let tool = Engine::new(database.memory(user.parse()?)); // shares the connections of the others
        let create = json!({"command": "create", "path": "/memories/drinks.md", "file_text": text});
        match tool.call(create).await {
            Ok(reply) => println!("{user}: {reply}"),
            Err(error) => println!("{user}: {error}"), // what Claude reads the second time: the file is there already
        }
        println!("{user}: {}", tool.call(json!({"command": "view", "path": "/memories/drinks.md"})).await?);
    }
    Ok(())
}
