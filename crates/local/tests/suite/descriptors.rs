//! The number of files that a process keeps open for its stores.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libtest_mimic::Trial;
use memory_tool_core::{Batch, Store as _, StoreExt as _, StorePath};
use memory_tool_local::LocalStore;
use memory_tool_test_fixtures::{by_tier, faults};
use rustix::process::{Resource, Rlimit, setrlimit};

/// The number of stores of the child process, and the directory of their bases.
const STORES: &str = "MEMORY_TOOL_TEST_STORES";
const BASE: &str = "MEMORY_TOOL_TEST_BASE";

/// The usual limit of a process.
const LIMIT: u64 = 1_024;
/// The number of open files of all idle stores together and of the process itself.
const MAX_IDLE: usize = 220;

pub(crate) fn trials() -> [Trial; 1] {
    [faults::trial("descriptors::a_process_can_use_any_number_of_stores", true, "", use_many_stores)]
}

fn use_many_stores() {
    let directory = tempfile::tempdir().unwrap();
    let stores = by_tier(300, 2_000).to_string();
    let mut child = Command::new(std::env::current_exe().unwrap());
    assert!(child.env(STORES, stores).env(BASE, directory.path()).status().unwrap().success());
}

/// In a child process: uses each store in turn, and then all at once.
pub(crate) fn run_child() -> Option<ExitCode> {
    let (stores, base) = (std::env::var(STORES).ok()?, PathBuf::from(std::env::var_os(BASE)?));
    setrlimit(Resource::Nofile, Rlimit { current: Some(LIMIT), maximum: Some(LIMIT) }).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    runtime.block_on(async {
        let opened = open_all(&base, stores.parse().unwrap()).await;
        for (number, store) in opened.iter().enumerate() {
            use_store(store, number).await;
        }
        assert!(open_files() <= MAX_IDLE, "{} files are open", open_files());
        let number_and_store = opened.iter().cloned().enumerate();
        let at_once: Vec<_> = number_and_store
            .map(|(number, store)| tokio::spawn(async move { use_store(&store, number).await }))
            .collect();
        for used in at_once {
            used.await.unwrap();
        }
        assert!(open_files() <= MAX_IDLE, "{} files are open", open_files());
    });
    Some(ExitCode::SUCCESS)
}

async fn open_all(base: &Path, stores: usize) -> Vec<LocalStore> {
    let mut opened = Vec::new();
    for number in 0..stores {
        opened.push(LocalStore::open(base.join(number.to_string())).await.unwrap());
    }
    opened
}

async fn use_store(store: &LocalStore, number: usize) {
    store.apply(Batch::new().write("/memories/a".parse::<StorePath>().unwrap(), number.to_string())).await.unwrap();
    for _ in 0..2 {
        assert_eq!(store.read_to_string("/memories/a").await.unwrap(), number.to_string());
    }
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}
