//! Two memories in one Azure Blob Storage container, each under its own prefix.
//! Run it: `cargo run -p examples --example azure -- CONTAINER`
//!
//! Set `AZURE_STORAGE_ACCOUNT_NAME` and `AZURE_STORAGE_ACCOUNT_KEY` first.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use memory_tool::bucket::BucketStore;
use memory_tool::{Engine, MemoryTool};
use object_store::ObjectStore;
use object_store::azure::MicrosoftAzureBuilder;
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _ = rustls::crypto::ring::default_provider().install_default(); // `object_store/azure` would not need it
    let container = MicrosoftAzureBuilder::from_env()
        .with_container_name(std::env::args().nth(1).ok_or("usage: azure CONTAINER")?)
        .build()?;
    let container: Arc<dyn ObjectStore> = Arc::new(container);
    for (user, text) in [("anna", "Prefers tea."), ("ben", "Prefers coffee.")] {
        // Prefixes must not contain one another: a third memory at `memories` would be a mistake.
        let store = BucketStore::open(Arc::clone(&container), format!("memories/{user}").into()).await?;
        let tool = Engine::new(store);
        let create = json!({"command": "create", "path": "/memories/drinks.md", "file_text": text});
        match tool.call(create).await {
            Ok(reply) => println!("{user}: {reply}"),
            Err(error) => println!("{user}: {error}"), // in a second run: the file already exists
        }
        println!("{user}: {}", tool.call(json!({"command": "view", "path": "/memories/drinks.md"})).await?);
    }
    Ok(())
}
