//! An index as large as may be.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use memory_tool_core::{Batch, FailureKind, MemoryPath, Store, StoreError};
use memory_tool_object_store::{BucketStore, MAX_INDEX_BYTES};
use object_store::ObjectStoreExt;
use support::{PREFIX, TestBucket, path, read, write};

/// Two times as many fill the index.
const FILES: usize = 8_800;

/// Files with paths so long that few of them fill an index.
async fn fill(store: &BucketStore, directory: &str, files: usize) -> Result<(), StoreError> {
    let long = vec!["x".repeat(200); 4].join("/");
    let batch = (0..files).fold(Batch::new(), |batch, number| {
        batch.write(path(&format!("/memories/{directory}/{number:06}/{long}")), Vec::new()).unwrap()
    });
    store.apply(batch).await
}

#[tokio::test]
async fn a_write_that_the_index_has_no_room_for_is_refused_as_full() {
    let bucket = TestBucket::new();
    let store = bucket.open().await;
    fill(&store, "first", FILES).await.unwrap();
    fill(&store, "second", FILES).await.unwrap();
    let index = bucket.objects.head(&format!("{PREFIX}/index.json").into()).await.unwrap();
    assert!((MAX_INDEX_BYTES as u64 / 10 * 9..MAX_INDEX_BYTES as u64).contains(&index.size), "{}", index.size);

    let refused = fill(&store, "third", FILES).await.unwrap_err();
    assert!(matches!(refused, StoreError::Failure { kind: FailureKind::Full, .. }), "{refused:?}");
    assert_eq!(store.list(&MemoryPath::root()).await.unwrap().len(), 2 * FILES);

    store.apply(Batch::new().remove(path("/memories/first")).unwrap()).await.unwrap();
    fill(&store, "third", FILES).await.unwrap();
    write(&store, "/memories/a", "text").await.unwrap();
    let other = bucket.other().await;
    assert_eq!(read(&other, "/memories/a").await.unwrap(), "text");
    assert_eq!(other.list(&MemoryPath::root()).await.unwrap().len(), 2 * FILES + 1);
}
