//! A memory in an S3 bucket, for any number of machines.
//! Run it: `cargo run -p examples --example s3 -- BUCKET`
//!
//! Set `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_REGION` first. For a service that is compatible with S3,
//! set `AWS_ENDPOINT_URL`, and `AWS_ALLOW_HTTP=true` if it has no TLS. It must support conditional writes.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use memory_tool::bucket::{BucketStore, DEFAULT_GRACE};
use memory_tool::{Engine, MemoryTool};
use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _ = rustls::crypto::ring::default_provider().install_default(); // `object_store/aws` would not need it
    let bucket = AmazonS3Builder::from_env()
        .with_bucket_name(std::env::args().nth(1).ok_or("usage: s3 BUCKET")?)
        .with_conditional_put(S3ConditionalPut::ETagMatch) // the default, and required
        .build()?;
    // Fails if the bucket ignores conditional writes.
    let store = BucketStore::open(Arc::new(bucket), "memories/anna".into()).await?;
    let collected = store.gc(DEFAULT_GRACE).await?; // run it now and then to remove unused objects
    println!("removed {} objects", collected.removed_objects);
    let tool = Engine::new(store);
    let create = json!({"command": "create", "path": "/memories/tea.md", "file_text": "Anna takes no milk."});
    match tool.call(create).await {
        Ok(reply) => println!("{reply}"),
        Err(error) => println!("{error}"), // in a second run: the file already exists
    }
    println!("{}", tool.call(json!({"command": "view", "path": "/memories/tea.md"})).await?);
    Ok(())
}
