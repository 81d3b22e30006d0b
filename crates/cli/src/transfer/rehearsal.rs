//! [`Rehearsal`]: a store that is asked what it would do.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use memory_tool_core::{
    Batch, Change, FailureKind, FileEntry, MemoryPath, Node, Store, StoreError, StoredFile, Version,
};

/// A store whose files are read, and to which writes are only pretended. It lies beneath the policies, which so say what they
/// would say.
///
/// # Behavior
/// 1. Preconditions are checked, capacities included, and whether the paths of the writes can be files beside those that are there
///    and those that were written before.
/// 2. Only the last file that was written can be read: nobody asks for the others again, and they would fill this process.
/// 3. What is written is never listed.
#[derive(Debug)]
pub(crate) struct Rehearsal {
    store: Box<dyn Store>,
    pretended: Mutex<Pretended>,
}

#[derive(Debug)]
struct Pretended {
    /// The sizes of all files, those that were written included.
    files: BTreeMap<MemoryPath, u64>,
    last: Option<(MemoryPath, Vec<u8>)>,
    writes: u64,
}

impl Rehearsal {
    /// A rehearsal of changes to the store.
    pub(crate) async fn of(store: Box<dyn Store>) -> Result<Self, StoreError> {
        let files = store.list(&MemoryPath::root()).await?.into_iter().map(|entry| (entry.path, entry.size)).collect();
        Ok(Self { store, pretended: Mutex::new(Pretended { files, last: None, writes: 0 }) })
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

    /// The files at or beneath a path.
    fn entries(&self, path: &MemoryPath) -> impl Iterator<Item = FileEntry> {
        let within = self.files.range(path..).take_while(move |(file, _)| *file == path || file.is_beneath(path));
        within.map(|(file, size)| FileEntry::new(file.clone(), *size))
    }

    fn version(&self) -> Version {
        Version::new(self.writes.to_be_bytes())
    }

    fn write(&mut self, path: MemoryPath, content: Vec<u8>) {
        self.writes += 1;
        self.files.insert(path.clone(), content.len() as u64);
        self.last = Some((path, content));
    }
}

#[async_trait]
impl Store for Rehearsal {
    async fn read(&self, path: &MemoryPath) -> Result<Node, StoreError> {
        {
            let pretended = self.pretended();
            if let Some((_, content)) = pretended.last.as_ref().filter(|(last, _)| last == path) {
                return Ok(Node::File(StoredFile::new(content.clone(), pretended.version())));
            }
        }
        match self.store.read(path).await? {
            Node::Absent => Ok(self.pretended().node(path)),
            found => Ok(found),
        }
    }

    async fn list(&self, directory: &MemoryPath) -> Result<Vec<FileEntry>, StoreError> {
        self.store.list(directory).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        let mut nodes = BTreeMap::new();
        for (path, _) in batch.preconditions() {
            nodes.insert(path.clone(), self.read(path).await?);
        }
        let mut pretended = self.pretended();
        let node = |path: &MemoryPath| Ok(nodes.get(path).cloned().unwrap_or(Node::Absent));
        batch.check_preconditions(node, |path| Ok(pretended.entries(path).collect()))?;
        for change in batch.into_changes() {
            change.check(|path| Ok(pretended.node(path)))?;
            let Change::Write { path, content } = change else {
                return Err(StoreError::failure(FailureKind::Other, "rehearsing", "only writes are rehearsed"));
            };
            pretended.write(path, content);
        }
        Ok(())
    }
}
