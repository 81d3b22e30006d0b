//! Concurrent processes on local disk, in SQLite and on a server of each cloud protocol. Processes that edit one file
//! lose no edits (`[X3]`), and processes that fill a memory never exceed its quota together (`[X4]`).

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use memory_tool::{OpenOptions, StoreUrl};
use memory_tool_bucket::BucketStore;
use memory_tool_core::{Engine, MemoryTool, Store, StoreError, StoreExt};
use memory_tool_policies::{LimitedStore, default_quota};
use memory_tool_test_fixtures::{by_tier, directory_in_ram};
use memory_tool_test_servers::{AzureServer, GcsServer, S3Server, Server};
use object_store::RetryConfig;
use serde_json::json;

/// The environment variable with the URL of the store.
const URL: &str = "MEMORY_TOOL_TEST_WRITE_TO";
const PROCESSES: usize = 8;
/// Not a multiple of the number of processes.
const FILES: u64 = 101;
const BYTES: u64 = 307;

/// The number of inserts of each process.
fn inserts() -> usize {
    by_tier(10, 50)
}

/// A store, and the environment in which processes can open it.
struct Target {
    store: Arc<dyn Store>,
    url: String,
    environment: Vec<(&'static str, String)>,
}

async fn open(url: &str) -> Arc<dyn Store> {
    StoreUrl::parse(url).unwrap().open(OpenOptions::new()).await.unwrap().store()
}

#[tokio::test]
#[ignore = "the other tests run this in processes"]
async fn insert_lines() {
    let tool = Engine::new(open(&std::env::var(URL).unwrap()).await);
    for number in 0..inserts() {
        let line = format!("{} {number}", std::process::id());
        tool.call(json!({"command": "insert", "path": "/memories/log", "insert_line": 0, "insert_text": line}))
            .await
            .unwrap();
    }
}

/// Creates files up to the file limit, then extends the first file up to the byte limit.
#[tokio::test]
#[ignore = "the other tests run this in processes"]
async fn fill() {
    let store = open(&std::env::var(URL).unwrap()).await;
    let store = LimitedStore::new(store, default_quota().with_files(FILES).with_bytes(BYTES));
    let write = async |number: usize, length: usize| {
        let path = format!("/memories/{}/{number}", std::process::id());
        match store.write(path, vec![b'x'; length]).await {
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
async fn local_store_handles_contention() {
    let directory = directory_in_ram().unwrap();
    check_contention(on_this_machine(directory.path().display().to_string()).await).await;
}

#[tokio::test]
async fn sqlite_store_handles_contention() {
    let directory = directory_in_ram().unwrap();
    check_contention(on_this_machine(format!("sqlite:{}/memory.sqlite", directory.path().display())).await).await;
}

#[tokio::test]
async fn s3_store_handles_contention() {
    let server = S3Server::start().unwrap();
    check_contention(in_bucket(&server).await).await;
}

#[tokio::test]
async fn gcs_store_handles_contention() {
    let server = GcsServer::start().unwrap();
    check_contention(in_bucket(&server).await).await;
}

#[tokio::test]
async fn azure_store_handles_contention() {
    let server = AzureServer::start().unwrap();
    check_contention(in_bucket(&server).await).await;
}

async fn on_this_machine(url: String) -> Target {
    Target { store: open(&url).await, url, environment: Vec::new() }
}

async fn in_bucket(server: &dyn Server) -> Target {
    let bucket = server.client(server.url(), RetryConfig::default()).unwrap();
    let store = Arc::new(BucketStore::open(bucket, "contention".into()).await.unwrap());
    Target { store, url: format!("{}/contention", server.bucket_url()), environment: server.environment(server.url()) }
}

async fn check_contention(target: Target) {
    check_inserts(&target).await;
    check_limits(&target).await;
}

async fn check_inserts(target: &Target) {
    target.store.write("/memories/log", "").await.unwrap();
    wait_for(start_processes(target, "contention::insert_lines")).await;
    let log = target.store.read_to_string("/memories/log").await.unwrap();
    let lines: BTreeSet<_> = log.split('\n').filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), PROCESSES * inserts());
    target.store.remove("/memories/log").await.unwrap();
}

async fn check_limits(target: &Target) {
    let mut processes = start_processes(target, "contention::fill");
    while processes.iter_mut().any(|process| process.try_wait().unwrap().is_none()) {
        let (files, bytes) = totals(&*target.store).await;
        assert!(files <= FILES && bytes <= BYTES, "{files} files, {bytes} bytes");
    }
    wait_for(processes).await;
    assert_eq!(totals(&*target.store).await, (FILES, BYTES));
}

async fn totals(store: &dyn Store) -> (u64, u64) {
    let usage = store.usage().await.unwrap();
    (usage.files, usage.bytes)
}

/// Runs a test of this file in concurrent processes.
fn start_processes(target: &Target, test: &str) -> Vec<Child> {
    let start = |_| {
        let mut process = Command::new(std::env::current_exe().unwrap());
        process.args(["--exact", test, "--ignored"]).stdout(Stdio::null());
        process.envs(target.environment.iter().cloned()).env(URL, &target.url).spawn().unwrap()
    };
    (0..PROCESSES).map(start).collect()
}

async fn wait_for(processes: Vec<Child>) {
    let all_succeed = || processes.into_iter().all(|mut process| process.wait().unwrap().success());
    assert!(tokio::task::spawn_blocking(all_succeed).await.unwrap());
}
