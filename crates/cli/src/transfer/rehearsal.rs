//! [`Rehearsal`]: a store that is asked what it would do.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use memory_tool_core::{
    Batch, Change, FailureKind, FileEntry, MemoryPath, Node, Store, StoreError, StoredFile, Version,
};
use memory_tool_policies::ACCESS_TIMES_NAME;

/// A store whose files are read, and to which changes are only pretended. It lies beneath the policies, which so say what they
/// would say.
///
/// # Behavior
/// 1. Preconditions are checked, capacities included, and whether the paths of the writes can be files beside those that are there
///    and those that were written before.
/// 2. Of what was written, only the last batch can be read, and the access times that a policy keeps, which it reads again:
///    nobody asks for the others, and they would fill this process.
/// 3. Files are written and removed. Nobody who puts files renames any.
#[derive(Debug)]
pub(crate) struct Rehearsal {
    store: Box<dyn Store>,
    pretended: Mutex<Pretended>,
}

#[derive(Debug)]
struct Pretended {
    /// The sizes of all files, those that were written included.
    files: BTreeMap<MemoryPath, u64>,
    /// The files that were there, and were removed.
    removed: BTreeSet<MemoryPath>,
    /// What was written and can be read.
    written: HashMap<MemoryPath, StoredFile>,
    writes: u64,
}

impl Rehearsal {
    /// A rehearsal of changes to the store.
    pub(crate) async fn of(store: Box<dyn Store>) -> Result<Self, StoreError> {
        let files = store.list(&MemoryPath::root()).await?.into_iter().map(|entry| (entry.path, entry.size)).collect();
        let pretended = Pretended { files, removed: BTreeSet::new(), written: HashMap::new(), writes: 0 };
        Ok(Self { store, pretended: Mutex::new(pretended) })
    }

    fn pretended(&self) -> MutexGuard<'_, Pretended> {
        // Nothing that changes it can panic halfway.
        self.pretended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pretended {
    /// What is at a path, as far as a change asks for it.
    fn node(&self, path: &MemoryPath) -> Node {
        if self.files.contains_key(path) {
            return Node::File(StoredFile::new(Vec::new(), self.version()));
        }
        // A directory sorts right before what is beneath it.
        let is_directory = self.files.range(path..).next().is_some_and(|(file, _)| file.is_beneath(path));
        if is_directory { Node::Directory } else { Node::Absent }
    }

    /// What is at a path where the store has this.
    fn instead_of(&self, found: Node, path: &MemoryPath) -> Node {
        let is_gone = match found {
            Node::Absent => true,
            Node::File(_) => self.removed.contains(path),
            Node::Directory => self.removed.iter().any(|file| file.is_beneath(path)),
        };
        if is_gone { self.node(path) } else { found }
    }

    /// The files at or beneath a path.
    fn entries(&self, path: &MemoryPath) -> impl Iterator<Item = FileEntry> {
        let within = self.files.range(path..).take_while(move |(file, _)| *file == path || file.is_beneath(path));
        within.map(|(file, size)| FileEntry::new(file.clone(), *size))
    }

    fn version(&self) -> Version {
        Version::new(self.writes.to_be_bytes())
    }

    /// Forgets what was written before, except what is read again.
    fn begin_batch(&mut self) {
        self.written.retain(|path, _| path.name() == Some(ACCESS_TIMES_NAME));
    }

    fn write(&mut self, path: MemoryPath, content: Vec<u8>) {
        self.writes += 1;
        self.files.insert(path.clone(), content.len() as u64);
        self.written.insert(path, StoredFile::new(content, self.version()));
    }

    fn remove(&mut self, path: &MemoryPath) {
        let gone: Vec<_> = self.entries(path).map(|entry| entry.path).collect();
        for file in gone {
            self.files.remove(&file);
            self.written.remove(&file);
            self.removed.insert(file);
        }
    }
}

#[async_trait]
impl Store for Rehearsal {
    async fn read(&self, path: &MemoryPath) -> Result<Node, StoreError> {
        if let Some(file) = self.pretended().written.get(path) {
            return Ok(Node::File(file.clone()));
        }
        let found = self.store.read(path).await?;
        Ok(self.pretended().instead_of(found, path))
    }

    async fn list(&self, directory: &MemoryPath) -> Result<Vec<FileEntry>, StoreError> {
        Ok(self.pretended().entries(directory).filter(|entry| entry.path != *directory).collect())
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        let mut nodes = BTreeMap::new();
        for (path, _) in batch.preconditions() {
            nodes.insert(path.clone(), self.read(path).await?);
        }
        let mut pretended = self.pretended();
        let node = |path: &MemoryPath| Ok(nodes.get(path).cloned().unwrap_or(Node::Absent));
        batch.check_preconditions(node, |path| Ok(pretended.entries(path).collect()))?;
        pretended.begin_batch();
        for change in batch.into_changes() {
            change.check(|path| Ok(pretended.node(path)))?;
            match change {
                Change::Write { path, content } => pretended.write(path, content),
                Change::Remove { path } => pretended.remove(&path),
                Change::Rename { .. } => {
                    return Err(StoreError::failure(FailureKind::Other, "rehearsing", "no rename is rehearsed"));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use memory_tool_core::InMemoryStore;

    use super::*;
    use crate::run::start_runtime;

    fn path(name: &str) -> MemoryPath {
        MemoryPath::parse(&format!("/memories/{name}")).unwrap()
    }

    fn write(name: &str, content: &str) -> Batch {
        Batch::new().write(path(name), content.as_bytes().to_vec()).unwrap()
    }

    async fn content(store: &Rehearsal, name: &str) -> Option<Vec<u8>> {
        match store.read(&path(name)).await.unwrap() {
            Node::File(file) => Some(file.content),
            _ => None,
        }
    }

    #[test]
    fn the_access_times_outlast_a_batch_without_them() {
        start_runtime().unwrap().block_on(async {
            let store = Rehearsal::of(Box::new(InMemoryStore::new())).await.unwrap();
            let times = format!("scope-a/{ACCESS_TIMES_NAME}");
            store.apply(write("scope-a/a", "one").write(path(&times), b"times".to_vec()).unwrap()).await.unwrap();
            assert_eq!(content(&store, "scope-a/a").await, Some(b"one".to_vec()));
            store.apply(write("scope-a/b", "two")).await.unwrap();
            assert_eq!(content(&store, &times).await, Some(b"times".to_vec()));
            assert_eq!(content(&store, "scope-a/a").await, Some(Vec::new()), "it is not kept");
        });
    }

    #[test]
    fn what_is_removed_is_not_there_and_comes_back_only_when_it_is_written() {
        start_runtime().unwrap().block_on(async {
            let inner = InMemoryStore::new();
            inner.apply(write("a/b", "old")).await.unwrap();
            let store = Rehearsal::of(Box::new(inner)).await.unwrap();
            store.apply(Batch::new().remove(path("a/b")).unwrap()).await.unwrap();
            assert_eq!(content(&store, "a/b").await, None);
            assert_eq!(store.read(&path("a")).await.unwrap(), Node::Absent);
            assert_eq!(store.list(&MemoryPath::root()).await.unwrap(), []);
            store.apply(write("a", "new")).await.unwrap();
            assert_eq!(content(&store, "a").await, Some(b"new".to_vec()));
        });
    }
}
