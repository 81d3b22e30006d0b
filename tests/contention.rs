//! `[X3]`: processes that edit one file at once lose nothing, on a server of each cloud.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};

use memory_tool_core::{Batch, Engine, MemoryPath, MemoryTool, Node, Store};
use memory_tool_object_store::{BucketStore, BucketStoreBuilder};
use memory_tool_test_servers::{AzureServer, GcsServer, S3Server, Server};
use object_store::RetryConfig;
use serde_json::json;

/// Names the store to the processes.
const URL: &str = "MEMORY_TOOL_TEST_INSERT_INTO";
const PROCESSES: usize = 8;
const INSERTS: usize = 50;

#[tokio::test]
#[ignore = "what each process of the other tests does"]
async fn insert_lines() {
    let url = std::env::var(URL).unwrap();
    let tool = Engine::new(BucketStoreBuilder::from_url(&url).unwrap().open().await.unwrap());
    for number in 0..INSERTS {
        let line = format!("{} {number}", std::process::id());
        tool.call(json!({"command": "insert", "path": "/memories/log", "insert_line": 0, "insert_text": line}))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn on_s3() {
    lose_no_insert(&S3Server::start().unwrap()).await;
}

#[tokio::test]
async fn on_google_cloud_storage() {
    lose_no_insert(&GcsServer::start().unwrap()).await;
}

#[tokio::test]
async fn on_azure() {
    lose_no_insert(&AzureServer::start().unwrap()).await;
}

async fn lose_no_insert(server: &dyn Server) {
    let bucket = server.client(server.url(), RetryConfig::default()).unwrap();
    let store = BucketStore::open(bucket, "contention".into()).await.unwrap();
    let log: MemoryPath = "/memories/log".parse().unwrap();
    store.apply(Batch::new().write(log.clone(), Vec::new()).unwrap()).await.unwrap();
    let processes: Vec<_> = (0..PROCESSES).map(|_| start_process(server)).collect();
    let ended = tokio::task::spawn_blocking(|| processes.into_iter().all(has_succeeded));
    assert!(ended.await.unwrap());
    let Node::File(file) = store.read(&log).await.unwrap() else { unreachable!("nobody removes it") };
    let lines: BTreeSet<_> = file.content.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), PROCESSES * INSERTS);
}

fn start_process(server: &dyn Server) -> Child {
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args(["--exact", "insert_lines", "--ignored"]).stdout(Stdio::null());
    process.envs(server.environment(server.url())).env(URL, format!("{}/contention", server.bucket_url()));
    process.spawn().unwrap()
}

fn has_succeeded(mut process: Child) -> bool {
    process.wait().unwrap().success()
}
