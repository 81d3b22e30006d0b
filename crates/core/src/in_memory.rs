//! [`InMemoryStore`]: the reference store, which every other backend is compared with.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::error::StoreError;
use crate::file_size::DEFAULT_MAX_FILE_BYTES;
use crate::path::MemoryPath;
use crate::store::{Batch, Change, FileEntry, Node, Store, StoredFile, Version};

/// A store that keeps its files, of up to [`DEFAULT_MAX_FILE_BYTES`] each, in this process and forgets them with it. For tests, examples and short-lived agents.
#[derive(Debug, Default)]
pub struct InMemoryStore {
    files: Mutex<Files>,
}

impl InMemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        // A batch is planned first and performed by steps that cannot fail: the files are whole even if a holder panicked.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for InMemoryStore {
    async fn read(&self, path: &MemoryPath) -> Result<Node, StoreError> {
        Ok(self.files().node(path))
    }

    async fn list(&self, directory: &MemoryPath) -> Result<Vec<FileEntry>, StoreError> {
        Ok(self.files().entries(directory).filter(|file| file.path != *directory).collect())
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        batch.check_file_sizes(DEFAULT_MAX_FILE_BYTES)?;
        let mut files = self.files();
        batch.check_preconditions(|path| Ok(files.node(path)), |path| Ok(files.entries(path).collect()))?;
        let mut edits = Vec::new();
        for change in batch.into_changes() {
            edits.extend(files.plan(change)?);
        }
        files.perform(edits);
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Files {
    by_path: BTreeMap<MemoryPath, File>,
    writes: u64,
}

/// What a path shall hold: a file, or nothing.
type Edit = (MemoryPath, Option<File>);

#[derive(Clone, Debug)]
struct File {
    content: Arc<[u8]>,
    /// The number of the write that made it: no two writes share one.
    version: u64,
}

impl Files {
    fn node(&self, path: &MemoryPath) -> Node {
        if let Some(file) = self.by_path.get(path) {
            return Node::File(StoredFile::new(file.content.to_vec(), Version::new(file.version.to_be_bytes())));
        }
        if path.is_root() || self.beneath(path).next().is_some() { Node::Directory } else { Node::Absent }
    }

    fn entries(&self, path: &MemoryPath) -> impl Iterator<Item = FileEntry> {
        self.at_or_beneath(path).map(|(path, file)| FileEntry::new(path.clone(), file.content.len() as u64))
    }

    fn beneath(&self, directory: &MemoryPath) -> impl Iterator<Item = (&MemoryPath, &File)> {
        self.at_or_beneath(directory).filter(move |(path, _)| *path != directory)
    }

    /// The file at `path`, or all that lie beneath it: a directory sorts right before its contents.
    fn at_or_beneath(&self, path: &MemoryPath) -> impl Iterator<Item = (&MemoryPath, &File)> {
        self.by_path.range(path..).take_while(move |(other, _)| *other == path || other.is_beneath(path))
    }

    /// The edits that a change comes down to. The changes of a batch are disjoint, so each is planned on the state before.
    fn plan(&mut self, change: Change) -> Result<Vec<Edit>, StoreError> {
        change.check(|path| Ok(self.node(path)))?;
        match change {
            Change::Write { path, content } => {
                self.writes += 1;
                Ok(vec![(path, Some(File { content: content.into(), version: self.writes }))])
            }
            Change::Remove { path } => Ok(self.at_or_beneath(&path).map(|(path, _)| (path.clone(), None)).collect()),
            Change::Rename { from, to } => self.plan_rename(&from, &to),
        }
    }

    fn plan_rename(&self, from: &MemoryPath, to: &MemoryPath) -> Result<Vec<Edit>, StoreError> {
        let mut edits = Vec::new();
        for (path, file) in self.at_or_beneath(from) {
            edits.push((path.clone(), None));
            edits.push((path.rebase(from, to)?, Some(file.clone())));
        }
        Ok(edits)
    }

    fn perform(&mut self, edits: Vec<Edit>) {
        for (path, file) in edits {
            match file {
                Some(file) => self.by_path.insert(path, file),
                None => self.by_path.remove(&path),
            };
        }
    }
}
