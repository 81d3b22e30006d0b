//! A memory on local disk, as plain files that people can read and edit.
//! Run it: `cargo run -p examples --example local`

#![allow(clippy::print_stdout, reason = "an example prints")]

use memory_tool::local::LocalStore;
use memory_tool::{Engine, MemoryTool};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tool = Engine::new(LocalStore::open("./memory").await?); // creates the directory if necessary
    let create = json!({"command": "create", "path": "/memories/anna/tea.md", "file_text": "Anna takes no milk.\n"});
    match tool.call(create).await {
        Ok(reply) => println!("{reply}"),
        Err(error) => println!("{error}"), // in a second run: the file already exists
    }
    print!("{}", tokio::fs::read_to_string("./memory/memories/anna/tea.md").await?); // a plain file
    Ok(())
}
