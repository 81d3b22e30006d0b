//! A memory in a Google Cloud Storage bucket, for any number of machines.
//! Run it: `cargo run -p examples --example gcs -- BUCKET`
//!
//! Set `GOOGLE_APPLICATION_CREDENTIALS` first, or run it on Google Cloud.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;
use std::time::Duration;

use memory_tool::bucket::BucketStore;
use memory_tool::{Engine, MemoryTool, OpenOptions};
use object_store::gcp::GoogleCloudStorageBuilder;
use serde_json::json;

/// How long a write waits. Google accepts about one write per second to one memory, so a burst of writes queues up.
const TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _ = rustls::crypto::ring::default_provider().install_default(); // `object_store/gcp` would not need it
    let bucket = GoogleCloudStorageBuilder::from_env()
        .with_bucket_name(std::env::args().nth(1).ok_or("usage: gcs BUCKET")?)
        .build()?;
    let options = OpenOptions::new().timeout(TIMEOUT);
    let store = BucketStore::builder(Arc::new(bucket), "memories/anna".into()).options(options).open().await?;
    let tool = Engine::new(store);
    let create = json!({"command": "create", "path": "/memories/tea.md", "file_text": "Anna takes no milk."});
    match tool.call(create).await {
        Ok(reply) => println!("{reply}"),
        Err(error) => println!("{error}"), // in a second run: the file already exists
    }
    println!("{}", tool.call(json!({"command": "view", "path": "/memories/tea.md"})).await?);
    Ok(())
}
