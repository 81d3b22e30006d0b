//! Processes that write at once, on a server of each cloud: those that edit one file lose nothing (`[X3]`), and those that fill a
//! memory up to its limits never pass them together (`[X4]`).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};

use memory_tool_core::{Batch, Engine, MemoryPath, MemoryTool, Node, Store, StoreError};
use memory_tool_object_store::{BucketStore, BucketStoreBuilder};
use memory_tool_policies::{LimitedStore, Limits};
use memory_tool_test_servers::{AzureServer, GcsServer, S3Server, Server};
use object_store::RetryConfig;
use serde_json::json;

/// Names the store to the processes.
const URL: &str = "MEMORY_TOOL_TEST_INSERT_INTO";
const PROCESSES: usize = 8;
const INSERTS: usize = 50;
/// So that the processes do not come out even.
const FILES: u64 = 53;
const BYTES: u64 = 131;

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

/// Makes files until there is no room, then lengthens the first of them until there is none for that either.
#[tokio::test]
#[ignore = "what each process of the other tests does"]
async fn fill() {
    let url = std::env::var(URL).unwrap();
    let store = BucketStoreBuilder::from_url(&url).unwrap().open().await.unwrap();
    let store = LimitedStore::new(store, Limits::default().with_files(FILES).with_bytes(BYTES));
    let write = async |number: usize, length: usize| {
        let path = format!("/memories/{}/{number}", std::process::id()).parse().unwrap();
        match store.apply(Batch::new().write(path, vec![b'x'; length]).unwrap()).await {
            Ok(()) => true,
            Err(StoreError::Refused { .. }) => false,
            Err(error) => unreachable!("{error:?}"),
        }
    };
    let mut number = 0;
    while write(number, 1).await {
        number += 1;
    }
    let mut length = 2;
    while number > 0 && write(0, length).await {
        length += 1;
    }
}

#[tokio::test]
async fn on_s3() {
    write_at_once(&S3Server::start().unwrap()).await;
}

#[tokio::test]
async fn on_google_cloud_storage() {
    write_at_once(&GcsServer::start().unwrap()).await;
}

#[tokio::test]
async fn on_azure() {
    write_at_once(&AzureServer::start().unwrap()).await;
}

async fn write_at_once(server: &dyn Server) {
    lose_no_insert(server).await;
    fill_to_the_limits(server).await;
}

async fn lose_no_insert(server: &dyn Server) {
    let store = open(server, "contention").await;
    let log: MemoryPath = "/memories/log".parse().unwrap();
    store.apply(Batch::new().write(log.clone(), Vec::new()).unwrap()).await.unwrap();
    run_processes(server, "contention", "insert_lines").await;
    let Node::File(file) = store.read(&log).await.unwrap() else { unreachable!("nobody removes it") };
    let lines: BTreeSet<_> = file.content.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), PROCESSES * INSERTS);
}

async fn fill_to_the_limits(server: &dyn Server) {
    let store = open(server, "limits").await;
    run_processes(server, "limits", "fill").await;
    let files = store.list(&MemoryPath::root()).await.unwrap();
    let bytes: u64 = files.iter().map(|file| file.size).sum();
    assert_eq!((files.len() as u64, bytes), (FILES, BYTES));
}

async fn open(server: &dyn Server, prefix: &str) -> BucketStore {
    let bucket = server.client(server.url(), RetryConfig::default()).unwrap();
    BucketStore::open(bucket, prefix.into()).await.unwrap()
}

/// Runs a test of this file in many processes at once, on the store of that prefix.
async fn run_processes(server: &dyn Server, prefix: &str, test: &str) {
    let processes: Vec<_> = (0..PROCESSES).map(|_| start_process(server, prefix, test)).collect();
    let ended = tokio::task::spawn_blocking(|| processes.into_iter().all(has_succeeded));
    assert!(ended.await.unwrap());
}

fn start_process(server: &dyn Server, prefix: &str, test: &str) -> Child {
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args(["--exact", test, "--ignored"]).stdout(Stdio::null());
    process.envs(server.environment(server.url())).env(URL, format!("{}/{prefix}", server.bucket_url()));
    process.spawn().unwrap()
}

fn has_succeeded(mut process: Child) -> bool {
    process.wait().unwrap().success()
}
