//! The in-memory reference implementation, which can start from any state.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use memory_tool_core::{
    Batch, Engine, Error, InMemoryStore, MemoryTool, Node, Reply, Store, StoreExt, StorePath, ToolResult,
};
use memory_tool_test_checker::Model;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

/// The contents of a store.
pub type Files = BTreeMap<StorePath, Vec<u8>>;

/// Reads all files of a store.
pub async fn files_of(store: &dyn Store) -> Files {
    let mut files = Files::new();
    for entry in store.list(StorePath::memories()).await.unwrap() {
        match store.read(&entry.path).await.unwrap() {
            Node::File(file) => files.insert(entry.path, file.content),
            other => panic!("{} is listed, but read as {other:?}", entry.path),
        };
    }
    files
}

/// Returns a batch that writes these files.
pub fn batch_of(files: &Files) -> Batch {
    let write = |batch: Batch, (path, content): (&StorePath, &Vec<u8>)| batch.write(path.clone(), content.clone());
    files.iter().fold(Batch::new(), write)
}

/// Formats an outcome like a session: a `tool_result` block on one line.
pub fn line_of(outcome: &Result<Reply, Error>) -> String {
    serde_json::json!(ToolResult::new(None, outcome)).to_string()
}

/// The reference store. It starts each command from a given state.
pub struct Reference(Runtime);

impl Reference {
    /// Creates a reference store with its own runtime.
    #[allow(clippy::new_without_default, reason = "`new` reads better in tests")]
    pub fn new() -> Self {
        Self(Builder::new_current_thread().build().unwrap())
    }
}

impl Model for Reference {
    type State = Files;
    type Command = Value;
    type Reply = String;

    fn run(&self, files: &Files, command: &Value) -> (String, Files) {
        self.0.block_on(async {
            let tool = Engine::new(InMemoryStore::new());
            tool.store().apply(batch_of(files)).await.unwrap();
            let reply = line_of(&tool.call(command.clone()).await);
            (reply, files_of(tool.store()).await)
        })
    }
}
