//! Many memories in one SQLite file, each with its own name and files.
//! Run it: `cargo run -p examples --example sqlite`

#![allow(clippy::print_stdout, reason = "an example prints")]

use memory_tool::sqlite::SqliteStore;
use memory_tool::{Engine, MemoryTool};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let database = SqliteStore::open("./memory.sqlite").await?; // creates the file if necessary
    for (user, text) in [("user/42", "Prefers tea."), ("user/43", "Prefers coffee.")] {
        let tool = Engine::new(database.memory(user.parse()?)); // shares the database's connections
        let create = json!({"command": "create", "path": "/memories/drinks.md", "file_text": text});
        match tool.call(create).await {
            Ok(reply) => println!("{user}: {reply}"),
            Err(error) => println!("{user}: {error}"), // in a second run: the file already exists
        }
        println!("{user}: {}", tool.call(json!({"command": "view", "path": "/memories/drinks.md"})).await?);
    }
    Ok(())
}
