//! A memory in a bucket of Google Cloud Storage, for any number of machines.
//! Run it: `cargo run -p examples --example gcs -- BUCKET`, with `GOOGLE_APPLICATION_CREDENTIALS` or on a machine of Google's

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;
use std::time::Duration;

use memory_tool::object_store::BucketStore;
use memory_tool::{Engine, MemoryTool, OpenOptions};
use object_store::gcp::GoogleCloudStorageBuilder;
use serde_json::json;

/// Google takes about one write a second to one memory: what comes in a burst waits for its turn, at most this long.
const TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _ = rustls::crypto::ring::default_provider().install_default(); // not with the feature `gcp` of `object_store`
    let bucket = GoogleCloudStorageBuilder::from_env()
        .with_bucket_name(std::env::args().nth(1).ok_or("which bucket?")?)
        .build()?;
    let options = OpenOptions::new().timeout(TIMEOUT);
    let store = BucketStore::builder(Arc::new(bucket), "memories/anna".into()).options(options).open().await?;
    let tool = Engine::new(store);
    let create = json!({"command": "create", "path": "/memories/tea.md", "file_text": "Anna takes no milk."});
    match tool.call(create).await {
        Ok(reply) => println!("{reply}"),
        Err(error) => println!("{error}"), // what Claude reads the second time: the file is there already
    }
    println!("{}", tool.call(json!({"command": "view", "path": "/memories/tea.md"})).await?);
    Ok(())
}
