//! `[X4]`: quotas, compared with a simple count of the files.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::{block_on, contents, if_valid, memory_path, path, reason, remove, rename, write};
use async_trait::async_trait;
use memory_tool_core::{
    Batch, Change, Engine, ErrorKind, FileTimes, InMemoryStore, MemoryTool, Node, Quota, QuotaKind, ReadOptions, Store,
    StoreError, StoreExt as _, StorePath,
};
use memory_tool_policies::{LimitedStore, MountedStore, Scope, ScopedStore};
use memory_tool_test_fixtures::property;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

type Sizes = BTreeMap<StorePath, u64>;

async fn sizes(store: &dyn Store) -> Sizes {
    let files = store.list(StorePath::memories()).await.unwrap();
    files.into_iter().map(|file| (file.path, file.size)).collect()
}

fn depth(path: &StorePath) -> u64 {
    path.segments().count() as u64
}

/// Returns the exceeded limits of a batch as kind, limit, resulting amount and amount left, from the files before and
/// after it.
fn excesses(
    directory: &StorePath,
    quota: Quota,
    changes: &[Change],
    before: &Sizes,
    after: &Sizes,
) -> Vec<(QuotaKind, u64, u64, u64)> {
    let is_within = |path: &StorePath| path == directory || path.is_under(directory);
    let within = |sizes: &Sizes| -> Vec<(StorePath, u64)> {
        sizes.iter().filter(|(path, _)| is_within(path)).map(|(path, size)| (path.clone(), *size)).collect()
    };
    let total = |sizes: &Sizes| within(sizes).iter().map(|(_, size)| size).sum::<u64>();
    let count = |sizes: &Sizes| within(sizes).len() as u64;
    let mut amounts = vec![
        (QuotaKind::Files, quota.files, count(before), count(after)),
        (QuotaKind::Bytes, quota.bytes, total(before), total(after)),
    ];
    for (now, size) in within(after) {
        let renamed = changes.iter().find_map(|change| match change {
            Change::Rename { from, to } if now == *to || now.is_under(to) => {
                Some(now.replace_prefix(to, from).unwrap())
            }
            _ => None,
        });
        let is_written = changes.iter().any(|change| matches!(change, Change::Write { path, .. } if *path == now));
        let origin = renamed.unwrap_or_else(|| now.clone());
        let was_within = before.contains_key(&origin) && is_within(&origin);
        let levels = |path: &StorePath| depth(path) - depth(directory);
        let depth_before = if was_within { levels(&origin) } else { 0 };
        amounts.push((QuotaKind::Depth, quota.depth, depth_before, levels(&now)));
        if is_written {
            let size_before = before.get(&now).copied().unwrap_or(0);
            amounts.push((QuotaKind::FileBytes, quota.file_bytes, size_before, size));
        }
    }
    let excess = |(kind, limit, before, after): (QuotaKind, Option<u64>, u64, u64)| {
        let limit = limit.filter(|limit| after > *limit && after > before)?;
        Some((kind, limit, after, limit.saturating_sub(before)))
    };
    amounts.into_iter().filter_map(excess).collect()
}

fn any_path() -> impl Strategy<Value = StorePath> {
    prop::collection::vec(select(vec!["a", "b", "d"]), 1..5)
        .prop_map(|segments| path(&segments.iter().fold("/memories".to_owned(), |path, name| format!("{path}/{name}"))))
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        5 => (any_path(), 0..7_usize).prop_map(|(path, size)| {
            Change::Write { path, content: vec![b'x'; size].into(), times: FileTimes::new() }
        }),
        1 => any_path().prop_map(|path| Change::Remove { path }),
        1 => Just(Change::Remove { path: StorePath::memories() }),
        3 => (any_path(), any_path()).prop_map(|(from, to)| Change::Rename { from, to }),
    ]
}

/// Returns a valid batch of the changes. Changes that overlap an earlier one are omitted.
fn batch_of(changes: &[Change]) -> Batch {
    changes.iter().fold(Batch::new(), |batch, change| if_valid(batch.clone().change(change.clone())).unwrap_or(batch))
}

fn any_quota() -> impl Strategy<Value = Quota> {
    (0..5_u64, 0..16_u64, 0..6_u64, 1..5_u64, 0..16_u8).prop_map(|(files, bytes, file_bytes, depth, which)| {
        let mut quota = Quota::new();
        quota.files = (which & 1 > 0).then_some(files);
        quota.bytes = (which & 2 > 0).then_some(bytes);
        quota.file_bytes = (which & 4 > 0).then_some(file_bytes);
        quota.depth = (which & 8 > 0).then_some(depth);
        quota
    })
}

async fn copy_of(store: &dyn Store) -> InMemoryStore {
    let files = contents(store).await.into_iter();
    let batch = files.fold(Batch::new(), |batch, (path, _, content)| batch.write(path, content));
    let copy = InMemoryStore::new();
    copy.apply(batch).await.unwrap();
    copy
}

proptest! {
    #![proptest_config(property(250, 50_000))]

    /// Applies each batch with a quota, and to a copy without one. The files in the copy determine the expected result.
    #[test]
    fn a_quota_agrees_with_a_simple_count(
        steps in prop::collection::vec(
            (
                prop::collection::vec(any_change(), 1..4),
                prop_oneof![any_path(), Just(StorePath::memories())],
                any_quota(),
            ),
            1..12,
        ),
    ) {
        block_on(async {
            let store = InMemoryStore::new();
            for (changes, directory, quota) in steps {
                let (batch, copy, before) = (batch_of(&changes), copy_of(&store).await, sizes(&store).await);
                let free = copy.apply(batch.clone()).await;
                let after = sizes(&copy).await;
                let limited = store.apply(batch.clone().limit(directory.clone(), quota)).await;
                let now = sizes(&store).await;
                if limited.is_err() {
                    prop_assert_eq!(&now, &before);
                }
                let excesses = excesses(&directory, quota, batch.changes(), &before, &after);
                match (free, limited) {
                    (Ok(()), Ok(())) => {
                        prop_assert_eq!(excesses, []);
                        prop_assert_eq!(now, after);
                    }
                    (Ok(()), Err(StoreError::OverQuota { path, kind, limit, requested, remaining })) => {
                        prop_assert_eq!(path, directory);
                        let found = (kind, limit, requested, remaining);
                        prop_assert!(excesses.contains(&found), "{:?} is not in {:?}", found, excesses);
                    }
                    // A batch that fails without a quota may also fail because of the quota.
                    (Err(_), Err(StoreError::OverQuota { .. })) => {}
                    (Err(free), Err(limited)) => prop_assert_eq!(format!("{free:?}"), format!("{limited:?}")),
                    (free, limited) => prop_assert!(false, "{free:?} without quota, {limited:?} with it: {excesses:?}"),
                }
            }
            Ok(())
        })?;
    }

    /// A limited store behaves like its inner store with a quota on the root.
    #[test]
    fn a_limited_store_refuses_the_same_as_a_quota_on_the_root(
        steps in prop::collection::vec(prop::collection::vec(any_change(), 1..4), 1..12),
        quota in any_quota(),
    ) {
        block_on(async {
            let store = InMemoryStore::new();
            let limited = LimitedStore::new(InMemoryStore::new(), quota);
            for changes in steps {
                let batch = batch_of(&changes);
                let required = batch.clone().limit(StorePath::memories(), quota);
                match (store.apply(required).await, limited.apply(batch).await) {
                    (Err(StoreError::OverQuota { .. }), Err(StoreError::Refused { path, .. })) => {
                        prop_assert!(path.is_root());
                    }
                    (expected, got) => prop_assert_eq!(format!("{expected:?}"), format!("{got:?}")),
                }
                prop_assert_eq!(sizes(&store).await, sizes(&limited).await);
            }
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn a_refusal_names_the_amount_the_limit_and_a_way_out() {
    let limits = Quota::new().with_file_bytes(102_400).with_files(2).with_bytes(110_000).with_depth(2);
    let store = LimitedStore::new(InMemoryStore::new(), limits);
    assert_eq!(
        reason(write(&store, "/memories/a", &"x".repeat(120_000)).await),
        "This would make the file 120,000 bytes long; the limit is 102,400. \
         Split the file, or remove text that is no longer needed.",
    );
    write(&store, "/memories/a", &"x".repeat(102_400)).await.unwrap();
    assert_eq!(
        reason(write(&store, "/memories/b", &"x".repeat(8_000)).await),
        "This would bring the memory to 110,400 bytes; the limit is 110,000, and 7,600 are left. \
         Shorten or delete files first.",
    );
    assert_eq!(
        reason(write(&store, "/memories/b/c/d", "x").await),
        "This would put a file 3 levels deep; the limit is 2. Use fewer directories.",
    );
    write(&store, "/memories/b", "x").await.unwrap();
    assert_eq!(
        reason(write(&store, "/memories/c", "x").await),
        "This would make 3 files; the limit is 2. Delete or merge files first.",
    );
}

#[tokio::test]
async fn the_tool_returns_the_refusal_as_an_error() {
    let tool = Engine::new(LimitedStore::new(InMemoryStore::new(), Quota::new().with_file_bytes(5)));
    tool.call(json!({"command": "create", "path": "/memories/a", "file_text": "12345"})).await.unwrap();
    let insert = json!({"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": "6"});
    assert_eq!(
        tool.call(insert).await.unwrap_err().to_string(),
        "Error: This would make the file 7 bytes long; the limit is 5. \
         Split the file, or remove text that is no longer needed.",
    );
    let again = json!({"command": "create", "path": "/memories/a", "file_text": "123456"});
    let taken = "Error: File /memories/a already exists";
    assert_eq!(tool.call(again).await.unwrap_err().to_string(), taken, "other errors come first");
}

/// The wrapper adds a quota and returns `OverQuota` unchanged.
#[tokio::test]
async fn an_over_quota_error_of_another_wrapper_is_readable() {
    #[derive(Debug)]
    struct Full;

    #[async_trait]
    impl Store for Full {
        async fn read_opts(&self, _: &StorePath, _: ReadOptions) -> Result<Node, StoreError> {
            Ok(Node::Absent)
        }

        async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
            InMemoryStore::new().apply(batch.limit(StorePath::memories(), Quota::new().with_files(0))).await
        }
    }

    let create = json!({"command": "create", "path": "/memories/a", "file_text": ""});
    assert_eq!(
        Engine::new(Full).call(create).await.unwrap_err().to_string(),
        "Error: /memories would have 1 files; the limit is 0 (0 more allowed)",
    );
}

#[tokio::test]
async fn a_memory_over_its_limits_can_be_cleaned_up() {
    let inner = Arc::new(InMemoryStore::new());
    for name in ["a", "b", "c/d/e/f"] {
        write(&inner, &format!("/memories/{name}"), "0123456789").await.unwrap();
    }
    let limits = Quota::new().with_files(1).with_bytes(5).with_file_bytes(3).with_depth(1);
    let store = LimitedStore::new(Arc::clone(&inner), limits);
    reason(write(&store, "/memories/a", "01234567890").await);
    write(&store, "/memories/a", "012345678").await.unwrap();
    reason(rename(&store, "/memories/c/d", "/memories/c/x/y").await);
    rename(&store, "/memories/c/d/e/f", "/memories/c/f").await.unwrap();
    remove(&store, "/memories/c").await.unwrap();
    remove(&store, "/memories").await.unwrap();
    write(&store, "/memories/a", "012").await.unwrap();
}

#[tokio::test]
async fn limits_over_a_scope_apply_to_that_scope() {
    let shared = Arc::new(InMemoryStore::new());
    let limits = Quota::new().with_files(1);
    let of_tenant = |name| {
        let scope = Scope::from_trusted_name(name).unwrap();
        LimitedStore::new(ScopedStore::new(Arc::clone(&shared), scope), limits)
    };
    for name in ["alice", "bob"] {
        write(&of_tenant(name), "/memories/a", "").await.unwrap();
        reason(write(&of_tenant(name), "/memories/b", "").await);
    }
}

#[tokio::test]
async fn limits_under_scopes_apply_to_all_scopes_together() {
    let shared = Arc::new(LimitedStore::new(InMemoryStore::new(), Quota::new().with_files(1)));
    let of_tenant = |name| ScopedStore::new(Arc::clone(&shared), Scope::from_trusted_name(name).unwrap());
    write(&of_tenant("alice"), "/memories/a", "").await.unwrap();
    match write(&of_tenant("bob"), "/memories/b", "").await {
        Err(StoreError::Refused { path, policy: "limits", reason }) => {
            assert!(path.is_root() && !reason.contains("alice") && !reason.contains("scope"), "{reason}");
        }
        other => unreachable!("{other:?}"),
    }
}

/// A quota of the caller keeps its numbers through a scope.
#[tokio::test]
async fn a_quota_error_names_the_path_in_the_scope() {
    let store = ScopedStore::new(InMemoryStore::new(), Scope::from_trusted_name("alice").unwrap());
    for directory in ["/memories", "/memories/d"] {
        let batch = Batch::new().write(path("/memories/d/a"), "");
        match store.apply(batch.limit(path(directory), Quota::new().with_files(0))).await {
            Err(StoreError::OverQuota { path, requested: 1, .. }) => assert_eq!(path.as_str(), directory),
            other => unreachable!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn mounted_stores_are_limited_separately() {
    let team = LimitedStore::new(InMemoryStore::new(), Quota::new().with_files(1));
    let mounted = MountedStore::builder(InMemoryStore::new()).mount(memory_path("/memories/team"), team);
    let mounted = mounted.mount(memory_path("/memories/all"), InMemoryStore::new()).build().unwrap();
    write(&mounted, "/memories/team/a", "").await.unwrap();
    reason(write(&mounted, "/memories/team/b", "").await);
    let without_room = |directory| {
        let batch = Batch::new().write(path("/memories/all/a"), "");
        mounted.apply(batch.limit(path(directory), Quota::new().with_files(0)))
    };
    match without_room("/memories/all").await {
        Err(StoreError::OverQuota { path, requested: 1, .. }) => assert_eq!(path.as_str(), "/memories/all"),
        other => unreachable!("{other:?}"),
    }
    match without_room("/memories").await {
        Err(error @ StoreError::Failure { kind: ErrorKind::Other, .. }) => {
            let cause = std::error::Error::source(&error).unwrap().to_string();
            let expected = "cannot check a quota on /memories, which spans several stores (one is mounted at \
                            /memories/all): limit each store before mounting it";
            assert_eq!(cause, expected);
        }
        other => unreachable!("{other:?}"),
    }
}
