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
    let mut counts = Vec::new();
    for (_, command) in commands() {
        // Like a process that has just started: it knows only that the bucket supports conditional writes.
        let fresh = BucketStore::open(bucket.clone(), "requests".into()).await.unwrap();
        proxy.take_records();
        Engine::new(fresh).call(command.clone()).await.unwrap();
        counts.push((proxy.take_records().len(), command));
    }
    assert_eq!(counts, commands());
}

/// Returns 4 KB with a unique first line.
fn content(number: usize) -> String {
    format!("file {number}\n{}\n", "x".repeat(4_080))
}

/// Each command with its number of requests.
fn commands() -> Vec<(usize, Value)> {
    let view = |path: &str| json!({"command": "view", "path": path});
    let rename = |from: &str, to: &str| json!({"command": "rename", "old_path": from, "new_path": to});
    let create = |path: &str, text: String| json!({"command": "create", "path": path, "file_text": text});
    vec![
        (1, view("/memories")),
        (1, view("/memories/d")),
        (1, view("/memories/d/000.md")),
        (1, create("/memories/new.md", content(0))),
        (2, create("/memories/large.md", "x".repeat(100_000))), // the contents and the commit
        (2, view("/memories/large.md")),
        (2, json!({"command": "str_replace", "path": "/memories/d/001.md", "old_str": "file 1\n", "new_str": "one\n"})),
        (2, json!({"command": "insert", "path": "/memories/d/002.md", "insert_line": 0, "insert_text": "two"})),
        (1, rename("/memories/new.md", "/memories/old.md")),
        (1, rename("/memories/d", "/memories/e")),
        (1, json!({"command": "delete", "path": "/memories/e"})),
    ]
}

/// The first request for the log hangs, so the store sends another within its timeout.
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

/// One process finds no store. Another creates it before the first has looked for remains of a damaged one.
#[tokio::test]
async fn concurrent_openings_create_one_store() {
    let server = GcsServer::start().unwrap();
    let proxy = Proxy::start(server.url()).unwrap();
    let client = |url: &str| server.client(url, RetryConfig { max_retries: 0, ..RetryConfig::default() }).unwrap();
    proxy.fault_at(Requests::of("GET").with("delimiter"), 1, Fault::DelayRequest(Duration::from_millis(500)));
    let opening = tokio::spawn(BucketStore::open(client(proxy.url()), "concurrent".into()));
    while proxy.late() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let second = BucketStore::open(client(server.url()), "concurrent".into()).await.unwrap();
    second.write("/memories/a", "text").await.unwrap();
    assert_eq!(proxy.late(), 1, "the first opening did not wait");
    let first = opening.await.unwrap().unwrap();
    assert_eq!(first.read_to_string("/memories/a").await.unwrap(), "text");
}
