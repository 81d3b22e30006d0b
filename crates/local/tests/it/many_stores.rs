//! A process can have any number of stores, because it keeps the files of a few open.

use std::fs;
use std::path::Path;

use memory_tool_core::{Batch, ErrorKind, Store, StoreError, StoreExt as _, StorePath};
use memory_tool_local::LocalStore;
use tempfile::TempDir;

/// More than the number of stores whose files are kept open.
const MANY: usize = 100;

fn write(text: &str) -> Batch {
    Batch::new().write("/memories/a".parse::<StorePath>().unwrap(), text)
}

/// Opens and uses many stores, which closes the files of earlier stores.
async fn use_many_others(directory: &Path) -> Vec<LocalStore> {
    let mut stores = Vec::new();
    for number in 0..MANY {
        let store = LocalStore::open(directory.join(format!("other {number}"))).await.unwrap();
        store.apply(write(&number.to_string())).await.unwrap();
        stores.push(store);
    }
    stores
}

#[tokio::test]
async fn another_directory_at_the_path_is_another_store() {
    let directory = TempDir::new().unwrap();
    let base = directory.path().join("base");
    let store = LocalStore::open(&base).await.unwrap();
    store.apply(write("ours")).await.unwrap();
    let _others = use_many_others(directory.path()).await;
    fs::rename(&base, directory.path().join("moved")).unwrap();
    let missing = store.read("/memories/a").await;
    assert!(matches!(missing, Err(StoreError::Failure { kind: ErrorKind::Other, .. })), "{missing:?}");
    LocalStore::open(&base).await.unwrap().apply(write("theirs")).await.unwrap();
    for refused in [store.read("/memories/a").await.map(|_| ()), store.apply(write("ours")).await] {
        assert!(matches!(refused, Err(StoreError::Failure { kind: ErrorKind::Other, .. })), "{refused:?}");
    }
    assert_eq!(fs::read_to_string(base.join("memories/a")).unwrap(), "theirs");
    fs::remove_dir_all(&base).unwrap();
    fs::rename(directory.path().join("moved"), &base).unwrap();
    assert_eq!(store.read_to_string("/memories/a").await.unwrap(), "ours");
}
