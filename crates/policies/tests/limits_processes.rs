//! `[X4]`: processes that fill one memory up to its limits never pass them together, on a local disk and in SQLite.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use memory_tool_core::{Batch, MemoryPath, Store, StoreError};
use memory_tool_local::LocalStore;
use memory_tool_policies::{LimitedStore, Limits};
use memory_tool_sqlite::SqliteStore;
use tempfile::TempDir;

/// Name the store to the processes: its kind, and its directory.
const KIND: &str = "MEMORY_TOOL_TEST_KIND";
const DIRECTORY: &str = "MEMORY_TOOL_TEST_DIRECTORY";

const PROCESSES: usize = 8;
/// So that the processes do not come out even.
const FILES: u64 = 101;
const BYTES: u64 = 307;

async fn open(kind: &str, directory: &Path) -> LimitedStore<Arc<dyn Store>> {
    let store: Arc<dyn Store> = match kind {
        "local" => Arc::new(LocalStore::open(directory).await.unwrap()),
        _ => Arc::new(SqliteStore::open(directory.join("memory.sqlite")).await.unwrap()),
    };
    LimitedStore::new(store, Limits::default().with_files(FILES).with_bytes(BYTES))
}

#[tokio::test]
async fn on_a_local_disk() {
    fill_to_the_limits("local").await;
}

#[tokio::test]
async fn in_sqlite() {
    fill_to_the_limits("sqlite").await;
}

/// Makes files until there is no room, then lengthens its first one until there is none for that either.
#[tokio::test]
#[ignore = "what each process of the other tests does"]
async fn fill() {
    let (kind, directory) = (std::env::var(KIND).unwrap(), std::env::var_os(DIRECTORY).unwrap());
    let store = open(&kind, directory.as_ref()).await;
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

async fn fill_to_the_limits(kind: &str) {
    let in_ram = Path::new("/dev/shm"); // spares the disk thousands of flushes
    let directory = if in_ram.is_dir() { TempDir::new_in(in_ram) } else { TempDir::new() }.unwrap();
    let store = open(kind, directory.path()).await;
    let mut processes: Vec<_> = (0..PROCESSES).map(|_| start_process(kind, directory.path())).collect();
    while !have_ended(&mut processes) {
        let (files, bytes) = totals(&store).await;
        assert!(files <= FILES && bytes <= BYTES, "{files} files, {bytes} bytes");
    }
    for mut process in processes {
        assert!(process.wait().unwrap().success());
    }
    assert_eq!(totals(&store).await, (FILES, BYTES));
}

async fn totals(store: &dyn Store) -> (u64, u64) {
    let files = store.list(&MemoryPath::root()).await.unwrap();
    (files.len() as u64, files.iter().map(|file| file.size).sum())
}

fn start_process(kind: &str, directory: &Path) -> Child {
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args(["--exact", "fill", "--ignored"]).env(KIND, kind).env(DIRECTORY, directory);
    process.stdout(Stdio::null()).spawn().unwrap()
}

fn have_ended(processes: &mut [Child]) -> bool {
    processes.iter_mut().all(|process| process.try_wait().unwrap().is_some())
}
