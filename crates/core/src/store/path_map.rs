//! [`PathMap`]: the rules of [`Store`](crate::Store), implemented on a sorted map.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::store::batch::Batch;
use crate::store::change::Change;
use crate::store::error::StoreError;
use crate::store::node::{FileEntry, Node, Stat, StoredFile, Version};
use crate::store::quota::Usage;
use crate::store::state::StoreState;
use crate::store::store_path::StorePath;

/// The value of a [`PathMap`] for a file: its contents, or metadata about contents stored elsewhere.
pub trait PathMapEntry {
    /// The version of the file.
    fn version(&self) -> Version;

    /// The entry for a listing of the file at `path`.
    fn to_entry(&self, path: &StorePath) -> FileEntry;
}

/// Contents that are also their own version.
impl PathMapEntry for Vec<u8> {
    fn version(&self) -> Version {
        Version::new(self.clone())
    }

    fn to_entry(&self, path: &StorePath) -> FileEntry {
        FileEntry::new(path.clone(), self.len() as u64)
    }
}

/// A sorted map of files, for a backend that keeps its files or an index of them in RAM.
///
/// A directory sorts right before its contents, so the contents of a directory are a range of the map.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PathMap<T> {
    files: BTreeMap<StorePath, T>,
}

impl<T> Default for PathMap<T> {
    fn default() -> Self {
        Self { files: BTreeMap::new() }
    }
}

impl<T> PathMap<T> {
    /// Creates an empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// The files by their paths.
    pub fn files(&self) -> &BTreeMap<StorePath, T> {
        &self.files
    }

    /// Mutable references to the entries of all files.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.files.values_mut()
    }

    /// The files under a directory, at any depth, sorted by path.
    pub fn under(&self, directory: &StorePath) -> impl Iterator<Item = (&StorePath, &T)> {
        let after = (Bound::Excluded(directory), Bound::Unbounded);
        self.files.range::<StorePath, _>(after).take_while(move |(path, _)| path.is_under(directory))
    }

    /// The file at `path`, or the files under it.
    pub fn at_or_under(&self, path: &StorePath) -> impl Iterator<Item = (&StorePath, &T)> {
        self.files.range(path..).take_while(move |(other, _)| *other == path || other.is_under(path))
    }

    /// Whether `path` is a directory.
    pub fn is_directory(&self, path: &StorePath) -> bool {
        path.is_root() || self.under(path).next().is_some()
    }

    /// The caller plans the edit of a write.
    fn plan_move(&self, change: &Change) -> Result<PathMapEdits<T>, StoreError>
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
        let apply = |(path, file): (StorePath, Option<T>)| {
            let replaced = match file {
                Some(file) => self.files.insert(path.clone(), file),
                None => self.files.remove(&path),
            };
            (path, replaced)
        };
        let mut undo: Vec<_> = edits.into_iter().map(apply).collect();
        undo.reverse();
        undo
    }
}

/// Creates a map from its files, such as the entries of an index.
impl<T> From<BTreeMap<StorePath, T>> for PathMap<T> {
    fn from(files: BTreeMap<StorePath, T>) -> Self {
        Self { files }
    }
}

/// The effect of a batch on a [`PathMap`]: the new values of paths, in the order in which to apply them. `None` removes
/// the path.
pub type PathMapEdits<T> = Vec<(StorePath, Option<T>)>;

impl<T: PathMapEntry> PathMap<T> {
    /// The node at `path`, as returned by [`Store::read_opts`](crate::Store::read_opts). `content` returns the contents
    /// of a file.
    pub fn node(&self, path: &StorePath, content: impl FnOnce(&T) -> Vec<u8>) -> Node {
        match self.files.get(path) {
            Some(file) => Node::File(StoredFile::new(content(file), file.version())),
            None if self.is_directory(path) => Node::Directory(self.entries(path).into()),
            None => Node::Absent,
        }
    }

    /// Lists a directory. The list is empty if the path is not a directory.
    pub fn entries(&self, directory: &StorePath) -> Vec<FileEntry> {
        self.under(directory).map(|(path, file)| file.to_entry(path)).collect()
    }

    /// Applies a batch atomically. `file` creates the entry of a written file from its contents and the entry that it
    /// replaces.
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
    /// `file` creates the entry of a written file from the [number](Batch::content) of the change, the contents, and
    /// the entry that it replaces.
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
        let mut edits = Vec::new();
        for (number, change) in batch.changes().iter().enumerate() {
            change.check(self)?;
            edits.extend(self.plan_move(change)?);
            if let Change::Write { path, content, .. } = change {
                edits.push((path.clone(), Some(file(number, content, self.files.get(path))?)));
            }
        }
        Ok(edits)
    }
}

impl<T: PathMapEntry> StoreState for PathMap<T> {
    fn stat(&self, path: &StorePath) -> Result<Stat, StoreError> {
        Ok(match self.files.get(path) {
            Some(file) => Stat::File(file.version()),
            None if self.is_directory(path) => Stat::Directory,
            None => Stat::Absent,
        })
    }

    fn usage(&self, path: &StorePath) -> Result<Usage, StoreError> {
        Ok(self.at_or_under(path).map(|(path, file)| file.to_entry(path)).collect())
    }
}
