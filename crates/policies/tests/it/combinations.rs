//! Combinations of policies.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use crate::support::{block_on, path, read_record};
use memory_tool_core::{Batch, InMemoryStore, Precondition, Quota, Store, StoreError, StoreExt as _, StorePath};
use memory_tool_policies::{ExpiringStore, LimitedStore, Scope, ScopedStore};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A store with limits over an expiry of ten days, and the current day, which a test can change.
fn limited_and_expiring(inner: impl Store, quota: Quota) -> (Arc<AtomicU64>, impl Store) {
    let today = Arc::new(AtomicU64::new(21_000));
    let day = Arc::clone(&today);
    let clock = move || UNIX_EPOCH + DAY * u32::try_from(day.load(Ordering::Relaxed)).unwrap();
    let expiring = ExpiringStore::builder(inner, 10 * DAY).clock(clock).build().unwrap();
    (today, LimitedStore::new(expiring, quota))
}

async fn create(store: &dyn Store, name: &str, content: &str) -> Result<(), StoreError> {
    let file = path(&format!("/memories/{name}"));
    store.apply(Batch::new().require(file.clone(), Precondition::Absent).write(file, content)).await
}

async fn names(store: &dyn Store) -> Vec<String> {
    let files = store.list(StorePath::memories()).await.unwrap();
    files.iter().map(|file| file.path.as_str().replace("/memories/", "")).collect()
}

fn assert_refused(outcome: Result<(), StoreError>, words: &str) {
    match outcome {
        Err(StoreError::Refused { reason, .. }) => assert!(reason.contains(words), "{reason}"),
        other => panic!("{other:?}"),
    }
}

/// The access times of a scope do not count against its limits.
#[test]
fn access_times_are_not_counted() {
    block_on(async {
        let shared = Arc::new(InMemoryStore::new());
        let scoped = ScopedStore::new(Arc::clone(&shared), Scope::from_trusted_name("alice").unwrap());
        let quota = Quota::new().with_files(2).with_bytes(10).with_depth(1).with_file_bytes(6);
        let (_, store) = limited_and_expiring(scoped, quota);
        create(&store, "a", "12345").await.unwrap();
        create(&store, "b", "1234").await.unwrap();
        let times = read_record(&shared, "scopes/scope-alice/expiry/access-times").await;
        assert!(times.unwrap().content.starts_with(br#"{"version":1,"files":{"/memories/a""#));
        assert_refused(create(&store, "c", "").await, "would make 3 files; the limit is 2");
        assert_refused(store.write("/memories/b", "123456").await, "11 bytes");
        store.write("/memories/b", "12345").await.unwrap();
    });
}

#[test]
fn expired_files_make_room_for_new_ones() {
    block_on(async {
        let (today, store) = limited_and_expiring(InMemoryStore::new(), Quota::new().with_files(2));
        create(&store, "a", "x").await.unwrap();
        today.fetch_add(6, Ordering::Relaxed);
        create(&store, "b", "x").await.unwrap();
        assert_refused(create(&store, "c", "x").await, "3 files");
        today.fetch_add(6, Ordering::Relaxed);
        create(&store, "c", "x").await.unwrap();
        assert_eq!(names(&store).await, ["b", "c"]);
        assert_refused(create(&store, "d", "x").await, "3 files");
    });
}
