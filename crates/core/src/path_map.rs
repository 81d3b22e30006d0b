//! [`PathMap`]: the rules of [`Store`](crate::Store), implemented on a sorted map.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::batch::Batch;
use crate::change::{Change, RecordChange};
use crate::node::{FileEntry, Node, Stat, StoredFile, Version};
use crate::path::MemoryPath;
use crate::quota::Usage;
use crate::record::RecordName;
use crate::state::StoreState;
use crate::store_error::StoreError;

/// The value of a [`PathMap`] for a file or record: its contents, or metadata about contents stored elsewhere.
pub trait PathMapEntry {
    /// The version of the file.
    fn version(&self) -> Version;

    /// The entry for a listing of the file at `path`.
    fn to_entry(&self, path: &MemoryPath) -> FileEntry;
}

/// Contents that are also their own version.
impl PathMapEntry for Vec<u8> {
    fn version(&self) -> Version {
        Version::new(self.clone())
    }

    fn to_entry(&self, path: &MemoryPath) -> FileEntry {
        FileEntry::new(path.clone(), self.len() as u64)
    }
}

/// A sorted map of files and records, for a backend that keeps its files or an index of them in RAM.
///
/// A directory sorts right before its contents, so the contents of a directory are a range of the map.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PathMap<T> {
    files: BTreeMap<MemoryPath, T>,
    records: BTreeMap<RecordName, T>,
}

impl<T> Default for PathMap<T> {
    fn default() -> Self {
        Self { files: BTreeMap::new(), records: BTreeMap::new() }
    }
}

impl<T> PathMap<T> {
    /// Creates an empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a map from its files and records, such as the entries of an index.
    pub fn from_parts(files: BTreeMap<MemoryPath, T>, records: BTreeMap<RecordName, T>) -> Self {
        Self { files, records }
    }

    /// The files by their paths.
    pub fn files(&self) -> &BTreeMap<MemoryPath, T> {
        &self.files
    }

    /// The records by their names.
    pub fn records(&self) -> &BTreeMap<RecordName, T> {
        &self.records
    }

    /// The entries of all files, then those of all records.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.files.values().chain(self.records.values())
    }

    /// Mutable references to the entries of all files, then those of all records.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.files.values_mut().chain(self.records.values_mut())
    }

    /// The files under a directory, at any depth, sorted by path.
    pub fn under(&self, directory: &MemoryPath) -> impl Iterator<Item = (&MemoryPath, &T)> {
        let after = (Bound::Excluded(directory), Bound::Unbounded);
        self.files.range::<MemoryPath, _>(after).take_while(move |(path, _)| path.is_under(directory))
    }

    /// The file at `path`, or the files under it.
    pub fn at_or_under(&self, path: &MemoryPath) -> impl Iterator<Item = (&MemoryPath, &T)> {
        self.files.range(path..).take_while(move |(other, _)| *other == path || other.is_under(path))
    }

    /// Whether `path` is a directory.
    pub fn is_directory(&self, path: &MemoryPath) -> bool {
        path.is_root() || self.under(path).next().is_some()
    }

    /// The caller plans the edit of a write.
    fn plan_move(&self, change: &Change) -> Result<Vec<Edit<MemoryPath, T>>, StoreError>
    where
        T: Clone,
    {
        Ok(match change {
            Change::Write { .. } => Vec::new(),
            Change::Remove { path } => self.at_or_under(path).map(|(path, _)| (path.clone(), None)).collect(),
            Change::Rename { from, to } => {
                let mut edits = Vec::new();
                for (path, file) in self.at_or_under(from) {
                    edits.push((path.clone(), None));
                    edits.push((path.replace_prefix(from, to)?, Some(file.clone())));
                }
                edits
            }
        })
    }

    /// Applies the edits of a [plan](Self::plan), and returns the edits that undo them.
    pub fn edit(&mut self, edits: PathMapEdits<T>) -> PathMapEdits<T> {
        PathMapEdits { files: edit(&mut self.files, edits.files), records: edit(&mut self.records, edits.records) }
    }
}

/// The new value of a path or record, or `None` to remove it.
type Edit<K, T> = (K, Option<T>);

fn edit<K: Clone + Ord, T>(entries: &mut BTreeMap<K, T>, edits: Vec<Edit<K, T>>) -> Vec<Edit<K, T>> {
    let apply = |(key, entry): Edit<K, T>| {
        let replaced = match entry {
            Some(entry) => entries.insert(key.clone(), entry),
            None => entries.remove(&key),
        };
        (key, replaced)
    };
    let mut undo: Vec<_> = edits.into_iter().map(apply).collect();
    undo.reverse();
    undo
}

/// The effect of a batch on a [`PathMap`], returned by [`PathMap::plan`].
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct PathMapEdits<T> {
    /// The new values of paths, in the order in which to apply them. `None` removes the path.
    pub files: Vec<(MemoryPath, Option<T>)>,
    /// The new values of records. `None` removes the record.
    pub records: Vec<(RecordName, Option<T>)>,
}

impl<T: PathMapEntry> PathMap<T> {
    /// The node at `path`, as returned by [`Store::read_opts`](crate::Store::read_opts). `content` returns the contents
    /// of a file.
    pub fn node(&self, path: &MemoryPath, content: impl FnOnce(&T) -> Vec<u8>) -> Node {
        match self.files.get(path) {
            Some(file) => Node::File(StoredFile::new(content(file), file.version())),
            None if self.is_directory(path) => Node::Directory(self.entries(path).into()),
            None => Node::Absent,
        }
    }

    /// The record, as returned by [`Store::read_record`](crate::Store::read_record). `content` returns its contents.
    pub fn stored_record(&self, name: &RecordName, content: impl FnOnce(&T) -> Vec<u8>) -> Option<StoredFile> {
        self.records.get(name).map(|record| StoredFile::new(content(record), record.version()))
    }

    /// Lists a directory. The list is empty if the path is not a directory.
    pub fn entries(&self, directory: &MemoryPath) -> Vec<FileEntry> {
        self.under(directory).map(|(path, file)| file.to_entry(path)).collect()
    }

    /// Applies a batch atomically. `file` creates the entry of a written file or record from its contents and the entry
    /// that it replaces.
    ///
    /// # Errors
    /// The errors of [`Store::apply`](crate::Store::apply), except for errors of the storage.
    pub fn apply(&mut self, batch: &Batch, mut file: impl FnMut(&[u8], Option<&T>) -> T) -> Result<(), StoreError>
    where
        T: Clone,
    {
        batch.check(self)?;
        let edits = self.plan(batch, |_, content, replaced| Ok::<T, StoreError>(file(content, replaced)))?;
        self.edit(edits);
        Ok(())
    }

    /// Plans the edits of a batch, for a backend that stores the contents elsewhere. [Check](Batch::check) the batch
    /// first.
    ///
    /// `file` creates the entry of a written file or record from the [number](Batch::content) of the change, the
    /// contents, and the entry that it replaces.
    ///
    /// # Errors
    /// The errors of [`Change::check`](crate::Change::check) and `file`, and [`StoreError::Path`] for a rename.
    pub fn plan<E: From<StoreError>>(
        &self,
        batch: &Batch,
        mut file: impl FnMut(usize, &[u8], Option<&T>) -> Result<T, E>,
    ) -> Result<PathMapEdits<T>, E>
    where
        T: Clone,
    {
        let mut edits = PathMapEdits { files: Vec::new(), records: Vec::new() };
        for (number, change) in batch.changes().iter().enumerate() {
            change.check(self)?;
            edits.files.extend(self.plan_move(change)?);
            if let Change::Write { path, content, .. } = change {
                edits.files.push((path.clone(), Some(file(number, content, self.files.get(path))?)));
            }
        }
        for (number, change) in (batch.changes().len()..).zip(batch.record_changes()) {
            let record = match change {
                RecordChange::Write { name, content } => Some(file(number, content, self.records.get(name))?),
                RecordChange::Remove { .. } => None,
            };
            edits.records.push((change.name().clone(), record));
        }
        Ok(edits)
    }
}

impl<T: PathMapEntry> StoreState for PathMap<T> {
    fn stat(&self, path: &MemoryPath) -> Result<Stat, StoreError> {
        Ok(match self.files.get(path) {
            Some(file) => Stat::File(file.version()),
            None if self.is_directory(path) => Stat::Directory,
            None => Stat::Absent,
        })
    }

    fn usage(&self, path: &MemoryPath) -> Result<Usage, StoreError> {
        Ok(self.at_or_under(path).map(|(path, file)| file.to_entry(path)).collect())
    }

    fn record(&self, name: &RecordName) -> Result<Option<Version>, StoreError> {
        Ok(self.records.get(name).map(T::version))
    }
}
