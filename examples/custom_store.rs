//! A store of one's own: three methods, and the memory tool works on it. `tests/custom_store.rs` runs the suite on this file.
//! Run it: `cargo run --example custom_store`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::collections::BTreeMap;

use async_trait::async_trait;
use memory_tool::{Batch, Change, FileEntry, MemoryPath, MemoryTool, Node, Store, StoreError, StoredFile, Version};
use tokio::sync::Mutex;

type Files = BTreeMap<MemoryPath, Vec<u8>>;

/// Files in a map, and a lock that makes each method one step.
#[derive(Debug, Default)]
pub(crate) struct MapStore(Mutex<Files>);

#[async_trait]
impl Store for MapStore {
    async fn read(&self, path: &MemoryPath) -> Result<Node, StoreError> {
        Ok(node(&*self.0.lock().await, path))
    }

    async fn list(&self, directory: &MemoryPath) -> Result<Vec<FileEntry>, StoreError> {
        Ok(within(&*self.0.lock().await, directory).filter(|file| file.path != *directory).collect())
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        let mut files = self.0.lock().await;
        batch.check_preconditions(|path| Ok(node(&files, path)), |path| Ok(within(&files, path).collect()))?;
        let mut changed = files.clone();
        for change in batch.into_changes() {
            change.check(|path| Ok(node(&changed, path)))?;
            match change {
                Change::Write { path, content } => _ = changed.insert(path, content),
                Change::Remove { path } => changed.retain(|file, _| *file != path && !file.is_beneath(&path)),
                Change::Rename { from, to } => {
                    for (path, content) in std::mem::take(&mut changed) {
                        changed.insert(path.rebase(&from, &to)?, content);
                    }
                }
            }
        }
        *files = changed; // all of the batch at once, or none of it
        Ok(())
    }
}

/// What is at a path. The contents serve as the version: equal versions mean equal contents.
fn node(files: &Files, path: &MemoryPath) -> Node {
    match files.get(path) {
        Some(content) => Node::File(StoredFile::new(content.clone(), Version::new(content.clone()))),
        None if path.is_root() || files.keys().any(|file| file.is_beneath(path)) => Node::Directory,
        None => Node::Absent,
    }
}

/// The file at a path, or those beneath it.
fn within(files: &Files, path: &MemoryPath) -> impl Iterator<Item = FileEntry> {
    let within = files.iter().filter(move |(file, _)| *file == path || file.is_beneath(path));
    within.map(|(file, content)| FileEntry::new(file.clone(), content.len() as u64))
}

#[tokio::main]
async fn main() -> Result<(), memory_tool::Error> {
    let tool = memory_tool::Engine::new(MapStore::default());
    let create = serde_json::json!({"command": "create", "path": "/memories/notes.md", "file_text": "Likes tea"});
    println!("{}", tool.call(create).await?);
    println!("{}", tool.call(serde_json::json!({"command": "view", "path": "/memories"})).await?);
    Ok(())
}
