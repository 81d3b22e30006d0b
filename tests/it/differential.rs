//! Runs random commands and batches on each backend and on the in-memory reference, and compares all replies and the
//! final contents byte for byte.
//!
//! Paths and contents use a tiny alphabet, so that collisions, prefixes and nesting are common.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use memory_tool_bucket::BucketStore;
use memory_tool_core::{Batch, Engine, InMemoryStore, Node, Quota, ReadOptions, Store, StoreError, StorePath};
use memory_tool_encrypted::{EncryptedStore, KeyRing, Padding, RawKey};
use memory_tool_local::LocalStore;
use memory_tool_sqlite::SqliteStore;
use memory_tool_test_fixtures::steps::{Part, Step, run};
use memory_tool_test_fixtures::{contents, directory_in_ram, path as parsed, property};
use object_store::memory::InMemory;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

fn legal_path() -> impl Strategy<Value = String> {
    let segment = select(vec!["a", "b", "ab", "a.b", "a-b", "A", ".h", "node_modules"]);
    prop::collection::vec(segment, 0..4)
        .prop_map(|segments| segments.iter().fold("/memories".to_owned(), |path, segment| format!("{path}/{segment}")))
}

fn path() -> impl Strategy<Value = String> {
    let illegal = select(vec!["/memories/../a", "/memoriesX", "/memories//a", "/memories/a/", "/memories/%2e%2e/a"]);
    prop_oneof![19 => legal_path(), 1 => illegal.prop_map(str::to_owned)]
}

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(select(vec!["a", "aa", "b", "\n", "\r\n", "é", "\u{2028}", "$&"]), 0..6)
        .prop_map(|parts| parts.concat())
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    let image = b"\x89PNG\r\n\x1a\n".to_vec();
    prop_oneof![4 => text().prop_map(String::into_bytes), 1 => Just(b"\xff\xfe".to_vec()), 1 => Just(image)]
}

fn command() -> impl Strategy<Value = Value> {
    let line = -2_i64..6;
    prop_oneof![
        2 => path().prop_map(|path| json!({"command": "view", "path": path})),
        1 => (path(), line.clone(), line.clone())
            .prop_map(|(path, from, to)| json!({"command": "view", "path": path, "view_range": [from, to]})),
        4 => (path(), text()).prop_map(|(path, text)| json!({"command": "create", "path": path, "file_text": text})),
        3 => (path(), text(), text()).prop_map(|(path, old, new)| {
            json!({"command": "str_replace", "path": path, "old_str": old, "new_str": new})
        }),
        3 => (path(), line, text()).prop_map(|(path, line, text)| {
            json!({"command": "insert", "path": path, "insert_line": line, "insert_text": text})
        }),
        2 => path().prop_map(|path| json!({"command": "delete", "path": path})),
        4 => (path(), path())
            .prop_map(|(old, new)| json!({"command": "rename", "old_path": old, "new_path": new})),
    ]
}

fn quota() -> impl Strategy<Value = Quota> {
    (0..6_u64, 0..20_u64, 0..8_u64, 1..5_u64, 0..5_usize).prop_map(|(files, bytes, file_bytes, depth, only)| {
        [
            Quota::new().with_files(files),
            Quota::new().with_bytes(bytes),
            Quota::new().with_file_bytes(file_bytes),
            Quota::new().with_depth(depth),
            Quota::new().with_files(files).with_bytes(bytes).with_file_bytes(file_bytes).with_depth(depth),
        ][only]
    })
}

/// The records that steps use.
const RECORDS: [&str; 4] = ["/records/a", "/records/a/b", "/records/ab", "/records/a.b"];

/// A part of a batch. Batches whose parts overlap are refused by each store.
fn part() -> impl Strategy<Value = Part> {
    let record = || select(RECORDS.as_slice()).prop_map(parsed);
    let file = || legal_path().prop_map(|path| parsed(&path));
    let any = || prop_oneof![2 => file(), 1 => record()];
    prop_oneof![
        2 => any().prop_map(Part::RequireAbsent),
        2 => (any(), prop::bool::ANY).prop_map(|(path, current)| Part::RequireVersion(path, current)),
        2 => (file(), quota()).prop_map(|(path, quota)| Part::Limit(path, quota)),
        6 => (any(), content()).prop_map(|(path, content)| Part::Write(path, content)),
        3 => any().prop_map(Part::Remove),
        2 => (file(), file()).prop_map(|(from, to)| Part::Rename(from, to)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => command().prop_map(Step::Command),
        1 => prop::collection::vec(part(), 1..4).prop_map(Step::Batch),
    ]
}

/// Returns the contents of the records that steps write.
async fn records(store: &dyn Store) -> Vec<Option<Vec<u8>>> {
    let mut contents = Vec::new();
    for name in RECORDS {
        let record = store.read_opts(&parsed(name), ReadOptions::new()).await.unwrap().into_file();
        contents.push(record.map(|record| record.content));
    }
    contents
}

/// Whether any directory on disk is empty. A directory must disappear with its last file.
fn has_empty_directory(directory: &Path) -> bool {
    let entries: Vec<_> = std::fs::read_dir(directory).unwrap().map(Result::unwrap).collect();
    let is_root = directory.ends_with("memories");
    (entries.is_empty() && !is_root)
        || entries.iter().any(|entry| entry.file_type().unwrap().is_dir() && has_empty_directory(&entry.path()))
}

#[derive(Clone, Copy, Debug)]
struct Options {
    create_overwrites: bool,
    cap: Option<usize>,
}

impl Options {
    fn tool<S: Store>(self, store: S) -> Engine<S> {
        Engine::builder(store).create_overwrites(self.create_overwrites).max_view_characters(self.cap).build()
    }
}

fn options() -> impl Strategy<Value = Options> {
    (any::<bool>(), prop::option::of(1_usize..300))
        .prop_map(|(create_overwrites, cap)| Options { create_overwrites, cap })
}

async fn compare(store: impl Store, steps: &[Step], options: Options) -> Result<(), TestCaseError> {
    let (tool, reference) = (options.tool(store), options.tool(InMemoryStore::new()));
    for step in steps {
        prop_assert_eq!(run(&tool, step).await, run(&reference, step).await, "{:?}", step);
    }
    prop_assert_eq!(contents(tool.store()).await, contents(reference.store()).await);
    prop_assert_eq!(records(tool.store()).await, records(reference.store()).await);
    Ok(())
}

/// Two sessions of one memory that take turns. Each must see the changes of the other.
#[derive(Debug)]
struct Alternating {
    sessions: [EncryptedStore; 2],
    calls: AtomicUsize,
}

impl Alternating {
    fn session(&self) -> &EncryptedStore {
        &self.sessions[self.calls.fetch_add(1, Ordering::Relaxed) / 3 % 2]
    }
}

#[async_trait]
impl Store for Alternating {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        self.session().read_opts(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.session().apply(batch).await
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

proptest! {
    #![proptest_config(property(64, 5_000))]

    #[test]
    fn local_store_matches_the_reference(
        steps in prop::collection::vec(step(), 1..20),
        options in options(),
    ) {
        block_on(async {
            let directory = directory_in_ram().unwrap();
            compare(LocalStore::open(directory.path()).await.unwrap(), &steps, options).await?;
            prop_assert!(!has_empty_directory(&directory.path().join("memories")));
            let staging = directory.path().join(".memory-tool/staging");
            prop_assert!(std::fs::read_dir(staging).unwrap().next().is_none());
            Ok(())
        })?;
    }

    #[test]
    fn sqlite_store_matches_the_reference(
        steps in prop::collection::vec(step(), 1..20),
        options in options(),
    ) {
        block_on(async {
            let directory = directory_in_ram().unwrap();
            let store = SqliteStore::open(directory.path().join("memory.sqlite")).await.unwrap();
            compare(store.clone(), &steps, options).await?;
            prop_assert_eq!(store.verify(|_| {}).await.unwrap().problems, []);
            Ok(())
        })?;
    }

    #[test]
    fn bucket_store_matches_the_reference(
        steps in prop::collection::vec(step(), 1..20),
        options in options(),
    ) {
        block_on(async {
            let store = BucketStore::open(Arc::new(InMemory::new()), "memory".into()).await.unwrap();
            compare(store, &steps, options).await
        })?;
    }

    /// The second session uses padding and another key, so each reads a format that it does not write.
    #[test]
    fn encrypted_store_matches_the_reference(
        steps in prop::collection::vec(step(), 1..20),
        options in options(),
    ) {
        block_on(async {
            let inner = Arc::new(InMemoryStore::new());
            let key = |byte| RawKey::from_bytes([byte; 32]);
            let plain = EncryptedStore::builder(Arc::clone(&inner), KeyRing::new(key(1)).with(key(2)));
            let padded = EncryptedStore::builder(inner, KeyRing::new(key(2)).with(key(1))).padding(Padding::Padme);
            let sessions = [plain.open().await.unwrap(), padded.open().await.unwrap()];
            compare(Alternating { sessions, calls: AtomicUsize::new(0) }, &steps, options).await
        })?;
    }
}
