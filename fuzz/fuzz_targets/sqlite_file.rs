//! Opens, verifies, reads and changes a database with arbitrary content. A read-only store must not change any file.
#![no_main]

use std::sync::OnceLock;
use std::{env, fs, process};

use libfuzzer_sys::fuzz_target;
use memory_tool_core::{OpenMode, OpenOptions, StoreExt};
use memory_tool_sqlite::SqliteStore;
use tokio::runtime::{Builder, Runtime};

fuzz_target!(|stored: &[u8]| {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| Builder::new_current_thread().enable_all().build().expect("a runtime"));
    let directory = env::temp_dir().join(format!("memory-tool-fuzz-{}", process::id()));
    let database = directory.join("memory.sqlite");
    for mode in [OpenMode::ReadOnly, OpenMode::Create] {
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).expect("a directory");
        fs::write(&database, stored).expect("a database");
        runtime.block_on(use_database(&database, mode));
        if mode == OpenMode::ReadOnly {
            assert_eq!(fs::read_dir(&directory).expect("the directory").count(), 1);
            assert!(fs::read(&database).expect("the database") == stored);
        }
    }
});

async fn use_database(database: &std::path::Path, mode: OpenMode) {
    let Ok(store) = SqliteStore::builder(database).options(OpenOptions::new().mode(mode)).open().await else { return };
    let _ = store.verify(|_| {}).await;
    for name in store.memory_names().await.unwrap_or_default() {
        let store = store.memory(name);
        for file in store.list("/memories").await.unwrap_or_default() {
            let _ = store.read(&file.path).await;
        }
        let _ = store.remove("/memories").await;
    }
}
