//! Random sequences of commands and batches. A small alphabet of names and contents makes collisions and nesting
//! common.

use memory_tool_core::{
    Batch, Engine, MemoryPath, MemoryTool, Node, PathMap, Precondition, ReadOptions, Store, StoreError, StoreExt as _,
    StorePath, StoredFile, ToolResult, Version,
};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

/// One element of a sequence.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Command(Value),
    Batch(Vec<Part>),
}

/// A precondition or change of a batch.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    RequireAbsent(StorePath),
    /// Requires the current version of the file, or a stale one.
    RequireVersion(StorePath, bool),
    Write(StorePath, Vec<u8>),
    Remove(StorePath),
    Rename(StorePath, StorePath),
}

impl Part {
    pub(crate) fn paths(&self) -> Vec<&StorePath> {
        match self {
            Self::RequireAbsent(path) | Self::RequireVersion(path, _) | Self::Write(path, _) | Self::Remove(path) => {
                vec![path]
            }
            Self::Rename(from, to) => vec![from, to],
        }
    }
}

pub(crate) fn path(text: &str) -> StorePath {
    text.parse().unwrap()
}

pub(crate) fn memory_path(text: &str) -> MemoryPath {
    text.parse().unwrap()
}

/// The path of a record.
pub(crate) fn record(name: &str) -> StorePath {
    path(&format!("/records/{name}"))
}

/// Returns a record, if it exists.
pub(crate) async fn read_record(store: &dyn Store, name: &str) -> Option<StoredFile> {
    match store.read_opts(&record(name), ReadOptions::new()).await.unwrap() {
        Node::Absent => None,
        Node::File(stored) => Some(stored),
        other => unreachable!("{name} is {other:?}"),
    }
}

/// Generates steps. Paths consist of `names`, or are one of `elsewhere`.
pub(crate) fn steps(names: &'static [&'static str], elsewhere: &'static [&'static str]) -> impl Strategy<Value = Step> {
    let valid_path = move || {
        prop::collection::vec(select(names), 0..4).prop_map(|segments| {
            segments.iter().fold("/memories".to_owned(), |path, segment| format!("{path}/{segment}"))
        })
    };
    let any_path = move || prop_oneof![12 => valid_path(), 1 => select(elsewhere).prop_map(str::to_owned)];
    let parsed = move || valid_path().prop_map(|text| path(&text));
    let part = prop_oneof![
        1 => parsed().prop_map(Part::RequireAbsent),
        1 => (parsed(), any::<bool>()).prop_map(|(path, current)| Part::RequireVersion(path, current)),
        4 => (parsed(), text()).prop_map(|(path, text)| Part::Write(path, text.into())),
        2 => parsed().prop_map(Part::Remove),
        2 => (parsed(), parsed()).prop_map(|(from, to)| Part::Rename(from, to)),
    ];
    let command = prop_oneof![
        3 => any_path().prop_map(|path| json!({"command": "view", "path": path})),
        6 => (any_path(), text())
            .prop_map(|(path, text)| json!({"command": "create", "path": path, "file_text": text})),
        2 => (any_path(), text(), text()).prop_map(|(path, old, new)| {
            json!({"command": "str_replace", "path": path, "old_str": old, "new_str": new})
        }),
        2 => (any_path(), text())
            .prop_map(|(path, text)| json!({"command": "insert", "path": path, "insert_line": 0, "insert_text": text})),
        2 => any_path().prop_map(|path| json!({"command": "delete", "path": path})),
        4 => (any_path(), any_path())
            .prop_map(|(old, new)| json!({"command": "rename", "old_path": old, "new_path": new})),
    ];
    prop_oneof![
        3 => command.prop_map(Step::Command),
        1 => prop::collection::vec(part, 1..4).prop_map(Step::Batch),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(select(vec!["a", "aa", "b", "\n", "é"]), 0..5).prop_map(|parts| parts.concat())
}

/// Runs a step and returns its result in a form that can be compared between stores.
pub(crate) async fn run<S: Store>(tool: &Engine<S>, step: &Step) -> String {
    match step {
        Step::Command(input) => {
            let result = ToolResult::new(None, &tool.call(input.clone()).await);
            serde_json::to_string(&result).unwrap()
        }
        Step::Batch(parts) => match tool.store().apply(batch(tool.store(), parts).await).await {
            Ok(()) => "done".to_owned(),
            Err(error) => format!("{error:?}"),
        },
    }
}

/// Returns the parts of a valid batch. Parts that overlap an earlier one are omitted.
pub(crate) fn valid_parts(parts: &[Part]) -> Vec<&Part> {
    let mut batch = Batch::new();
    let mut valid = Vec::new();
    for part in parts {
        if let Some(with_part) = with_part(batch.clone(), part, &Version::new(*b"any")) {
            batch = with_part;
            valid.push(part);
        }
    }
    valid
}

async fn batch(store: &dyn Store, parts: &[Part]) -> Batch {
    let mut batch = Batch::new();
    for part in valid_parts(parts) {
        let version = version(store, part).await;
        batch = with_part(batch, part, &version).unwrap();
    }
    batch
}

async fn version(store: &dyn Store, part: &Part) -> Version {
    if let Part::RequireVersion(path, true) = part
        && let Ok(Node::File(file)) = store.read(path).await
    {
        return file.version;
    }
    Version::new(*b"stale")
}

fn with_part(batch: Batch, part: &Part, version: &Version) -> Option<Batch> {
    match part.clone() {
        Part::RequireAbsent(path) => Some(batch.require(path, Precondition::Absent)),
        Part::RequireVersion(path, _) => Some(batch.require(path, Precondition::Version(version.clone()))),
        Part::Write(path, content) => if_valid(batch.write(path, content)),
        Part::Remove(path) => if_valid(batch.remove(path)),
        Part::Rename(from, to) => if_valid(batch.rename(from, to)),
    }
}

/// Returns the batch, unless its changes overlap.
pub(crate) fn if_valid(batch: Batch) -> Option<Batch> {
    let checked = batch.check(&PathMap::<Vec<u8>>::new());
    if let Err(StoreError::InvalidBatch(_)) = checked { None } else { Some(batch) }
}

/// Returns all files of the store with their contents.
pub(crate) async fn contents(store: &dyn Store) -> Vec<(StorePath, u64, Vec<u8>)> {
    let files = store.list(StorePath::memories()).await.unwrap();
    let mut contents = Vec::new();
    for file in files {
        let content = match store.read(&file.path).await.unwrap() {
            Node::File(stored) => stored.content,
            other => unreachable!("{} is listed, but {other:?}", file.path),
        };
        contents.push((file.path, file.size, content));
    }
    contents
}

pub(crate) async fn write(store: &dyn Store, at: &str, content: &str) -> Result<(), StoreError> {
    store.write(at, content).await
}

pub(crate) async fn remove(store: &dyn Store, at: &str) -> Result<(), StoreError> {
    store.remove(at).await
}

pub(crate) async fn rename(store: &dyn Store, from: &str, to: &str) -> Result<(), StoreError> {
    store.rename(from, to).await
}

/// Returns the reason of a refusal.
pub(crate) fn reason(outcome: Result<(), StoreError>) -> String {
    match outcome {
        Err(StoreError::Refused { reason, .. }) => reason,
        other => unreachable!("{other:?}"),
    }
}

pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}
