//! A store of one's own: three methods, and the memory tool works on it. `tests/suite/custom_store.rs` runs the suite on it.
//! Run it: `cargo run -p examples --example custom_store`
//!
//! The store is in `crates/core/examples/map_store.rs`.

#![allow(clippy::print_stdout, reason = "an example prints")]

#[path = "../crates/core/examples/map_store.rs"]
#[allow(dead_code, reason = "it has a `main` of its own")]
mod map_store;

use map_store::MapStore;
use memory_tool::{BoxError, Engine, MemoryTool, StoreExt};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let tool = Engine::new(MapStore::default());
    tool.store().write("/memories/profile.md", "Prefers tea.").await?; // the program's own
    println!(
        "{}",
        tool.call(json!({"command": "create", "path": "/memories/notes.md", "file_text": "Likes tea"})).await?
    );
    println!("{}", tool.call(json!({"command": "view", "path": "/memories"})).await?);
    Ok(())
}
