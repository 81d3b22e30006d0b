//! Memories in a container of Azure Blob Storage, each under a prefix of its own, for any number of machines.
//! Run it: `cargo run -p examples --example azure -- CONTAINER`, with `AZURE_STORAGE_ACCOUNT_NAME` and `AZURE_STORAGE_ACCOUNT_KEY`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use memory_tool::object_store::BucketStore;
use memory_tool::{Engine, MemoryTool};
use object_store::ObjectStore;
use object_store::azure::MicrosoftAzureBuilder;
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _ = rustls::crypto::ring::default_provider().install_default(); // not with the feature `azure` of `object_store`
    let container = MicrosoftAzureBuilder::from_env()
        .with_container_name(std::env::args().nth(1).ok_or("which container?")?)
        .build()?;
    let container: Arc<dyn ObjectStore> = Arc::new(container);
    for (user, text) in [("anna", "Prefers tea."), ("ben", "Prefers coffee.")] {
        // No prefix may lie under another: `memories` beside these two would be a mistake.
        let store = BucketStore::open(Arc::clone(&container), format!("memories/{user}").into()).await?;
        let tool = Engine::new(store);
        let create = json!({"command": "create", "path": "/memories/drinks.md", "file_text": text});
        match tool.call(create).await {
            Ok(reply) => println!("{user}: {reply}"),
            Err(error) => println!("{user}: {error}"), // what Claude reads the second time: the file is there already
        }
        println!("{user}: {}", tool.call(json!({"command": "view", "path": "/memories/drinks.md"})).await?);
    }
    Ok(())
}
