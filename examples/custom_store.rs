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

/// Files in a map. Each write has a number, which is the file's version.
#[derive(Debug, Default)]
pub(crate) struct MapStore(Mutex<Files>);

#[derive(Clone, Debug, Default)]
struct Files {
    files: BTreeMap<MemoryPath, (u64, Vec<u8>)>,
    writes: u64,
}

#[async_trait]
impl Store for MapStore {
    async fn read(&self, path: &MemoryPath) -> Result<Node, StoreError> {
        Ok(self.0.lock().await.node(path))
    }

    async fn list(&self, directory: &MemoryPath) -> Result<Vec<FileEntry>, StoreError> {
        let files = &self.0.lock().await.files;
        let beneath = files.iter().filter(|(path, _)| path.is_beneath(directory));
        Ok(beneath.map(|(path, (_, content))| FileEntry::new(path.clone(), content.len() as u64)).collect())
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        let mut current = self.0.lock().await;
        for (path, expected) in batch.preconditions() {
            expected.check(path, &current.node(path))?;
        }
        let mut changed = current.clone();
        batch.into_changes().into_iter().try_for_each(|change| changed.change(change))?;
        *current = changed; // all of the batch at once, or none of it
        Ok(())
    }
}

impl Files {
    fn node(&self, path: &MemoryPath) -> Node {
        match self.files.get(path) {
            Some((write, content)) => Node::File(StoredFile::new(content.clone(), Version::new(write.to_be_bytes()))),
            None if path.is_root() || self.files.keys().any(|file| file.is_beneath(path)) => Node::Directory,
            None => Node::Absent,
        }
    }

    fn change(&mut self, change: Change) -> Result<(), StoreError> {
        match change {
            Change::Write { path, .. } if self.node(&path) == Node::Directory => {
                Err(StoreError::AlreadyExists { path })
            }
            Change::Write { path, content } => {
                self.refuse_file_above(&path)?;
                self.writes += 1;
                self.files.insert(path, (self.writes, content));
                Ok(())
            }
            Change::Remove { path } if self.node(&path) == Node::Absent => Err(StoreError::NotFound { path }),
            Change::Remove { path } => {
                self.files.retain(|file, _| *file != path && !file.is_beneath(&path));
                Ok(())
            }
            Change::Rename { from, .. } if self.node(&from) == Node::Absent => Err(StoreError::NotFound { path: from }),
            Change::Rename { from, to } => {
                self.refuse_file_above(&to)?;
                if self.node(&to) != Node::Absent {
                    return Err(StoreError::AlreadyExists { path: to });
                }
                for (path, file) in std::mem::take(&mut self.files) {
                    self.files.insert(path.rebase(&from, &to)?, file);
                }
                Ok(())
            }
        }
    }

    fn refuse_file_above(&self, path: &MemoryPath) -> Result<(), StoreError> {
        path.parents()
            .find(|above| self.files.contains_key(above))
            .map_or(Ok(()), |path| Err(StoreError::NotADirectory { path }))
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
