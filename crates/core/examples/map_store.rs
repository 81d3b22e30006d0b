//! A complete backend: a map of files, and a lock that makes each method atomic.

use async_trait::async_trait;
use memory_tool_core::{Batch, Engine, MemoryTool, Node, PathMap, ReadOptions, Store, StoreError, StorePath};
use tokio::sync::Mutex;

/// A file's contents are also its version, so equal versions mean equal contents.
#[derive(Debug, Default)]
pub(crate) struct MapStore(Mutex<PathMap<Vec<u8>>>);

#[async_trait]
impl Store for MapStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        let files = self.0.lock().await;
        options.check(&*files)?;
        Ok(files.node(path, Vec::clone))
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.0.lock().await.apply(&batch, |content, _| content.to_vec())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tool = Engine::new(MapStore::default());
    let input = serde_json::json!({"command": "create", "path": "/memories/a.txt", "file_text": "Hello"});
    assert_eq!(tool.call(input).await?.to_string(), "File created successfully at: /memories/a.txt");
    Ok(())
}
