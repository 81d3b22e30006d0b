//! The times of files are kept by copies, exports and imports, on every backend.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use memory_tool::Memory;
use memory_tool::transfer::{CopyOptions, Export, Import};
use memory_tool_bucket::BucketStore;
use memory_tool_core::{Batch, FileTimes, InMemoryStore, Store, StoreExt as _, StorePath};
use memory_tool_encrypted::{EncryptedStore, KeyRing, RawKey};
use memory_tool_local::LocalStore;
use memory_tool_sqlite::SqliteStore;
use object_store::memory::InMemory;

const FILE: &str = "/memories/notes/old.md";

/// Times that no write of this test has.
fn times() -> FileTimes {
    let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    FileTimes::new().created(at(1_000_000_000)).modified(at(1_000_000_100))
}

async fn stores(directory: &Path) -> Vec<(&'static str, Arc<dyn Store>)> {
    let local = |name: &str| LocalStore::open(directory.join(name));
    let sqlite = |name: &str| SqliteStore::open(directory.join(name));
    let bucket = || BucketStore::open(Arc::new(InMemory::new()), "memory".into());
    let key = || KeyRing::new(RawKey::generate().unwrap());
    vec![
        ("in-process", Arc::new(InMemoryStore::new())),
        ("local", Arc::new(local("local").await.unwrap())),
        ("SQLite", Arc::new(sqlite("memory.db").await.unwrap())),
        ("bucket", Arc::new(bucket().await.unwrap())),
        ("encrypted local", Arc::new(EncryptedStore::open(local("sealed").await.unwrap(), key()).await.unwrap())),
        ("encrypted SQLite", Arc::new(EncryptedStore::open(sqlite("sealed.db").await.unwrap(), key()).await.unwrap())),
        ("encrypted bucket", Arc::new(EncryptedStore::open(bucket().await.unwrap(), key()).await.unwrap())),
    ]
}

/// A local store records no time of creation.
fn kept_by(name: &str) -> FileTimes {
    if name.contains("local") { times().created(None) } else { times() }
}

async fn times_of(memory: &Memory) -> FileTimes {
    let listed = memory.store().list(StorePath::memories()).await.unwrap();
    let [file] = listed.as_slice() else { panic!("{listed:?}") };
    assert_eq!(file.path.as_str(), FILE);
    file.times()
}

#[tokio::test]
async fn copies_exports_and_imports_keep_the_times_of_files() {
    let directory = tempfile::tempdir().unwrap();
    let source = InMemoryStore::new();
    source.apply(Batch::new().write_with_times(FILE.parse::<StorePath>().unwrap(), "text", times())).await.unwrap();
    let source = Memory::over(source).build().await.unwrap();
    for (number, (name, store)) in stores(directory.path()).await.into_iter().enumerate() {
        let memory = Memory::over(store).build().await.unwrap();
        let report = source.copy_to(&memory, CopyOptions::new(), |_| {}).await.unwrap();
        assert_eq!(report.written.copied, 1, "{name}");
        assert_eq!(times_of(&memory).await, kept_by(name), "copied to {name}");

        let archive = directory.path().join(format!("{number}.tar"));
        let plain = directory.path().join(format!("{number}"));
        for target in [&archive, &plain] {
            let exported = memory.export(Export::to_path(target), |_| {}).await.unwrap();
            assert_eq!(exported.exported, 1, "{name}");
            let restored = Memory::over(InMemoryStore::new()).build().await.unwrap();
            drop(restored.import(Import::from_path(target), |_| {}).await.unwrap());
            let created = if target == &archive { kept_by(name).created } else { None };
            let created = created.or(times().modified); // a file is created with its first write
            assert_eq!(times_of(&restored).await, times().created(created), "restored from {name}");
        }
    }
}

/// A local source has no time of creation.
#[tokio::test]
async fn a_copy_over_a_newer_file_is_not_created_after_its_last_write() {
    let directory = tempfile::tempdir().unwrap();
    for (name, store) in stores(directory.path()).await {
        store.write(FILE, "newer").await.unwrap();
        let times = times().created(None);
        store.apply(Batch::new().write_with_times(FILE.parse::<StorePath>().unwrap(), "text", times)).await.unwrap();
        let written = times_of(&Memory::over(store).build().await.unwrap()).await;
        assert_eq!(written.modified, times.modified, "{name}");
        assert!(written.created <= written.modified, "{name}: {written:?}");
    }
}

/// An ordinary write takes the present time, and keeps the time of creation.
#[tokio::test]
async fn an_edit_of_a_copy_is_dated_now() {
    let directory = tempfile::tempdir().unwrap();
    for (name, store) in stores(directory.path()).await {
        store.apply(Batch::new().write_with_times(FILE.parse::<StorePath>().unwrap(), "text", times())).await.unwrap();
        store.write(FILE, "edited").await.unwrap();
        let edited = times_of(&Memory::over(store).build().await.unwrap()).await;
        assert_eq!(edited.created, kept_by(name).created, "{name}");
        let age = SystemTime::now().duration_since(edited.modified.unwrap()).unwrap_or_default();
        assert!(age < Duration::from_secs(3_600), "{name}: {age:?}");
    }
}
