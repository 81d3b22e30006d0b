//! A memory in a bucket of Amazon S3, or of whatever speaks it and keeps conditions, for any number of machines.
//! Run it: `cargo run -p examples --example s3 -- BUCKET`, with `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_REGION`
//!
//! `AWS_ENDPOINT_URL` leads to another service than Amazon's; `AWS_ALLOW_HTTP=true` lets it be one without TLS.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use memory_tool::object_store::{BucketStore, DEFAULT_GRACE};
use memory_tool::{Engine, MemoryTool};
use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _ = rustls::crypto::ring::default_provider().install_default(); // not with the feature `aws` of `object_store`
    let bucket = AmazonS3Builder::from_env()
        .with_bucket_name(std::env::args().nth(1).ok_or("which bucket?")?)
        .with_conditional_put(S3ConditionalPut::ETagMatch) // the default: without it no store can be opened
        .build()?;
    // A bucket that ignores conditions is refused here.
    let store = BucketStore::open(Arc::new(bucket), "memories/anna".into()).await?;
    let collected = store.gc(DEFAULT_GRACE).await?; // now and then: what no file refers to any more
    println!("{} objects were removed", collected.removed_objects);
    let tool = Engine::new(store);
    let create = json!({"command": "create", "path": "/memories/tea.md", "file_text": "Anna takes no milk."});
    match tool.call(create).await {
        Ok(reply) => println!("{reply}"),
        Err(error) => println!("{error}"), // what Claude reads the second time: the file is there already
    }
    println!("{}", tool.call(json!({"command": "view", "path": "/memories/tea.md"})).await?);
    Ok(())
}
