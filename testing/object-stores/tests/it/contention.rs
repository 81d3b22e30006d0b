//! Processes that write at once, on a local disk, in SQLite and on a server of each cloud: those that edit one file lose nothing
//! (`[X3]`), and those that fill a memory up to its limits never pass them together (`[X4]`).

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use memory_tool::{OpenOptions, StoreUrl};
use memory_tool_core::{Engine, MemoryTool, Store, StoreError, StoreExt};
use memory_tool_object_store::BucketStore;
use memory_tool_policies::{LimitedStore, default_quota};
use memory_tool_test_fixtures::directory_in_ram;
use memory_tool_test_servers::{AzureServer, GcsServer, S3Server, Server};
use object_store::RetryConfig;
use serde_json::json;

/// Names the store to the processes.
const URL: &str = "MEMORY_TOOL_TEST_WRITE_TO";
const PROCESSES: usize = 8;
const INSERTS: usize = 50;
/// So that the processes do not come out even.
const FILES: u64 = 101;
const BYTES: u64 = 307;

/// A store, and what tells the processes of it.
struct Place {
    store: Arc<dyn Store>,
    url: String,
    environment: Vec<(&'static str, String)>,
}

async fn open(url: &str) -> Arc<dyn Store> {
    StoreUrl::parse(url).unwrap().open(OpenOptions::new()).await.unwrap().store()
}

#[tokio::test]
#[ignore = "what each process of the other tests does"]
async fn insert_lines() {
    let tool = Engine::new(open(&std::env::var(URL).unwrap()).await);
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
async fn on_a_local_disk() {
    let directory = directory_in_ram().unwrap();
    write_at_once(on_this_machine(directory.path().display().to_string()).await).await;
}

#[tokio::test]
async fn in_sqlite() {
    let directory = directory_in_ram().unwrap();
    write_at_once(on_this_machine(format!("sqlite:{}/memory.sqlite", directory.path().display())).await).await;
}

#[tokio::test]
async fn on_s3() {
    let server = S3Server::start().unwrap();
    write_at_once(in_bucket(&server).await).await;
}

#[tokio::test]
async fn on_google_cloud_storage() {
    let server = GcsServer::start().unwrap();
    write_at_once(in_bucket(&server).await).await;
}

#[tokio::test]
async fn on_azure() {
    let server = AzureServer::start().unwrap();
    write_at_once(in_bucket(&server).await).await;
}

async fn on_this_machine(url: String) -> Place {
    Place { store: open(&url).await, url, environment: Vec::new() }
}

async fn in_bucket(server: &dyn Server) -> Place {
    let bucket = server.client(server.url(), RetryConfig::default()).unwrap();
    let store = Arc::new(BucketStore::open(bucket, "contention".into()).await.unwrap());
    Place { store, url: format!("{}/contention", server.bucket_url()), environment: server.environment(server.url()) }
}

async fn write_at_once(place: Place) {
    lose_no_insert(&place).await;
    fill_to_the_limits(&place).await;
}

async fn lose_no_insert(place: &Place) {
    place.store.write("/memories/log", "").await.unwrap();
    wait_for(start_processes(place, "contention::insert_lines")).await;
    let log = place.store.read_to_string("/memories/log").await.unwrap();
    let lines: BTreeSet<_> = log.split('\n').filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), PROCESSES * INSERTS);
    place.store.remove("/memories/log").await.unwrap();
}

async fn fill_to_the_limits(place: &Place) {
    let mut processes = start_processes(place, "contention::fill");
    while processes.iter_mut().any(|process| process.try_wait().unwrap().is_none()) {
        let (files, bytes) = totals(&*place.store).await;
        assert!(files <= FILES && bytes <= BYTES, "{files} files, {bytes} bytes");
    }
    wait_for(processes).await;
    assert_eq!(totals(&*place.store).await, (FILES, BYTES));
}

async fn totals(store: &dyn Store) -> (u64, u64) {
    let usage = store.usage().await.unwrap();
    (usage.files, usage.bytes)
}

/// Runs a test of this file in many processes at once.
fn start_processes(place: &Place, test: &str) -> Vec<Child> {
    let start = |_| {
        let mut process = Command::new(std::env::current_exe().unwrap());
        process.args(["--exact", test, "--ignored"]).stdout(Stdio::null());
        process.envs(place.environment.iter().cloned()).env(URL, &place.url).spawn().unwrap()
    };
    (0..PROCESSES).map(start).collect()
}

async fn wait_for(processes: Vec<Child>) {
    let have_succeeded = || processes.into_iter().all(|mut process| process.wait().unwrap().success());
    assert!(tokio::task::spawn_blocking(have_succeeded).await.unwrap());
}
