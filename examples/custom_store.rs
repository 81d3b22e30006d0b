//! A custom store with two methods, and the memory tool over it.
//! Run it: `cargo run -p examples --example custom_store`
//!
//! The store is in `crates/core/examples/map_store.rs`, and `tests/suite/custom_store.rs` tests it.

#![allow(clippy::print_stdout, reason = "an example prints")]

#[path = "../crates/core/examples/map_store.rs"]
#[allow(dead_code, reason = "its `main` is not used here")]
mod map_store;

use map_store::MapStore;
use memory_tool::{BoxError, Engine, MemoryTool, StoreExt};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let tool = Engine::new(MapStore::default());
    tool.store().write("/memories/profile.md", "Prefers tea.").await?; // written by the program, not by Claude
    println!(
        "{}",
        tool.call(json!({"command": "create", "path": "/memories/notes.md", "file_text": "Likes tea"})).await?
    );
    println!("{}", tool.call(json!({"command": "view", "path": "/memories"})).await?);
    Ok(())
}
