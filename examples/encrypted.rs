//! A memory that is encrypted at rest, and the file names that an attacker sees on disk.
//! Run it: `export MEMORY_KEY=$(openssl rand -hex 32)`, then `cargo run -p examples --example encrypted`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use memory_tool::encrypted::{EncryptedStore, KeyRing, RawKey};
use memory_tool::local::LocalStore;
use memory_tool::{Engine, MemoryTool, StoreExt};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let key = RawKey::from_environment("MEMORY_KEY")?; // or a file, a passphrase or a key management service
    let disk = Arc::new(LocalStore::open("./memory-encrypted").await?);
    let store = EncryptedStore::open(Arc::clone(&disk), KeyRing::new(key)).await?; // fails with a wrong key
    let tool = Engine::new(store);
    let create = json!({"command": "create", "path": "/memories/anna/health.md", "file_text": "Allergic to nuts."});
    match tool.call(create).await {
        Ok(reply) => println!("{reply}"),
        Err(error) => println!("{error}"), // in a second run: the file already exists
    }
    println!("{}", tool.call(json!({"command": "view", "path": "/memories/anna/health.md"})).await?);
    println!("On disk:");
    for file in disk.list("/memories").await? {
        println!("{} bytes in {}", file.size, file.path);
    }
    Ok(())
}
