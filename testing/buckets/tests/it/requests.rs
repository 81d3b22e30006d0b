//! The number of HTTP requests of each command, in a store of 200 files of 4 KB without concurrent writers.

use std::time::Duration;

use memory_tool_bucket::BucketStore;
use memory_tool_core::{Engine, MemoryTool, OpenOptions, StoreExt};
use memory_tool_test_servers::{AzureServer, Fault, GcsServer, Proxy, Requests, S3Server, Server};
use object_store::RetryConfig;
use serde_json::{Value, json};

const FILES: usize = 200;

#[tokio::test]
async fn commands_take_few_requests_on_s3() {
    count_requests(&S3Server::start().unwrap()).await;
}

#[tokio::test]
async fn commands_take_few_requests_on_gcs() {
    count_requests(&GcsServer::start().unwrap()).await;
}

#[tokio::test]
async fn commands_take_few_requests_on_azure() {
    count_requests(&AzureServer::start().unwrap()).await;
}

async fn count_requests(server: &dyn Server) {
    let proxy = Proxy::start(server.url()).unwrap();
    let retries = RetryConfig { max_retries: 0, ..RetryConfig::default() };
    let bucket = server.client(proxy.url(), retries).unwrap();
    let store = BucketStore::open(bucket.clone(), "requests".into()).await.unwrap();
    for number in 0..FILES {
        store.write(format!("/memories/d/{number:03}.md"), content(number)).await.unwrap();
    }
    for (limit, command) in commands() {
        // Like a process that has just started: it knows only that the bucket supports conditional writes.
        let fresh = BucketStore::open(bucket.clone(), "requests".into()).await.unwrap();
        proxy.take_records();
        Engine::new(fresh).call(command.clone()).await.unwrap();
        let taken = proxy.take_records();
        assert!(taken.len() <= limit, "{command} took {taken:?}");
    }
}

/// Returns 4 KB with a unique first line.
fn content(number: usize) -> String {
    format!("file {number}\n{}\n", "x".repeat(4_080))
}

/// Each command with its maximum number of requests.
fn commands() -> [(usize, Value); 10] {
    let view = |path: &str| json!({"command": "view", "path": path});
    let rename = |from: &str, to: &str| json!({"command": "rename", "old_path": from, "new_path": to});
    [
        (1, view("/memories")),
        (1, view("/memories/d")),
        (2, view("/memories/d/000.md")),
        (1, view("/memories/d/199.md")), // stored in the index
        (3, json!({"command": "create", "path": "/memories/new.md", "file_text": content(0)})),
        (3, json!({"command": "str_replace", "path": "/memories/d/001.md", "old_str": "file 1\n", "new_str": "one\n"})),
        (3, json!({"command": "insert", "path": "/memories/d/002.md", "insert_line": 0, "insert_text": "two"})),
        (3, rename("/memories/new.md", "/memories/old.md")),
        (3, rename("/memories/d", "/memories/e")),
        (3, json!({"command": "delete", "path": "/memories/e"})),
    ]
}

/// The first request for the index hangs, so the store sends another within its timeout.
#[tokio::test]
async fn hanging_requests_are_retried() {
    let server = GcsServer::start().unwrap();
    let proxy = Proxy::start(server.url()).unwrap();
    let bucket = server.client(proxy.url(), RetryConfig { max_retries: 0, ..RetryConfig::default() }).unwrap();
    let options = OpenOptions::new().timeout(Duration::from_secs(8));
    let store = BucketStore::builder(bucket, "hanging".into()).options(options).open().await.unwrap();
    proxy.take_records();
    proxy.fault_at(Requests::of("GET"), 1, Fault::Hang);
    assert!(store.list("/memories").await.unwrap().is_empty());
    assert_eq!(proxy.take_records().len(), 2);
}
