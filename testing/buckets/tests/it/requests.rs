//! The number of HTTP requests, and requests that hang or are late.

use std::time::Duration;

use memory_tool_bucket::BucketStore;
use memory_tool_core::{Engine, MemoryTool, OpenOptions, StoreExt};
use memory_tool_test_servers::{AzureServer, Fault, GcsServer, Proxy, Requests, S3Server, Server};
use object_store::RetryConfig;
use serde_json::json;

/// `memory-tool-bucket` tests the requests of a store. On each server, its client makes one HTTP request for each.
#[tokio::test]
async fn commands_take_few_requests() {
    let servers: [Box<dyn Server>; 3] = [
        Box::new(S3Server::start().unwrap()),
        Box::new(GcsServer::start().unwrap()),
        Box::new(AzureServer::start().unwrap()),
    ];
    let create = |path: &str, text: String| json!({"command": "create", "path": path, "file_text": text});
    for server in servers {
        let proxy = Proxy::start(server.url()).unwrap();
        let bucket = server.client(proxy.url(), RetryConfig { max_retries: 0, ..RetryConfig::default() }).unwrap();
        let tool = Engine::new(BucketStore::open(bucket, "requests".into()).await.unwrap());
        for (expected, command) in [
            (1, create("/memories/small.md", "one".to_owned())),
            (2, create("/memories/large.md", "x".repeat(100_000))), // the contents and the commit
            (0, json!({"command": "view", "path": "/memories"})),
            (1, json!({"command": "view", "path": "/memories/large.md"})),
            (1, json!({"command": "insert", "path": "/memories/small.md", "insert_line": 0, "insert_text": "two"})),
            (1, json!({"command": "delete", "path": "/memories/large.md"})),
        ] {
            proxy.take_records();
            tool.call(command.clone()).await.unwrap();
            // A poll reads the next commit, and after a tenth of a second checks up to two known ones.
            let (polls, others): (Vec<_>, Vec<_>) = proxy
                .take_records()
                .into_iter()
                .partition(|request| request.method == "GET" && request.target.contains("log"));
            assert_eq!(others.len(), expected, "{}: {command}: {others:?}", server.bucket_url());
            assert!(polls.len() <= 3, "{}: {command}: {polls:?}", server.bucket_url());
        }
    }
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
    // A busy machine needs a longer delay, so that the second opening comes first.
    for delay in [1, 10, 100].map(|half_seconds| half_seconds * Duration::from_millis(500)) {
        let prefix = format!("concurrent-{delay:?}");
        proxy.fault_at(Requests::of("GET").with("delimiter"), 1, Fault::DelayRequest(delay));
        let opening = tokio::spawn(BucketStore::open(client(proxy.url()), prefix.as_str().into()));
        while proxy.late() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let second = BucketStore::open(client(server.url()), prefix.as_str().into()).await.unwrap();
        second.write("/memories/a", "text").await.unwrap();
        let has_waited = proxy.late() == 1;
        let first = opening.await.unwrap().unwrap();
        assert_eq!(first.read_to_string("/memories/a").await.unwrap(), "text");
        if has_waited {
            return;
        }
    }
    panic!("the first opening did not wait");
}
