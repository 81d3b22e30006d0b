//! Files that are too large are refused before they are read. They can still be listed, renamed and deleted.

use std::fs::{self, File};
use std::time::{Duration, Instant};

use crate::support::TestMemory;
use memory_tool_core::{
    Batch, DEFAULT_MAX_FILE_BYTES, Engine, MemoryTool, Node, OpenOptions, Precondition, Quota, ReadOptions, Store,
    StoreError, StoreExt, StorePath,
};
use memory_tool_local::LocalStore;
use memory_tool_test_fixtures::path;
use serde_json::json;

/// More bytes than the RAM can hold.
const HUGE: u64 = 1 << 40;

/// The peak memory of this process in KiB.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
async fn a_huge_file_cannot_be_read_but_can_be_managed() {
    let memory = TestMemory::new().await;
    memory.create("/memories/d/small", "text").await;
    File::create(memory.on_disk("/memories/d/big")).unwrap().set_len(HUGE).unwrap();
    let start = Instant::now();
    let refused = format!(
        "Error: The file is too large to read: it has {HUGE} bytes and the limit is {DEFAULT_MAX_FILE_BYTES}. You can \
         delete or rename it."
    );
    assert_eq!(memory.view("/memories/d/big").await, refused);
    assert_eq!(memory.insert("/memories/d/big", "line").await, refused);
    assert_eq!(memory.create("/memories/d/big", "x").await, "Error: File /memories/d/big already exists");
    let listing = memory.view("/memories").await;
    assert!(listing.ends_with("\n4B\t/memories/d/small") && listing.contains("\t/memories/d/big\n"), "{listing}");
    assert_eq!(memory.create("/memories/d/new", "x").await, "File created successfully at: /memories/d/new");
    let exists = "Error: The destination /memories/d/big already exists";
    assert_eq!(memory.rename("/memories/d/small", "/memories/d/big").await, exists);
    assert!(memory.rename("/memories/d/big", "/memories/e/moved").await.starts_with("Successfully renamed"));
    assert!(memory.rename("/memories/e", "/memories/f").await.starts_with("Successfully renamed"));

    // A batch of several changes with a quota.
    let limits = Quota::new().with_bytes(HUGE + 1_000);
    let batch = Batch::new().limit(StorePath::memories(), limits).rename(path("/memories/f"), path("/memories/g"));
    let batch = batch.write(path("/memories/h"), "h");
    memory.tool.store().apply(batch).await.unwrap();
    let unless_moved = ReadOptions::new().require(path("/memories/g/moved"), Precondition::Absent);
    let read = memory.tool.store().read_opts(&path("/memories/h"), unless_moved).await;
    assert!(matches!(read, Err(StoreError::AlreadyExists { .. })), "{read:?}");
    assert_eq!(memory.delete("/memories/g/moved").await, "Successfully deleted /memories/g/moved");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert!(peak_kib() < 256 * 1024, "{} KiB", peak_kib());
}

#[tokio::test]
async fn a_huge_file_can_be_replaced() {
    let memory = TestMemory::new().await;
    let store = memory.tool.store();
    for batch in [Batch::new(), Batch::new().write(path("/memories/other"), "x")] {
        File::create(memory.on_disk("/memories/big")).unwrap().set_len(HUGE).unwrap();
        store.apply(batch.write(path("/memories/big"), "small")).await.unwrap();
        assert!(memory.view("/memories/big").await.ends_with("\tsmall"));
    }
}

#[tokio::test]
async fn an_oversized_file_cannot_be_written() {
    let directory = tempfile::tempdir().unwrap();
    let store =
        LocalStore::builder(directory.path()).options(OpenOptions::new().max_file_bytes(8)).open().await.unwrap();
    let tool = Engine::new(store.clone());
    let write = |content: &str| Batch::new().write(path("/memories/a"), content.as_bytes().to_vec());
    store.apply(write("12345678")).await.unwrap();
    assert!(matches!(store.read(&path("/memories/a")).await.unwrap(), Node::File(file) if file.content == b"12345678"));
    let refused = store.apply(write("123456789")).await;
    assert!(
        matches!(&refused, Err(StoreError::Refused { path: refused, .. }) if *refused == path("/memories/a")),
        "{refused:?}"
    );
    let create = json!({"command": "create", "path": "/memories/b", "file_text": "123456789"});
    let expected = "Error: The file would have 9 bytes; the limit is 8. Split it into smaller files.";
    assert_eq!(tool.call(create).await.unwrap_err().to_string(), expected);
    let insert = json!({"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": "x"});
    assert!(tool.call(insert).await.unwrap_err().to_string().contains("the limit is 8. Split it"));
    assert!(matches!(store.read(&path("/memories/a")).await.unwrap(), Node::File(file) if file.content == b"12345678"));
    assert_eq!(store.list(&StorePath::memories()).await.unwrap().len(), 1);

    // Existing files may be larger: the limit may have changed.
    let other =
        LocalStore::builder(directory.path()).options(OpenOptions::new().max_file_bytes(4)).open().await.unwrap();
    assert!(matches!(other.read(&path("/memories/a")).await, Err(StoreError::Refused { .. })));
    other.apply(Batch::new().remove(path("/memories/a"))).await.unwrap();
}
