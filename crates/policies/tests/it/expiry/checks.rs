//! The rules of the policy on each kind of store that `model.rs` does not have.

use std::sync::Arc;

use memory_tool_core::{
    Batch, Engine, ErrorKind, InMemoryStore, Node, OpenOptions, Precondition, Quota, ReadOptions, Store, StoreError,
    StoreExt as _, StorePath,
};
use memory_tool_encrypted::{EncryptedStore, KeyRing, RawKey};
use memory_tool_local::LocalStore;
use memory_tool_policies::{ExpiringStore, ExpiryError, LimitedStore};
use memory_tool_sqlite::SqliteStore;
use tempfile::TempDir;

use super::harness::{
    IDLE, RESOLUTION, START, SURELY_EXPIRED, TestClock, access_times, call, create, listed, stored_times, time, view,
};
use crate::support::{memory_path, path, remove, rename, write};

type Inner = Arc<dyn Store>;

macro_rules! over_each_store {
    ($($check:ident),+ $(,)?) => {
        over_each_store!(@ in_memory, open_in_memory, $($check),+);
        over_each_store!(@ local, open_local, $($check),+);
        over_each_store!(@ sqlite, open_sqlite, $($check),+);
        over_each_store!(@ encrypted, open_encrypted, $($check),+);
    };
    (@ $store:ident, $open:ident, $($check:ident),+) => {
        mod $store {
            $(#[tokio::test]
            async fn $check() {
                let directory = memory_tool_test_fixtures::directory_in_ram().unwrap();
                super::$check(super::$open(&directory).await).await;
            })+
        }
    };
}

over_each_store!(
    a_sweep_removes_only_expired_files,
    pinned_files_do_not_expire,
    files_without_a_time_count_as_used_when_first_seen,
    deleting_a_file_removes_its_access_time,
    a_precondition_treats_expired_files_as_absent,
    with_damaged_times_nothing_expires,
    a_file_used_once_with_a_clock_that_is_ahead_expires,
    most_files_are_not_removed_by_one_sweep_with_a_clock_that_is_ahead,
    most_files_are_removed_by_a_sweep_that_is_a_resolution_later,
    files_beside_pinned_ones_are_held_back_too,
    a_batch_removes_no_more_expired_files_than_it_needs,
    removing_the_records_removes_the_times,
    with_an_unset_clock_nothing_expires_or_is_recorded,
);

async fn open_in_memory(_: &TempDir) -> Inner {
    Arc::new(InMemoryStore::new())
}

async fn open_local(directory: &TempDir) -> Inner {
    Arc::new(LocalStore::open(directory.path().join("base")).await.unwrap())
}

async fn open_sqlite(directory: &TempDir) -> Inner {
    Arc::new(SqliteStore::open(directory.path().join("memory.sqlite")).await.unwrap())
}

async fn open_encrypted(directory: &TempDir) -> Inner {
    let keys = KeyRing::new(RawKey::from_bytes([1; 32]));
    Arc::new(EncryptedStore::open(open_local(directory).await, keys).await.unwrap())
}

#[tokio::test]
async fn encrypted_sizes_do_not_reveal_the_length_of_paths() {
    let mut sizes_per_path = Vec::new();
    for file in ["/memories/a", "/memories/a-longer-name"] {
        let encrypted = Arc::new(InMemoryStore::new());
        let keys = KeyRing::new(RawKey::from_bytes([1; 32]));
        let store: Inner = Arc::new(EncryptedStore::open(Arc::clone(&encrypted), keys).await.unwrap());
        let tool = TestClock::new().open(Arc::clone(&store));
        write(tool.store(), file, "text").await.unwrap();
        assert!(stored_times(&*store).await.is_some());
        let stored = encrypted.list(StorePath::memories()).await.unwrap();
        let mut sizes: Vec<_> = stored.into_iter().map(|entry| entry.size).collect();
        sizes.sort_unstable();
        sizes_per_path.push(sizes);
    }
    assert_eq!(sizes_per_path[0].len(), 4, "two copies of the index, the file, and the access times");
    assert_eq!(sizes_per_path[0], sizes_per_path[1]);
}

async fn a_sweep_removes_only_expired_files(inner: Inner) {
    let clock = TestClock::new();
    let tool = clock.open(Arc::clone(&inner));
    // More files than one batch removes.
    let mut batch = Batch::new();
    for number in 0..250 {
        batch = batch.write(path(&format!("/memories/old/{number:03}")), "old");
    }
    tool.store().apply(batch).await.unwrap();
    clock.advance(IDLE);
    create(&tool, "/memories/new").await;
    clock.advance(SURELY_EXPIRED - IDLE);
    let expired = tool.store().expired().await.unwrap();
    assert_eq!(expired.len(), 250);
    assert_eq!(
        (&expired[7].path, expired[7].last_access, expired[7].size),
        (&path("/memories/old/007"), time(START), 3)
    );
    assert_eq!(listed(&*inner).await.len(), 251, "a dry run removes nothing");

    let swept = tool.store().sweep_all().await.unwrap();
    let paths: Vec<_> = expired.into_iter().map(|file| file.path).collect();
    assert_eq!((swept.removed, swept.kept), (paths, 1));
    assert_eq!(listed(&*inner).await, ["/memories/new"]);
    assert_eq!(stored_times(&*inner).await.unwrap().matches("/memories").count(), 1);

    clock.advance(SURELY_EXPIRED);
    assert_eq!(tool.store().sweep().await.unwrap().removed, [path("/memories/new")]);
    assert_eq!(listed(&*inner).await, [""; 0]);
    assert_eq!(stored_times(&*inner).await, None, "an empty memory has no times");
    assert_eq!(tool.store().sweep().await.unwrap().kept, 0);
}

async fn pinned_files_do_not_expire(inner: Inner) {
    let clock = TestClock::new();
    let open = || {
        let builder = clock
            .builder(Arc::clone(&inner))
            .pin(memory_path("/memories/profile.md"))
            .pin(memory_path("/memories/kept"));
        builder.build().unwrap()
    };
    let store = open();
    for file in ["/memories/profile.md", "/memories/kept/a", "/memories/kept/b/c", "/memories/kept-not", "/memories/x"]
    {
        write(&store, file, "text").await.unwrap();
    }
    rename(&store, "/memories/x", "/memories/kept/x").await.unwrap();
    for _ in 0..2 {
        clock.advance(SURELY_EXPIRED);
        let kept = ["/memories/kept/a", "/memories/kept/b/c", "/memories/kept/x", "/memories/profile.md"];
        assert_eq!(listed(&store).await, kept);
        assert_eq!(listed(&open()).await, kept);
        open().sweep_all().await.unwrap();
        assert_eq!(listed(&open()).await, kept);
    }
    // Without the pins, they count as used now.
    let unpinned = clock.open(Arc::clone(&inner));
    assert_eq!(listed(unpinned.store()).await.len(), 4);
    clock.advance(SURELY_EXPIRED);
    assert_eq!(listed(unpinned.store()).await, [""; 0]);
}

async fn files_without_a_time_count_as_used_when_first_seen(inner: Inner) {
    let clock = TestClock::new();
    for file in ["/memories/listed", "/memories/swept"] {
        write(&*inner, file, "text").await.unwrap();
    }
    clock.advance(SURELY_EXPIRED);
    let tool = clock.open(Arc::clone(&inner));
    assert_eq!(tool.store().expired().await.unwrap(), []);
    assert_eq!(tool.store().sweep().await.unwrap().kept, 2);
    clock.advance(IDLE);
    write(&*inner, "/memories/later", "text").await.unwrap();
    assert_eq!(listed(tool.store()).await, ["/memories/later", "/memories/listed", "/memories/swept"]);
    clock.advance(IDLE);
    assert_eq!(listed(tool.store()).await, ["/memories/later"]);
    clock.advance(SURELY_EXPIRED - IDLE);
    assert_eq!(listed(tool.store()).await, [""; 0]);
}

async fn deleting_a_file_removes_its_access_time(inner: Inner) {
    let clock = TestClock::new();
    let tool = clock.open(Arc::clone(&inner));
    for file in ["/memories/a", "/memories/d/e", "/memories/keep"] {
        create(&tool, file).await;
    }
    remove(tool.store(), "/memories/a").await.unwrap();
    remove(tool.store(), "/memories/d").await.unwrap();
    assert_eq!(stored_times(&*inner).await.unwrap().matches("/memories").count(), 1);
    clock.advance(SURELY_EXPIRED);
    // Another program writes without access times.
    for file in ["/memories/a", "/memories/d/e"] {
        write(&*inner, file, "new").await.unwrap();
    }
    assert_eq!(listed(tool.store()).await, ["/memories/a", "/memories/d/e"]);
}

async fn a_precondition_treats_expired_files_as_absent(inner: Inner) {
    let clock = TestClock::new();
    let tool = clock.open(inner);
    create(&tool, "/memories/expired").await;
    clock.advance(SURELY_EXPIRED);
    create(&tool, "/memories/a").await;
    let read = async |required: &str| {
        let options = ReadOptions::new().require(path(required), Precondition::Absent);
        tool.store().read_opts(&path("/memories/a"), options).await
    };
    assert!(matches!(read("/memories/expired").await, Ok(Node::File(_))), "an expired file counts as absent");
    for taken in ["/memories/a", "/memories"] {
        assert!(
            matches!(read(taken).await, Err(StoreError::AlreadyExists { path: at }) if at == path(taken)),
            "{taken}"
        );
    }
}

async fn with_damaged_times_nothing_expires(inner: Inner) {
    let clock = TestClock::new();
    let tool = clock.open(Arc::clone(&inner));
    create(&tool, "/memories/a").await;
    create(&tool, "/memories/b").await;
    clock.advance(SURELY_EXPIRED);
    for unreadable in ["", "{\"version\":1,", "{\"version\":2,\"files\":{\"/memories/a\":1800000000}}"] {
        inner.apply(Batch::new().write(access_times(), unreadable)).await.unwrap();
        for tool in [&tool, &clock.open(Arc::clone(&inner))] {
            assert_eq!(listed(tool.store()).await, ["/memories/a", "/memories/b"]);
            assert!(call(tool, view("/memories/a")).await.ends_with("text of /memories/a"));
            assert!(matches!(tool.store().sweep().await, Err(StoreError::Failure { .. })));
            assert!(matches!(tool.store().expired().await, Err(StoreError::Failure { .. })));
            create(tool, "/memories/c").await;
            remove(tool.store(), "/memories/c").await.unwrap();
        }
        assert_eq!(stored_times(&*inner).await.unwrap(), unreadable, "the record is not changed");
    }
    clock.open(Arc::clone(&inner)).store().reset_access_times().await.unwrap();
    assert_eq!(stored_times(&*inner).await, None);
    assert_eq!(listed(tool.store()).await, ["/memories/a", "/memories/b"], "the files count as used now");
    clock.advance(SURELY_EXPIRED);
    assert_eq!(tool.store().sweep_all().await.unwrap().removed.len(), 2);
    inner.apply(Batch::new().write(access_times(), "{\"version\":1,")).await.unwrap();
    remove(clock.open(Arc::clone(&inner)).store(), "/memories").await.unwrap();
    assert_eq!(stored_times(&*inner).await, None, "clearing the memory removes the record");
}

async fn a_file_used_once_with_a_clock_that_is_ahead_expires(inner: Inner) {
    let clock = TestClock::new();
    for see in ["list", "sweep", "view", "write", "rename"] {
        let tool = clock.open(Arc::clone(&inner));
        let now = clock.seconds();
        clock.set(now + 400 * IDLE);
        create(&tool, "/memories/a").await;
        clock.set(now);
        match see {
            "list" => assert_eq!(listed(tool.store()).await, ["/memories/a"]),
            "sweep" => assert_eq!(tool.store().sweep().await.unwrap().kept, 1),
            "view" => _ = call(&tool, view("/memories/a")).await,
            "write" => write(tool.store(), "/memories/a", "new").await.unwrap(),
            _ => {
                rename(tool.store(), "/memories/a", "/memories/b").await.unwrap();
                rename(tool.store(), "/memories/b", "/memories/a").await.unwrap();
            }
        }
        clock.advance(SURELY_EXPIRED);
        if see == "rename" {
            // The moved time is replaced when the file is seen.
            assert_eq!(listed(tool.store()).await, ["/memories/a"]);
            clock.advance(SURELY_EXPIRED);
        }
        for tool in [&tool, &clock.open(Arc::clone(&inner))] {
            assert_eq!(listed(tool.store()).await, [""; 0], "{see}");
        }
        assert_eq!(tool.store().sweep().await.unwrap().removed, [path("/memories/a")], "{see}");
    }
}

async fn create_five(tool: &Engine<ExpiringStore<Inner>>) -> [&'static str; 5] {
    let files = ["/memories/a", "/memories/b", "/memories/c", "/memories/d/e", "/memories/d/f"];
    for file in files {
        create(tool, file).await;
    }
    files
}

async fn most_files_are_not_removed_by_one_sweep_with_a_clock_that_is_ahead(inner: Inner) {
    let clock = TestClock::new();
    let tool = clock.open(Arc::clone(&inner));
    let files = create_five(&tool).await;
    clock.set(START + 400 * IDLE);
    for seconds in [0, 1, RESOLUTION - 2] {
        clock.advance(seconds);
        let swept = clock.open(Arc::clone(&inner)).store().sweep().await.unwrap();
        assert_eq!((swept.removed.len(), swept.kept, swept.held), (0, 5, 5), "{seconds}");
    }
    clock.set(START + 1);
    assert_eq!(listed(tool.store()).await, files);
    let swept = tool.store().sweep().await.unwrap();
    assert_eq!((swept.removed.len(), swept.kept, swept.held), (0, 5, 0));
    // The time of the wrong clock does not count later.
    clock.advance(SURELY_EXPIRED);
    assert_eq!(tool.store().sweep().await.unwrap().held, 5);
}

async fn most_files_are_removed_by_a_sweep_that_is_a_resolution_later(inner: Inner) {
    let clock = TestClock::new();
    let tool = clock.open(Arc::clone(&inner));
    let mut batch = Batch::new();
    for number in 0..250 {
        batch = batch.write(path(&format!("/memories/old/{number:03}")), "old");
    }
    tool.store().apply(batch).await.unwrap();
    clock.advance(SURELY_EXPIRED);
    create(&tool, "/memories/new").await;
    assert_eq!(tool.store().sweep().await.unwrap().held, 250);
    create(&tool, "/memories/newer").await; // another writer of the times
    clock.advance(RESOLUTION);
    let swept = clock.open(Arc::clone(&inner)).store().sweep().await.unwrap();
    assert_eq!((swept.removed.len(), swept.kept, swept.held), (250, 2, 0));
    assert!(!stored_times(&*inner).await.unwrap().contains("held"));
}

async fn files_beside_pinned_ones_are_held_back_too(inner: Inner) {
    let clock = TestClock::new();
    let store = clock.builder(inner).pin(memory_path("/memories/kept")).build().unwrap();
    for file in ["/memories/kept/a", "/memories/kept/b", "/memories/kept/c", "/memories/kept/d"] {
        write(&store, file, "text").await.unwrap();
    }
    for file in ["/memories/a", "/memories/b"] {
        write(&store, file, "text").await.unwrap();
    }
    clock.advance(SURELY_EXPIRED);
    assert_eq!(store.sweep().await.unwrap().held, 2);
    assert_eq!(store.sweep_all().await.unwrap().removed.len(), 2);
}

async fn a_batch_removes_no_more_expired_files_than_it_needs(inner: Inner) {
    let clock = TestClock::new();
    let store = clock.builder(Arc::clone(&inner)).build().unwrap();
    let store = LimitedStore::new(store, Quota::new().with_files(7));
    for file in ["/memories/e", "/memories/d", "/memories/c", "/memories/b", "/memories/a"] {
        write(&store, file, "text").await.unwrap();
        clock.advance(1);
    }
    clock.set(START + 400 * IDLE);
    for file in ["/memories/new1", "/memories/new2"] {
        write(&store, file, "text").await.unwrap();
    }
    assert_eq!(listed(&*inner).await.len(), 7, "there was space");
    write(&store, "/memories/new3", "text").await.unwrap();
    let left = ["a", "b", "c", "d", "new1", "new2", "new3"].map(|name| format!("/memories/{name}"));
    assert_eq!(listed(&*inner).await, left, "the longest unused file is removed");
}

async fn removing_the_records_removes_the_times(inner: Inner) {
    let clock = TestClock::new();
    let tool = clock.open(Arc::clone(&inner));
    let batches: [fn() -> Batch; 3] = [
        || Batch::new().remove(StorePath::memories()).remove(StorePath::records()),
        || Batch::new().remove(access_times()).write(path("/memories/b"), "text"),
        || Batch::new().remove(StorePath::records()).write(path("/memories/a"), "text"),
    ];
    for batch in batches {
        for is_damaged in [false, true] {
            create(&tool, "/memories/c").await;
            if is_damaged {
                inner.apply(Batch::new().write(access_times(), "damaged")).await.unwrap();
            }
            clock.open(Arc::clone(&inner)).store().apply(batch()).await.unwrap();
            assert_eq!(stored_times(&*inner).await, None, "{batch:?} {is_damaged}");
            remove(tool.store(), "/memories").await.unwrap();
        }
    }
}

async fn with_an_unset_clock_nothing_expires_or_is_recorded(inner: Inner) {
    let clock = TestClock::new();
    let tool = clock.open(Arc::clone(&inner));
    create(&tool, "/memories/a").await;
    let times = stored_times(&*inner).await;
    clock.set(1_000);
    create(&tool, "/memories/b").await;
    call(&tool, view("/memories/b")).await;
    assert_eq!(listed(tool.store()).await, ["/memories/a", "/memories/b"]);
    assert_eq!(tool.store().sweep().await.unwrap().kept, 2);
    assert_eq!(stored_times(&*inner).await, times);
    clock.set(START + SURELY_EXPIRED);
    assert_eq!(listed(tool.store()).await, ["/memories/b"]);
}

#[test]
fn build_rejects_invalid_options() {
    use std::time::Duration;

    let build = |idle: Duration, resolution: Option<Duration>| {
        let builder = ExpiringStore::builder(InMemoryStore::new(), idle);
        resolution.into_iter().fold(builder, |builder, resolution| builder.resolution(resolution)).build().map(drop)
    };
    let second = Duration::from_secs(1);
    assert_eq!(build(Duration::ZERO, None), Err(ExpiryError::NoIdleTime));
    assert_eq!(build(second, None), Ok(()));
    assert_eq!(build(second / 2, Some(second)), Ok(()));
    assert_eq!(build(second, Some(2 * second)), Err(ExpiryError::Resolution));
    assert_eq!(build(second, Some(Duration::ZERO)), Err(ExpiryError::Resolution));
    assert_eq!(build(Duration::MAX, None), Ok(()));
}

/// A file can be too large to read because of another program or a lower limit.
#[tokio::test]
async fn expired_files_that_are_too_large_to_read_block_nothing() {
    let directory = TempDir::new().unwrap();
    let clock = TestClock::new();
    let large = path("/memories/large");
    let tool = clock.open(LocalStore::open(directory.path()).await.unwrap());
    write(tool.store(), large.as_str(), &"a".repeat(9_000)).await.unwrap();
    clock.advance(SURELY_EXPIRED);

    let limited = || LocalStore::builder(directory.path()).options(OpenOptions::new().max_file_bytes(4_000)).open();
    let tool = clock.open(limited().await.unwrap());
    assert_eq!(listed(tool.store()).await, [""; 0]);
    assert_eq!(tool.store().sweep().await.unwrap().removed, [] as [StorePath; 0], "it is kept");
    create(&tool, large.as_str()).await;
    assert_eq!(listed(tool.store()).await, [large.as_str()]);

    write(tool.store().inner(), "/memories/b", "text").await.unwrap();
    let unlimited = LocalStore::open(directory.path()).await.unwrap();
    unlimited.apply(Batch::new().write(access_times(), [b' '; 5_000])).await.unwrap();
    let tool = clock.open(limited().await.unwrap());
    clock.advance(SURELY_EXPIRED);
    assert_eq!(listed(tool.store()).await, ["/memories/b", large.as_str()], "nothing expires");
    assert!(matches!(tool.store().sweep().await, Err(StoreError::Failure { kind: ErrorKind::Damaged, .. })));
}
