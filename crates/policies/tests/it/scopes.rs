//! One store for many tenants.

use std::collections::HashSet;
use std::sync::Arc;

use crate::support::{Step, block_on, contents, path, read_record, reason, record, remove, rename, run, steps, write};
use async_trait::async_trait;
use memory_tool_core::{
    Batch, Engine, Error, FileEntry, InMemoryStore, MAX_PATH_BYTES, MemoryTool, Node, PathError, Precondition,
    ReadOnlyStore, ReadOptions, Store, StoreError, StoreExt as _, StorePath,
};
use memory_tool_policies::{Scope, ScopedStore};
use memory_tool_test_fixtures::property;
use proptest::prelude::*;
use serde_json::json;

fn scope(name: &str) -> Scope {
    Scope::from_trusted_name(name).unwrap()
}

const NAMES: &[&str] = &["a", "b", "alice", "alice2", "scope-alice", "scope-alice2"];

/// Paths that attempt to leave a scope.
const ELSEWHERE: &[&str] = &[
    "/memories/../scope-alice/a",
    "/memories/..",
    "/memories/%2e%2e/scope-alice/a",
    "/memories/..\\scope-alice",
    "/memories//scope-alice2",
    "/memoriesX",
    "/memories/",
];

/// Runs the steps in two scopes of one store. Each scope must behave like a separate store and must not change the
/// other.
async fn compare(inner: impl Store, names: [&str; 2], steps: &[(usize, Step)]) -> Result<(), TestCaseError> {
    let inner = Arc::new(inner);
    let scoped = names.map(|name| Engine::new(ScopedStore::new(Arc::clone(&inner), scope(name))));
    let separate = [InMemoryStore::new(), InMemoryStore::new()].map(Engine::new);
    for (turn, step) in steps {
        let other = scoped[1 - turn].store();
        let before = contents(other).await;
        prop_assert_eq!(run(&scoped[*turn], step).await, run(&separate[*turn], step).await, "{:?}", step);
        prop_assert_eq!(before, contents(other).await, "{:?} in {}", step, names[*turn]);
    }
    for turn in 0..2 {
        prop_assert_eq!(contents(scoped[turn].store()).await, contents(separate[turn].store()).await);
    }
    Ok(())
}

/// Names of any characters, or of the characters in encoded names.
fn scope_name() -> impl Strategy<Value = String> {
    prop_oneof!["\\PC{1,20}", "[a_A./]{1,3}", "[_0-9a-fA-F-]{1,6}"]
}

fn sequence() -> impl Strategy<Value = Vec<(usize, Step)>> {
    prop::collection::vec((0..2_usize, steps(NAMES, ELSEWHERE)), 1..25)
}

proptest! {
    #![proptest_config(property(64, 10_000))]

    #[test]
    fn a_scope_neither_changes_nor_reveals_another(steps in sequence()) {
        block_on(compare(InMemoryStore::new(), ["alice", "alice2"], &steps))?;
    }

    /// The name of one scope is the directory of the other, a path to it, or differs in case.
    #[test]
    fn similar_names_do_not_lead_into_another_scope(steps in sequence()) {
        block_on(compare(InMemoryStore::new(), ["alice", "scope-alice"], &steps))?;
        block_on(compare(InMemoryStore::new(), ["alice/../bob", "bob"], &steps))?;
        block_on(compare(InMemoryStore::new(), ["alice", "ALICE"], &steps))?;
    }

    #[test]
    fn nested_scopes_are_separate(steps in sequence()) {
        let outer = ScopedStore::new(InMemoryStore::new(), scope("organisation"));
        block_on(compare(outer, ["alice", "alice2"], &steps))?;
    }

    #[test]
    fn different_scopes_have_separate_directories(left in scope_name(), right in scope_name()) {
        let (Ok(left), Ok(right)) = (Scope::from_trusted_name(&left), Scope::from_trusted_name(&right)) else {
            return Ok(());
        };
        prop_assert_eq!(left == right, left.directory() == right.directory());
        prop_assert!(left == right || !left.directory().overlaps(right.directory()));
        let is_plain = |character: char| matches!(character, 'a'..='z' | '0'..='9' | '-' | '_');
        prop_assert!(left.directory().file_name().unwrap().chars().all(is_plain));
    }
}

#[test]
fn similar_names_have_different_directories() {
    // Different case, different normal forms, escapes of each other, and reserved names.
    let names =
        ["alice", "Alice", "ALICE", "\u{e9}", "e\u{301}", "\u{212b}", "\u{c5}", "A", "_41", "con", "CON", ".", ".."];
    let folded = names.map(|name| scope(name).directory().as_str().to_lowercase());
    assert_eq!(folded.iter().collect::<HashSet<_>>().len(), names.len(), "{folded:?}");
    assert_eq!(scope("Zoë/../con").directory().as_str(), "/memories/scope-_5ao_c3_ab_2f_2e_2e_2fcon");
}

#[tokio::test]
async fn the_limit_for_paths_depends_on_the_scope_directory() {
    let store = ScopedStore::new(InMemoryStore::new(), scope("alice"));
    let most = MAX_PATH_BYTES - "/scope-alice".len();
    let of_length = |bytes: usize| {
        let directories = format!("/memories{}", format!("/{}", "d".repeat(200)).repeat(4));
        format!("{directories}/{}", "f".repeat(bytes - directories.len() - 1))
    };
    write(&store, &of_length(most), "text").await.unwrap();
    let expected =
        format!("The path is {} bytes long; the limit in this memory is {most}. Use a shorter path.", most + 1);
    let longer = of_length(most + 1);
    assert_eq!(reason(write(&store, &longer, "text").await), expected);
    assert_eq!(reason(remove(&store, &longer).await), expected);
    assert_eq!(reason(store.read(path(&longer)).await.map(drop)), expected);
    assert_eq!(reason(store.list(path(&longer)).await.map(drop)), expected);
    let tool = Engine::new(store);
    let refused = tool.call(json!({"command": "create", "path": longer, "file_text": ""})).await.unwrap_err();
    assert_eq!(refused.to_string(), format!("Error: {expected}"));
}

#[tokio::test]
async fn a_rename_that_makes_a_path_too_long_is_refused_with_scope_paths() {
    let store = ScopedStore::new(InMemoryStore::new(), scope("alice"));
    let deep = format!("/memories/d{}", format!("/{}", "x".repeat(200)).repeat(5));
    let deep = &deep[..1_000];
    write(&store, deep, "text").await.unwrap();
    let moved = deep.replacen("/d/", &format!("/{}/", "y".repeat(15)), 1);
    let refused = reason(rename(&store, "/memories/d", &format!("/memories/{}", "y".repeat(15))).await);
    // The inner store reports only the beginning of a path that is too long.
    assert!(refused.starts_with(&format!("The path {}", &moved[..1_000])), "{refused}");
    let expected = "… would be 1014 bytes long; the limit in this memory is 1012. Use a shorter path.";
    assert!(refused.ends_with(expected), "{refused}");
    let far = rename(&store, "/memories/d", &format!("/memories/{}", "y".repeat(100))).await;
    let Err(StoreError::Path(PathError::TooLong { path, length: 1_099 })) = far else { unreachable!("{far:?}") };
    assert!(path.starts_with("/memories/yyy") && !path.contains("alice"), "{path}");
}

#[tokio::test]
async fn the_root_is_a_directory_even_if_the_inner_store_has_a_file() {
    let inner = Arc::new(InMemoryStore::new());
    write(&*inner, "/memories/scope-alice", "put there by another program").await.unwrap();
    let store = ScopedStore::new(inner, scope("alice"));
    let root = StorePath::memories();
    assert!(matches!(store.read(&root).await.unwrap(), Node::Directory(listing) if listing.files.is_empty()));
    assert!(
        matches!(write(&store, "/memories/a", "text").await, Err(StoreError::NotADirectory { path }) if path == root)
    );
    remove(&store, "/memories").await.unwrap();
    write(&store, "/memories/a", "text").await.unwrap();
}

/// Fails with an error about the path, and lists files outside of the requested directory.
#[derive(Debug)]
struct LeakyStore(MakeError);

type MakeError = fn(StorePath) -> StoreError;

#[async_trait]
impl Store for LeakyStore {
    async fn read_opts(&self, path: &StorePath, _: ReadOptions) -> Result<Node, StoreError> {
        if path.as_str() != "/memories/scope-alice" {
            return Err((self.0)(path.clone()));
        }
        let files = ["/memories/scope-bob/a", "/memories/scope-alice/b", "/memories/scope-alice2/c"];
        Ok(Node::Directory(files.into_iter().map(|file| FileEntry::new(file.parse().unwrap(), 1)).collect()))
    }

    async fn apply(&self, _: Batch) -> Result<(), StoreError> {
        Err((self.0)(StorePath::memories()))
    }
}

#[tokio::test]
async fn errors_and_listings_of_the_inner_store_reveal_no_other_scope() {
    let errors: [(MakeError, &str); 12] = [
        (|path| StoreError::AlreadyExists { path }, "/memories/d/a already exists"),
        (|path| StoreError::NotFound { path }, "/memories/d/a does not exist"),
        (|path| StoreError::VersionMismatch { path }, "/memories/d/a is not at the required version"),
        (|path| StoreError::NotADirectory { path }, "/memories/d/a is a file, not a directory"),
        (|path| StoreError::SymbolicLink { path }, "/memories/d/a is a symbolic link"),
        (|path| StoreError::NotARegularFile { path }, "/memories/d/a is neither a file nor a directory"),
        (|path| StoreError::NotAFile { path }, "/memories/d/a is a directory, not a file"),
        (|path| StoreError::NotText { path }, "/memories/d/a is not UTF-8 text"),
        (
            |_| StoreError::VersionMismatch { path: record("scopes/scope-alice/a") },
            "/records/a is not at the required version",
        ),
        (
            |_| StoreError::VersionMismatch { path: record("scopes/scope-bob/a") },
            "/records is not at the required version", // like for a file of another scope
        ),
        (
            |path| StoreError::Refused { policy: "test", reason: format!("{path} is too much for {path}/quota"), path },
            "/memories/d/a: /memories/d/a is too much for /memories/d/a/quota",
        ),
        (
            |path| StoreError::Path(PathError::Traversal { path: path.to_string() }),
            "using the inner store failed", // stores do not return this for a valid path
        ),
    ];
    for (error, expected) in errors {
        let store = ScopedStore::new(LeakyStore(error), scope("alice"));
        assert_eq!(store.read(path("/memories/d/a")).await.unwrap_err().to_string(), expected);
        assert_eq!(store.list(StorePath::memories()).await.unwrap(), [FileEntry::new(path("/memories/b"), 1)]);
    }
}

#[tokio::test]
async fn a_symbolic_link_above_a_scope_is_reported_at_its_root() {
    let store = ScopedStore::new(LeakyStore(|path| StoreError::SymbolicLink { path }), scope("alice"));
    let error = write(&store, "/memories/a", "text").await.unwrap_err();
    assert!(matches!(error, StoreError::SymbolicLink { path } if path.is_root()));
}

#[tokio::test]
async fn a_read_only_inner_store_is_reported_with_scope_paths() {
    let tool = Engine::new(ScopedStore::new(ReadOnlyStore::new(InMemoryStore::new()), scope("alice")));
    let refused = tool.call(json!({"command": "create", "path": "/memories/a", "file_text": ""})).await.unwrap_err();
    assert!(matches!(&refused, Error::Refused { path: refused, .. } if *refused == path("/memories/a")));
    assert_eq!(refused.to_string(), "Error: /memories is read-only. Its files can be viewed, but not changed.");
}

/// A store that lists all files as damaged.
#[derive(Debug)]
struct Damaged(InMemoryStore);

#[async_trait]
impl Store for Damaged {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        let node = self.0.read_opts(path, options).await?;
        let damaged = |file: FileEntry| FileEntry::damaged(file.path, file.size);
        Ok(match node {
            Node::Directory(listing) => Node::Directory(listing.files.into_iter().map(damaged).collect()),
            node => node,
        })
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.0.apply(batch).await
    }
}

#[test]
fn a_damaged_file_is_listed_as_damaged_in_its_scope() {
    block_on(async {
        let store = ScopedStore::new(Damaged(InMemoryStore::new()), scope("alice"));
        let file = path("/memories/a/b");
        store.write(&file, "text").await.unwrap();
        assert_eq!(store.list(StorePath::memories()).await.unwrap(), [FileEntry::damaged(file, 4)]);
    });
}

#[tokio::test]
async fn scopes_have_separate_records() {
    let inner = Arc::new(InMemoryStore::new());
    let [alice, bob] = ["alice", "bob"].map(|name| ScopedStore::new(Arc::clone(&inner), scope(name)));
    alice.apply(Batch::new().write(record("test/a"), "hers")).await.unwrap();
    assert_eq!(read_record(&bob, "test/a").await, None);
    let stored = read_record(&inner, "scopes/scope-alice/test/a").await.unwrap();
    assert_eq!(read_record(&alice, "test/a").await.unwrap(), stored);

    let absent = Batch::new().require(record("test/a"), Precondition::Absent);
    bob.apply(absent.clone()).await.unwrap();
    let mismatch = alice.apply(absent).await;
    assert!(matches!(mismatch, Err(StoreError::AlreadyExists { path }) if path == record("test/a")));
    let current = Batch::new().require(record("test/a"), Precondition::Version(stored.version));
    alice.apply(current.remove(record("test/a"))).await.unwrap();
    assert_eq!(read_record(&inner, "scopes/scope-alice/test/a").await, None);

    let long = record(&vec!["a".repeat(202); 5].join("/"));
    let failed = alice.read_opts(&long, ReadOptions::new()).await.unwrap_err();
    assert!(!failed.to_string().contains("scope-alice"), "{failed}");
}

/// The inner store has no directory to remove for an empty scope. The rest of the batch must still apply.
#[tokio::test]
async fn clearing_an_empty_scope_changes_its_records() {
    let inner = Arc::new(InMemoryStore::new());
    let store = ScopedStore::new(Arc::clone(&inner), scope("alice"));
    let clearing = || Batch::new().remove(StorePath::memories());
    store.apply(clearing().write(record("test/a"), "1")).await.unwrap();
    let written = read_record(&store, "test/a").await.unwrap();
    assert_eq!(written.content, b"1");
    let stale = clearing().require(record("test/a"), Precondition::Absent).remove(record("test/a"));
    assert!(matches!(store.apply(stale).await, Err(StoreError::AlreadyExists { path }) if path == record("test/a")));
    write(&store, "/memories/a", "text").await.unwrap();
    remove(&store, "/memories").await.unwrap();
    assert_eq!(read_record(&store, "test/a").await, Some(written), "records stay");
}

/// A store in which another writer adds the first file of the scope right after it was found to be empty.
#[derive(Debug)]
struct ConcurrentlyWritten {
    inner: Arc<InMemoryStore>,
    batches: std::sync::atomic::AtomicUsize,
}

#[async_trait]
impl Store for ConcurrentlyWritten {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        self.inner.read_opts(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        let outcome = self.inner.apply(batch).await;
        if self.batches.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0 {
            write(&*self.inner, "/memories/scope-alice/late", "text").await?;
        }
        outcome
    }
}

#[tokio::test]
async fn clearing_a_scope_retries_if_another_writer_adds_the_first_file() {
    let inner = Arc::new(InMemoryStore::new());
    let store = ScopedStore::new(
        ConcurrentlyWritten { inner: Arc::clone(&inner), batches: Default::default() },
        scope("alice"),
    );
    let batch = Batch::new().remove(StorePath::memories()).write(record("test/a"), "1");
    store.apply(batch).await.unwrap();
    assert_eq!(contents(&*inner).await, []);
    assert!(read_record(&store, "test/a").await.is_some());
}

#[tokio::test]
async fn a_read_passes_its_preconditions_to_the_inner_store() {
    let store = ScopedStore::new(InMemoryStore::new(), scope("alice"));
    let (a, b) = (path("/memories/a"), path("/memories/b"));
    write(&store, "/memories/a", "text").await.unwrap();
    let read = async |required: &StorePath| {
        store.read_opts(&a, ReadOptions::new().require(required.clone(), Precondition::Absent)).await
    };
    assert!(matches!(read(&b).await, Ok(Node::File(_))));
    assert!(matches!(read(&a).await, Err(StoreError::AlreadyExists { path }) if path == a));
    let root = StorePath::memories();
    remove(&store, "/memories/a").await.unwrap();
    assert!(matches!(read(&root).await, Err(StoreError::AlreadyExists { path }) if path.is_root()));
}

#[tokio::test]
async fn the_scopes_in_a_store_are_listed() {
    let inner = Arc::new(InMemoryStore::new());
    assert_eq!(Scope::list_in(&*inner).await.unwrap(), []);
    let mut scopes = ["alice", "Alice", "user/42", "Zo\u{eb}", "_", "a_b", "scope-alice", "\u{1d11e}"].map(scope);
    scopes.sort();
    for scope in &scopes {
        let store = ScopedStore::new(Arc::clone(&inner), scope.clone());
        write(&store, "/memories/a", "text").await.unwrap();
        write(&store, "/memories/b/scope-nested/c", "text").await.unwrap();
    }
    let elsewhere = [
        "notes/a",
        "scope-file",
        "scope-/a",
        "scope-A/a",
        "scope-_/a",
        "scope-_4/a",
        "scope-_\u{e9}/a",
        "scope-_ff/a",
        "scope-_61/a",
        "scope-_4F/a",
        "scope-_0a/a",
        "scope-_20a/a",
        "scope-_+1/a",
    ];
    for name in elsewhere {
        write(&*inner, &format!("/memories/{name}"), "text").await.unwrap();
    }
    assert_eq!(Scope::list_in(&*inner).await.unwrap(), scopes);
    remove(&*inner, scopes[0].directory().as_str()).await.unwrap();
    assert_eq!(Scope::list_in(&*inner).await.unwrap(), scopes[1..]);
}
