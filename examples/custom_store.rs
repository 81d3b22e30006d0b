//! A store of one's own: three methods, and the memory tool works on it.
//!
//! `tests/custom_store.rs` runs the conformance suite on this very file.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::collections::BTreeMap;

use async_trait::async_trait;
use memory_tool_core::{
    Batch, Change, Engine, FileEntry, MemoryPath, MemoryTool, Node, Store, StoreError, StoredFile, Version,
};
use tokio::sync::Mutex;

/// Files in a map, and a lock that makes each method one step.
#[derive(Debug, Default)]
pub(crate) struct MapStore(Mutex<Files>);

#[derive(Clone, Debug, Default)]
struct Files(BTreeMap<MemoryPath, Vec<u8>>);

#[async_trait]
impl Store for MapStore {
    async fn read(&self, path: &MemoryPath) -> Result<Node, StoreError> {
        Ok(self.0.lock().await.node(path))
    }

    async fn list(&self, directory: &MemoryPath) -> Result<Vec<FileEntry>, StoreError> {
        Ok(self.0.lock().await.within(directory).filter(|file| file.path != *directory).collect())
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        let mut files = self.0.lock().await;
        batch.check_preconditions(|path| Ok(files.node(path)), |path| Ok(files.within(path).collect()))?;
        let mut changed = files.clone();
        for change in batch.into_changes() {
            changed.change(change)?;
        }
        *files = changed; // all of the batch at once, or none of it
        Ok(())
    }
}

impl Files {
    /// What is at a path. The contents serve as the version: equal versions mean equal contents.
    fn node(&self, path: &MemoryPath) -> Node {
        match self.0.get(path) {
            Some(content) => Node::File(StoredFile::new(content.clone(), Version::new(content.clone()))),
            None if path.is_root() || self.0.keys().any(|file| file.is_beneath(path)) => Node::Directory,
            None => Node::Absent,
        }
    }

    /// The file at a path, or those beneath it.
    fn within(&self, path: &MemoryPath) -> impl Iterator<Item = FileEntry> {
        let within = self.0.iter().filter(move |(file, _)| *file == path || file.is_beneath(path));
        within.map(|(file, content)| FileEntry::new(file.clone(), content.len() as u64))
    }

    fn change(&mut self, change: Change) -> Result<(), StoreError> {
        change.check(|path| Ok(self.node(path)))?;
        match change {
            Change::Write { path, content } => {
                self.0.insert(path, content);
            }
            Change::Remove { path } => self.0.retain(|file, _| *file != path && !file.is_beneath(&path)),
            Change::Rename { from, to } => {
                for (path, content) in std::mem::take(&mut self.0) {
                    self.0.insert(path.rebase(&from, &to)?, content);
                }
            }
        }
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
#[allow(dead_code, reason = "the test of this file has a `main` of its own")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tool = Engine::new(MapStore::default());
    let create = serde_json::json!({"command": "create", "path": "/memories/notes.md", "file_text": "Likes tea"});
    println!("{}", tool.call(create).await?);
    println!("{}", tool.call(serde_json::json!({"command": "view", "path": "/memories"})).await?);
    Ok(())
}
