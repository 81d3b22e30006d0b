//! What a store must answer: the in-memory reference, started from any state.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use memory_tool_core::{
    Batch, Engine, Error, InMemoryStore, MemoryPath, MemoryTool, Node, Reply, Store, StoreExt, ToolResult,
};
use memory_tool_test_checker::Model;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

/// All that a store holds.
pub type Files = BTreeMap<MemoryPath, Vec<u8>>;

/// Every file of a store.
pub async fn files_of(store: &dyn Store) -> Files {
    let mut files = Files::new();
    for entry in store.list(MemoryPath::root()).await.unwrap() {
        match store.read(&entry.path).await.unwrap() {
            Node::File(file) => files.insert(entry.path, file.content),
            other => panic!("{} is listed, but {other:?}", entry.path),
        };
    }
    files
}

/// The batch that makes these files.
pub fn batch_of(files: &Files) -> Batch {
    let write = |batch: Batch, (path, content): (&MemoryPath, &Vec<u8>)| batch.write(path.clone(), content.clone());
    files.iter().fold(Batch::new(), write)
}

/// What a session answers: a `tool_result` block in one line.
pub fn line_of(outcome: &Result<Reply, Error>) -> String {
    serde_json::json!(ToolResult::new(None, outcome)).to_string()
}

/// The reference store, which forgets all between two commands.
pub struct Reference(Runtime);

impl Reference {
    /// One with a runtime of its own.
    #[allow(clippy::new_without_default, reason = "a test makes it by name")]
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
