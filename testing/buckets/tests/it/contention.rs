//! Processes that fill a memory on local disk, in SQLite or in a bucket never exceed its quota together (`[X4]`). The
//! conformance suite tests other races of processes (`races.*`).

use std::process::{Command, Stdio};
use std::sync::Arc;

use memory_tool::{OpenOptions, StoreUrl};
use memory_tool_bucket::BucketStore;
use memory_tool_core::{Store, StoreError, StoreExt, Usage};
use memory_tool_policies::{LimitedStore, default_quota};
use memory_tool_test_fixtures::directory_in_ram;
use memory_tool_test_servers::{GcsServer, Server};
use object_store::RetryConfig;

/// The environment variable with the URL of the store.
const URL: &str = "MEMORY_TOOL_TEST_WRITE_TO";
const PROCESSES: usize = 8;
/// Not a multiple of the number of processes.
const FILES: u64 = 101;
const BYTES: u64 = 307;

async fn open(url: &str) -> Arc<dyn Store> {
    StoreUrl::parse(url).unwrap().open(OpenOptions::new()).await.unwrap().store()
}

/// Creates files up to the file limit, then extends the first file up to the byte limit.
#[tokio::test]
#[ignore = "the other test runs this in processes"]
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
async fn processes_never_exceed_a_quota_together() {
    let (directory, server) = (directory_in_ram().unwrap(), GcsServer::start().unwrap());
    let (local, sqlite) = (directory.path().join("local"), directory.path().join("memory.sqlite"));
    check_limits(local.display().to_string(), None, Vec::new()).await;
    check_limits(format!("sqlite:{}", sqlite.display()), None, Vec::new()).await;
    let bucket = server.client(server.url(), RetryConfig::default()).unwrap();
    let store = Arc::new(BucketStore::open(bucket, "contention".into()).await.unwrap());
    let (url, environment) = (format!("{}/contention", server.bucket_url()), server.environment(server.url()));
    check_limits(url, Some(store), environment).await;
}

/// Fills a memory in processes with this environment. Without a store, this process opens the URL too.
async fn check_limits(url: String, store: Option<Arc<dyn Store>>, environment: Vec<(&'static str, String)>) {
    let store = match store {
        Some(store) => store,
        None => open(&url).await,
    };
    let start = |_| {
        let mut process = Command::new(std::env::current_exe().unwrap());
        process.args(["--exact", "contention::fill", "--ignored"]).stdout(Stdio::null());
        process.envs(environment.iter().cloned()).env(URL, &url).spawn().unwrap()
    };
    let mut processes: Vec<_> = (0..PROCESSES).map(start).collect();
    while processes.iter_mut().any(|process| process.try_wait().unwrap().is_none()) {
        let Usage { files, bytes, .. } = store.usage().await.unwrap();
        assert!(files <= FILES && bytes <= BYTES, "{files} files, {bytes} bytes");
    }
    assert!(processes.iter_mut().all(|process| process.wait().unwrap().success()));
    let Usage { files, bytes, .. } = store.usage().await.unwrap();
    assert_eq!((files, bytes), (FILES, BYTES));
}
