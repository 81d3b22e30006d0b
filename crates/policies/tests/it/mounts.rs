//! Several stores as one memory, and read-only stores.

use std::sync::Arc;

use crate::support::{
    Part, Step, block_on, contents, memory_path, path, read_record, reason, record, remove, rename, run, steps, write,
};
use async_trait::async_trait;
use memory_tool_core::{
    Batch, Engine, ErrorKind, FileEntry, InMemoryStore, Listing, MAX_PATH_BYTES, MemoryTool, Node, Precondition,
    ReadOnlyStore, ReadOptions, Store, StoreError, StoreExt as _, StorePath,
};
use memory_tool_policies::{MountError, MountedStore};
use memory_tool_test_fixtures::property;
use proptest::prelude::*;
use serde_json::json;

/// Mount points: nested, side by side, and under a directory of the root store.
const POINTS: [&str; 3] = ["/memories/a/b", "/memories/b", "/memories/b/a"];
const NAMES: &[&str] = &["a", "b", "ab", "c"];
const ELSEWHERE: &[&str] = &["/memories/../a", "/memories/b/", "/memoriesb", "/memories/b//a"];

fn mounted() -> MountedStore {
    let builder = MountedStore::builder(InMemoryStore::new());
    POINTS
        .iter()
        .fold(builder, |builder, point| builder.mount(memory_path(point), InMemoryStore::new()))
        .build()
        .unwrap()
}

/// The number of the store that a path belongs to, computed differently than in `MountedStore`.
fn owner(path: &StorePath) -> usize {
    let is_in = |point: &str| path.as_str() == point || path.as_str().starts_with(&format!("{point}/"));
    if is_in("/memories/b/a") {
        3
    } else if is_in("/memories/b") {
        2
    } else {
        usize::from(is_in("/memories/a/b"))
    }
}

fn is_mount_point_or_above(path: &StorePath) -> bool {
    ["/memories", "/memories/a", "/memories/a/b", "/memories/b", "/memories/b/a"].contains(&path.as_str())
}

/// Whether a step must be refused because it changes a mount point or several stores. The memory has the files of
/// `reference`.
async fn is_refused(step: &Step, reference: &InMemoryStore) -> bool {
    match step {
        Step::Command(input) => {
            let at = |field: &str| input[field].as_str().and_then(|text| text.parse::<StorePath>().ok());
            match input["command"].as_str().unwrap() {
                "create" | "delete" => at("path").is_some_and(|path| !path.is_root() && is_mount_point_or_above(&path)),
                "rename" => match (at("old_path"), at("new_path")) {
                    (Some(old), Some(new)) if !old.overlaps(&new) => {
                        is_mount_point_or_above(&old) || is_mount_point_or_above(&new) || owner(&old) != owner(&new)
                    }
                    _ => false, // refused by the tool itself
                },
                _ => false,
            }
        }
        Step::Batch(parts) => is_batch_refused(parts, reference).await,
    }
}

async fn is_batch_refused(parts: &[Part], reference: &InMemoryStore) -> bool {
    let is_of_root = |part: &Part| matches!(part, Part::Remove(path) if path.is_root());
    let mut changes_mount_point = false;
    for part in parts {
        if matches!(part, Part::Write(..) | Part::Remove(_) | Part::Rename(..)) && !is_of_root(part) {
            changes_mount_point |= part.paths().into_iter().any(is_mount_point_or_above);
            changes_mount_point |= matches!(part, Part::Rename(from, to) if owner(from) != owner(to));
        }
    }
    if changes_mount_point {
        return true;
    }
    // A precondition on the root never holds, so the following ones are not checked.
    let is_required = |part: &&Part| matches!(part, Part::RequireAbsent(_) | Part::RequireVersion(..));
    let required: Vec<_> = parts.iter().filter(is_required).map(|part| part.paths()[0]).collect();
    let met: Vec<_> = required.iter().copied().take_while(|path| !path.is_root()).collect();
    if met.iter().any(|path| is_mount_point_or_above(path)) {
        return true;
    }
    let mut owners: Vec<_> = met.iter().map(|path| owner(path)).collect();
    if met.len() == required.len() {
        owners.extend(parts.iter().filter(|part| !is_required(part)).map(|part| owner(part.paths()[0])));
        if parts.iter().any(is_of_root) && owners.iter().all(|owner| *owner == 0) {
            let files = contents(reference).await;
            return files.iter().any(|(path, ..)| owner(path) != 0);
        }
    }
    owners.windows(2).any(|pair| pair[0] != pair[1])
}

async fn compare(steps: &[Step]) -> Result<(), TestCaseError> {
    let (tool, reference) = (Engine::new(mounted()), Engine::new(InMemoryStore::new()));
    for step in steps {
        let is_refused = is_refused(step, reference.store()).await;
        let before = contents(tool.store()).await;
        let result = run(&tool, step).await;
        if is_refused {
            let says_so = ["mount point", "different store"].iter().any(|reason| result.contains(reason));
            prop_assert!(says_so, "{step:?}: {result}");
            prop_assert_eq!(contents(tool.store()).await, before);
        } else {
            prop_assert_eq!(result, run(&reference, step).await, "{:?}", step);
            prop_assert_eq!(contents(tool.store()).await, contents(reference.store()).await);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(property(64, 10_000))]

    #[test]
    fn a_mounted_store_behaves_like_one_store_unless_mounts_are_crossed(
        steps in prop::collection::vec(steps(NAMES, ELSEWHERE), 1..30),
    ) {
        block_on(compare(&steps))?;
    }

    #[test]
    fn a_read_only_store_never_changes(
        before in prop::collection::vec(steps(NAMES, ELSEWHERE), 1..20),
        steps in prop::collection::vec(steps(NAMES, ELSEWHERE), 1..20),
    ) {
        block_on(async {
            let inner = Engine::new(Arc::new(InMemoryStore::new()));
            for step in &before {
                run(&inner, step).await;
            }
            let expected = contents(inner.store()).await;
            let read_only = Engine::new(ReadOnlyStore::new(Arc::clone(inner.store())));
            let builder = MountedStore::builder(InMemoryStore::new());
            let builder = builder.mount_read_only(memory_path("/memories/a"), Arc::clone(inner.store()));
            let mounted = builder.mount(memory_path("/memories/a/b"), InMemoryStore::new()).build().unwrap();
            let mounted = Engine::new(mounted);
            for step in &steps {
                let is_view = matches!(step, Step::Command(input) if input["command"] == "view");
                let result = run(&read_only, step).await;
                prop_assert!(!is_view || result == run(&inner, step).await);
                run(&mounted, step).await;
                prop_assert_eq!(&contents(inner.store()).await, &expected, "{:?}", step);
            }
            prop_assert_eq!(contents(read_only.store()).await, expected);
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn a_listing_includes_mounted_files() {
    let tool = Engine::new(mounted());
    let view = json!({"command": "view", "path": "/memories"});
    let header =
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:";
    let empty = tool.call(view.clone()).await.unwrap().to_string();
    assert_eq!(empty, format!("{header}\n0B\t/memories"), "an empty mount is not a directory");
    for file in ["/memories/a/x", "/memories/a/b/y", "/memories/b/z", "/memories/b/a/deep"] {
        write(tool.store(), file, "text").await.unwrap();
    }
    let listed = tool.call(view).await.unwrap().to_string();
    let lines = "16B\t/memories\n8B\t/memories/a/\n4B\t/memories/a/b/\n4B\t/memories/a/x\n8B\t/memories/b/\n4B\t/memories/b/a/\n4B\t/memories/b/z";
    assert_eq!(listed, format!("{header}\n{lines}"));
}

#[tokio::test]
async fn a_mounted_store_uses_its_own_paths() {
    let team = Arc::new(InMemoryStore::new());
    let builder = MountedStore::builder(InMemoryStore::new());
    let store = builder.mount(memory_path("/memories/team"), Arc::clone(&team)).build().unwrap();
    write(&store, "/memories/team/d/file", "text").await.unwrap();
    assert_eq!(contents(&team).await, [(path("/memories/d/file"), 4, b"text".to_vec())]);
    let above = write(&store, "/memories/team/d/file/x", "text").await;
    assert!(matches!(above, Err(StoreError::NotADirectory { path: file }) if file == path("/memories/team/d/file")));
}

#[tokio::test]
async fn refusals_explain_what_is_possible() {
    let builder = MountedStore::builder(InMemoryStore::new()).mount(memory_path("/memories/a/b"), InMemoryStore::new());
    let store = builder.mount_read_only(memory_path("/memories/team"), InMemoryStore::new()).build().unwrap();
    let at = "/memories/a/b is a mount point and cannot be replaced, renamed or deleted. \
              Only the files in it can be changed.";
    let above = "/memories/a contains the mount point /memories/a/b, so it cannot be replaced, renamed or deleted.";
    for (outcome, expected) in [
        (write(&store, "/memories/a/b", "").await, at),
        (remove(&store, "/memories/a/b").await, at),
        (rename(&store, "/memories/a/b", "/memories/x").await, at),
        (rename(&store, "/memories/x", "/memories/a/b").await, at),
        (write(&store, "/memories/a", "").await, above),
        (remove(&store, "/memories/a").await, above),
        (rename(&store, "/memories/a", "/memories/x").await, above),
        (
            rename(&store, "/memories/x", "/memories/a/b/x").await,
            "/memories/x cannot be renamed to /memories/a/b/x, which is in a different store. \
             Create the new files first, then delete the old ones.",
        ),
        (
            rename(&store, "/memories/x", "/memories/team/x").await,
            "/memories/team is read-only. Its files can be viewed, but not changed.",
        ),
        (
            remove(&store, "/memories/team").await,
            "/memories/team is read-only. Its files can be viewed, but not changed.",
        ),
    ] {
        assert_eq!(reason(outcome), expected);
    }
    let both = Batch::new().require(path("/memories/team/x"), Precondition::Absent).write(path("/memories/x"), "");
    assert_eq!(
        reason(store.apply(both).await),
        "/memories/team/x and /memories/x are in different stores, so one batch cannot include both.",
    );
    assert_eq!(contents(&store).await, []);
}

#[tokio::test]
async fn a_mounted_read_only_store_is_named_by_its_mount_point() {
    let builder = MountedStore::builder(InMemoryStore::new());
    let store = builder.mount(memory_path("/memories/team"), ReadOnlyStore::new(InMemoryStore::new())).build().unwrap();
    let refused = write(&store, "/memories/team/x", "").await;
    assert_eq!(reason(refused), "/memories/team is read-only. Its files can be viewed, but not changed.");
}

#[tokio::test]
async fn a_writable_mount_can_be_under_a_read_only_one() {
    let builder = MountedStore::builder(ReadOnlyStore::new(InMemoryStore::new()));
    let builder = builder.mount(memory_path("/memories/team/drafts"), InMemoryStore::new());
    let store = builder.mount_read_only(memory_path("/memories/team"), InMemoryStore::new()).build().unwrap();
    write(&store, "/memories/team/drafts/x", "text").await.unwrap();
    reason(write(&store, "/memories/team/x", "text").await);
    reason(write(&store, "/memories/x", "text").await);
    assert!(matches!(store.read(path("/memories/team")).await.unwrap(), Node::Directory(_)));
    assert_eq!(contents(&store).await, [(path("/memories/team/drafts/x"), 4, b"text".to_vec())]);
}

#[tokio::test]
async fn clearing_the_memory_is_refused_while_another_store_contains_files() {
    let team = Arc::new(InMemoryStore::new());
    let builder = MountedStore::builder(InMemoryStore::new());
    let tool = Engine::new(builder.mount_read_only(memory_path("/memories/team"), Arc::clone(&team)).build().unwrap());
    write(tool.store(), "/memories/x", "text").await.unwrap();
    write(&team, "/memories/y", "text").await.unwrap();
    let refused = tool.clear_all_memory().await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Error: /memories cannot be cleared while /memories/team, which is a different store, contains files.",
    );
    assert_eq!(contents(tool.store()).await.len(), 2);
    remove(&team, "/memories").await.unwrap();
    tool.clear_all_memory().await.unwrap();
    assert_eq!(contents(tool.store()).await, []);
}

#[tokio::test]
async fn files_at_the_mount_point_of_another_store_are_hidden() {
    let root = Arc::new(InMemoryStore::new());
    for hidden in ["/memories/a", "/memories/b/x", "/memories/c"] {
        write(&root, hidden, "hidden").await.unwrap();
    }
    let builder = MountedStore::builder(root).mount(memory_path("/memories/a/b"), InMemoryStore::new());
    let builder = builder.mount(memory_path("/memories/b"), InMemoryStore::new());
    let store = builder.mount(memory_path("/memories/c"), InMemoryStore::new()).build().unwrap();
    assert_eq!(store.list(StorePath::memories()).await.unwrap(), []);
    for hidden in ["/memories/a", "/memories/b", "/memories/b/x", "/memories/c"] {
        assert_eq!(store.read(path(hidden)).await.unwrap(), Node::Absent, "{hidden}");
    }
    write(&store, "/memories/a/b/y", "text").await.unwrap();
    let Node::Directory(Listing { files, .. }) = store.read("/memories/a").await.unwrap() else { unreachable!() };
    assert_eq!(files.iter().map(|file| (file.path.as_str(), file.size)).collect::<Vec<_>>(), [("/memories/a/b/y", 4)]);
}

#[tokio::test]
async fn a_rename_that_makes_a_path_too_long_is_refused() {
    let team = Arc::new(InMemoryStore::new());
    let point = format!("/memories/{}", "t".repeat(200));
    let store =
        MountedStore::builder(InMemoryStore::new()).mount(memory_path(&point), Arc::clone(&team)).build().unwrap();
    let deep = format!("{point}/d{}", format!("/{}", "x".repeat(200)).repeat(4));
    assert!(deep.len() < MAX_PATH_BYTES);
    write(&store, &deep, "text").await.unwrap();
    let moved = rename(&store, &format!("{point}/d"), &format!("{point}/{}", "y".repeat(20))).await;
    assert!(matches!(moved, Err(StoreError::Path(_))), "{moved:?}");
    assert_eq!(contents(&store).await.len(), 1);

    write(&team, &format!("/memories{}", format!("/{}", "z".repeat(200)).repeat(5)), "text").await.unwrap();
    assert_eq!(
        store.list(StorePath::memories()).await.unwrap().len(),
        1,
        "a path that is too long in the memory is hidden"
    );
}

#[test]
fn two_stores_cannot_have_the_same_mount_point() {
    let build = |points: &[&str]| {
        let builder = MountedStore::builder(InMemoryStore::new());
        points.iter().fold(builder, |builder, point| builder.mount(memory_path(point), InMemoryStore::new())).build()
    };
    assert!(build(&["/memories/a/b", "/memories/a", "/memories/a/b/c"]).is_ok());
    for (points, taken) in [
        (&["/memories"][..], "/memories"),
        (&["/memories/a", "/memories/b", "/memories/a"][..], "/memories/a"),
        (&["/memories/a/", "/memories/a"][..], "/memories/a"),
    ] {
        assert_eq!(build(points).unwrap_err(), MountError::DuplicatePoint { point: path(taken) });
    }
}

#[tokio::test]
async fn records_are_stored_in_the_root_store() {
    let [root, team] = [Arc::new(InMemoryStore::new()), Arc::new(InMemoryStore::new())];
    let builder = MountedStore::builder(Arc::clone(&root)).mount(memory_path("/memories/team"), Arc::clone(&team));
    let store = builder.build().unwrap();
    let name = record("test/a");
    store.apply(Batch::new().write(path("/memories/x"), "text").write(name.clone(), "1")).await.unwrap();
    assert_eq!(read_record(&store, "test/a").await, read_record(&root, "test/a").await);
    assert_eq!(read_record(&store, "test/a").await.unwrap().content, b"1");
    assert_eq!(read_record(&team, "test/a").await, None);
    let both = Batch::new().write(path("/memories/team/x"), "text").write(name.clone(), "2");
    assert_eq!(
        reason(store.apply(both).await),
        "/memories/team/x is in a different store than the policy records, so one batch cannot include both.",
    );
    assert_eq!(read_record(&store, "test/a").await.unwrap().content, b"1");
}

#[tokio::test]
async fn a_read_only_store_refuses_changes_to_records() {
    let inner = Arc::new(InMemoryStore::new());
    let store = ReadOnlyStore::new(Arc::clone(&inner));
    let refused = store.apply(Batch::new().write(record("test/a"), "1")).await;
    assert!(matches!(refused, Err(StoreError::Refused { policy: "read-only", .. })), "{refused:?}");
    assert_eq!(read_record(&inner, "test/a").await, None);
}

#[tokio::test]
async fn a_read_can_have_preconditions_on_other_stores() {
    let store = mounted();
    write(&store, "/memories/c", "text").await.unwrap();
    write(&store, "/memories/b/a/x", "text").await.unwrap();
    let read = async |required: &str| {
        store.read_opts(&path("/memories/c"), ReadOptions::new().require(path(required), Precondition::Absent)).await
    };
    for free in ["/memories/b/x", "/memories/a", "/memories/a/b"] {
        assert!(matches!(read(free).await, Ok(Node::File(_))), "{free}");
    }
    for taken in ["/memories/b/a/x", "/memories/b", "/memories/c", "/memories"] {
        assert!(
            matches!(read(taken).await, Err(StoreError::AlreadyExists { path: at }) if at == path(taken)),
            "{taken}"
        );
    }
}

/// A store in which all reads of files fail.
#[derive(Debug)]
struct Damaged(InMemoryStore);

#[async_trait]
impl Store for Damaged {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        match self.0.read_opts(path, options).await? {
            Node::File(_) => Err(StoreError::failure(ErrorKind::Damaged, "reading a file", "damaged")),
            node => Ok(node),
        }
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.0.apply(batch).await
    }
}

#[tokio::test]
async fn a_damaged_file_of_a_mounted_store_can_be_renamed() {
    let builder = MountedStore::builder(InMemoryStore::new());
    let store = builder.mount(memory_path("/memories/team"), Damaged(InMemoryStore::new())).build().unwrap();
    write(&store, "/memories/team/a", "text").await.unwrap();
    rename(&store, "/memories/team/a", "/memories/team/longer").await.unwrap();
    let files: Vec<FileEntry> = store.list("/memories/team").await.unwrap();
    assert_eq!(files.len(), 1);
}
