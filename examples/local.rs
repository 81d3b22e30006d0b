//! A memory on this machine's disk: plain files, which a person can read and edit, and any number of processes may use at once.
//! Run it: `cargo run -p examples --example local`

#![allow(clippy::print_stdout, reason = "an example prints")]

use memory_tool::local::LocalStore;
use memory_tool::{Engine, MemoryTool};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tool = Engine::new(LocalStore::open("./memory").await?); // made where it is missing
    let create = json!({"command": "create", "path": "/memories/anna/tea.md", "file_text": "Anna takes no milk.\n"});
    match tool.call(create).await {
        Ok(reply) => println!("{reply}"),
        Err(error) => println!("{error}"), // what Claude reads the second time: the file is there already
    }
    print!("{}", tokio::fs::read_to_string("./memory/memories/anna/tea.md").await?); // a file like any other
    Ok(())
}
