//! Random commands of the processes, on few paths, so that conflicts are common.

use memory_tool_test_servers::Fault;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

use crate::faults;
use memory_tool_test_buckets::reference::Files;

/// A file that only grows. Commands insert unique lines into it, and never change it otherwise.
pub(crate) const LOG: &str = "/memories/log";

/// The size of contents that are stored in commits.
const MEDIUM: usize = 12_000;
/// The size of contents that get a separate object.
const LARGE: usize = 20_000;

/// A word that occurs once in every file except the log.
const MARK: &str = "mark";

/// A step of a process.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) command: Value,
    /// The fault of the change, after which the bucket stops responding.
    pub(crate) lost: Option<Fault>,
}

/// The initial files.
pub(crate) fn start() -> Files {
    Files::from([(LOG.parse().unwrap(), Vec::new())])
}

/// The steps of one process.
pub(crate) fn steps(seed: u64, count: usize) -> Vec<Step> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    prop::collection::vec(step(), count).new_tree(&mut runner).unwrap().current()
}

fn step() -> impl Strategy<Value = Step> {
    let lost = prop::option::weighted(faults::CHANCE_OF_LOSS, select(faults::LOSSES));
    prop_oneof![
        3 => view().prop_map(|command| Step { command, lost: None }),
        7 => (change(), lost).prop_map(|(command, lost)| Step { command, lost }),
    ]
}

fn view() -> impl Strategy<Value = Value> {
    let path = prop_oneof![8 => path(), 1 => Just(LOG.to_owned()), 1 => Just("/memories".to_owned())];
    path.prop_map(|path| json!({"command": "view", "path": path}))
}

fn change() -> impl Strategy<Value = Value> {
    let insert = (prop_oneof![2 => file(), 1 => Just(LOG.to_owned())], unique());
    prop_oneof![
        6 => (file(), text()).prop_map(|(path, text)| json!({"command": "create", "path": path, "file_text": text})),
        5 => (file(), unique()).prop_map(|(path, unique)| {
            json!({"command": "str_replace", "path": path, "old_str": MARK, "new_str": format!("{unique} {MARK}")})
        }),
        5 => insert.prop_map(|(path, unique)| {
            json!({"command": "insert", "path": path, "insert_line": 0, "insert_text": unique})
        }),
        2 => path().prop_map(|path| json!({"command": "delete", "path": path})),
        4 => (path(), path()).prop_map(|(old, new)| json!({"command": "rename", "old_path": old, "new_path": new})),
    ]
}

/// One of a few paths.
fn path() -> impl Strategy<Value = String> {
    prop_oneof![2 => file(), 1 => directory()]
}

/// Mostly the path of a file. Some paths are under others, so a path can also be a directory.
fn file() -> impl Strategy<Value = String> {
    let in_directory = |names| (directory(), select(names)).prop_map(|(directory, name)| format!("{directory}/{name}"));
    prop_oneof![
        8 => in_directory(vec!["x", "y"]),
        1 => in_directory(vec!["x/deep"]),
    ]
}

/// Mostly the path of a directory.
fn directory() -> impl Strategy<Value = String> {
    select(vec!["/memories/a", "/memories/b", "/memories/c"]).prop_map(str::to_owned)
}

fn text() -> impl Strategy<Value = String> {
    let size = prop_oneof![5 => Just(0), 3 => Just(MEDIUM), 2 => Just(LARGE)];
    (unique(), size).prop_map(|(unique, size)| content(&unique, size))
}

fn content(name: &str, size: usize) -> String {
    format!("{name}\n{MARK}\n{}", "x".repeat(size))
}

fn unique() -> impl Strategy<Value = String> {
    any::<u64>().prop_map(|number| format!("{number:016x}"))
}
