//! [`Index`]: the one object that says what a store holds. Each write replaces it as a whole.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ops::Bound;

use memory_tool_core::{Batch, Change, FileEntry, MemoryPath, Node, StoreError, StoredFile, Usage, Version};
use serde::{Deserialize, Serialize};

use crate::content::Content;
use crate::id::Id;

/// The largest index in bytes. A write that would make it larger fails as [`Full`](memory_tool_core::FailureKind::Full).
pub const MAX_INDEX_BYTES: usize = 16 * 1024 * 1024;

/// The version of the format that this crate writes, and the only one that it knows.
pub(crate) const FORMAT_VERSION: u64 = 1;

/// How many writers an index remembers, each with its last write. A writer that does not know whether its write was made can tell
/// as long as fewer others wrote since, however often they did.
pub(crate) const REMEMBERED_WRITERS: usize = 64;

/// The most writes, and collections, that an index may have seen: a count always has room for more.
const MAX_COUNT: u64 = 1 << 62;

/// What a store holds at one moment.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)] // what this version does not know it would lose with the next write
pub(crate) struct Index {
    format: Format,
    version: u64,
    /// Tells the store from one that was later made in its place.
    store: Id,
    /// The number of writes so far.
    revision: u64,
    /// The number of times that contents without a file were collected.
    collections: u64,
    /// The last write of each of the last writers, the newest last.
    writers: VecDeque<WriterRecord>,
    files: BTreeMap<MemoryPath, FileRecord>,
}

/// Says what the object is, to people and to programs.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
enum Format {
    #[serde(rename = "memory-tool index")]
    MemoryToolIndex,
}

/// A writer, which is a store that somebody opened, and its last write.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
struct WriterRecord {
    writer: Id,
    write: Id,
    /// The revision that the write led to.
    revision: u64,
}

/// Who makes a write, and which.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Author {
    pub(crate) writer: Id,
    pub(crate) write: Id,
}

/// A file of the store.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileRecord {
    /// Unlike that of all other contents, in all stores. A rename keeps it.
    pub(crate) version: String,
    /// The write that made the contents, by the revision that it led to.
    pub(crate) revision: u64,
    /// In bytes.
    pub(crate) size: u64,
    pub(crate) content: Content,
}

/// One step of a batch that has been checked.
#[derive(Debug)]
pub(crate) enum Edit {
    /// Put the contents at this place among the batch's changes.
    Write {
        path: MemoryPath,
        change: usize,
    },
    Remove {
        path: MemoryPath,
    },
    Move {
        from: MemoryPath,
        to: MemoryPath,
    },
}

/// What became of a write whose answer was lost, as far as a later index tells.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fate {
    /// It was made.
    Made,
    /// It was not, and never will be: what it was to replace is no more.
    Void,
    /// The index no longer reaches back to it.
    Forgotten,
}

impl Default for Index {
    /// What a bucket without an index holds.
    fn default() -> Self {
        Self {
            format: Format::MemoryToolIndex,
            version: FORMAT_VERSION,
            store: Id::default(),
            revision: 0,
            collections: 0,
            writers: VecDeque::new(),
            files: BTreeMap::new(),
        }
    }
}

impl Index {
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, IndexError> {
        let index: Self = serde_json::from_slice(bytes).map_err(|error| explain(bytes, error))?;
        if index.version != FORMAT_VERSION {
            return Err(IndexError::NewerVersion { found: index.version, known: FORMAT_VERSION });
        }
        index.check_consistency()?;
        Ok(index)
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>, IndexError> {
        let bytes = serde_json::to_vec(self).map_err(IndexError::Unwritable)?;
        if bytes.len() > MAX_INDEX_BYTES {
            return Err(IndexError::TooLarge { size: bytes.len() });
        }
        Ok(bytes)
    }

    fn check_consistency(&self) -> Result<(), IndexError> {
        let mut revisions = self.writers.iter().map(|writer| writer.revision);
        if revisions.next_back() != Some(self.revision) || self.revision == 0 {
            return Err(IndexError::Inconsistent("its last write is not the one that led to its revision"));
        }
        if self.revision.max(self.collections) > MAX_COUNT {
            return Err(IndexError::Inconsistent("its write count is out of range"));
        }
        let mut versions = HashSet::with_capacity(self.files.len());
        if !self.files.values().all(|file| versions.insert(&file.version)) {
            return Err(IndexError::Inconsistent("two files have the same version"));
        }
        if self.files.contains_key(&MemoryPath::root()) {
            return Err(IndexError::Inconsistent("it has a file at the root"));
        }
        // A directory sorts right before all that is beneath it, so a file above another is its neighbour.
        let mut neighbours = self.files.keys().zip(self.files.keys().skip(1));
        if neighbours.any(|(path, next)| next.is_beneath(path)) {
            return Err(IndexError::Inconsistent("it has a file beneath a file"));
        }
        Ok(())
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn collections(&self) -> u64 {
        self.collections
    }

    pub(crate) fn is_of_the_store_of(&self, other: &Self) -> bool {
        self.store == other.store
    }

    pub(crate) fn file(&self, path: &MemoryPath) -> Option<&FileRecord> {
        self.files.get(path)
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &FileRecord> {
        self.files.values()
    }

    pub(crate) fn files_mut(&mut self) -> impl Iterator<Item = &mut FileRecord> {
        self.files.values_mut()
    }

    /// The files strictly beneath a directory.
    pub(crate) fn beneath(&self, directory: &MemoryPath) -> impl Iterator<Item = (&MemoryPath, &FileRecord)> {
        let after = (Bound::Excluded(directory), Bound::Unbounded);
        self.files.range::<MemoryPath, _>(after).take_while(move |(path, _)| path.is_beneath(directory))
    }

    pub(crate) fn has_beneath(&self, directory: &MemoryPath) -> bool {
        directory.is_root() || self.beneath(directory).next().is_some()
    }

    /// What is at a path, without its contents: preconditions ask for the version alone.
    pub(crate) fn node(&self, path: &MemoryPath) -> Node {
        match self.file(path) {
            Some(file) => Node::File(StoredFile::new(Vec::new(), file.version())),
            None if self.has_beneath(path) => Node::Directory,
            None => Node::Absent,
        }
    }

    /// How much is at or beneath a path.
    fn usage(&self, path: &MemoryPath) -> Usage {
        self.at_or_beneath(path).map(|(path, file)| FileEntry::new(path.clone(), file.size)).collect()
    }

    /// The steps of a batch, which may be made: all checks are behind them.
    pub(crate) fn plan(&self, batch: &Batch) -> Result<Vec<Edit>, StoreError> {
        batch.check_preconditions(|path| Ok(self.node(path)), |path| Ok(self.usage(path)))?;
        let mut edits = Vec::new();
        for (number, change) in batch.changes().iter().enumerate() {
            change.check(|path| Ok(self.node(path)))?;
            match change {
                Change::Write { path, .. } => edits.push(Edit::Write { path: path.clone(), change: number }),
                Change::Remove { path } => edits.extend(self.plan_removal(path)),
                Change::Rename { from, to } => self.plan_rename(from, to, &mut edits)?,
            }
        }
        Ok(edits)
    }

    fn plan_removal<'a>(&'a self, path: &'a MemoryPath) -> impl Iterator<Item = Edit> {
        self.at_or_beneath(path).map(|(path, _)| Edit::Remove { path: path.clone() })
    }

    fn plan_rename(&self, from: &MemoryPath, to: &MemoryPath, edits: &mut Vec<Edit>) -> Result<(), StoreError> {
        for (path, _) in self.at_or_beneath(from) {
            edits.push(Edit::Move { from: path.clone(), to: path.rebase(from, to)? });
        }
        Ok(())
    }

    fn at_or_beneath<'a>(&'a self, path: &'a MemoryPath) -> impl Iterator<Item = (&'a MemoryPath, &'a FileRecord)> {
        self.files.get_key_value(path).into_iter().chain(self.beneath(path))
    }

    /// The index after a write. `record` gives the file for a change of the batch, made at a revision.
    pub(crate) fn after(
        &self,
        author: Author,
        edits: Vec<Edit>,
        mut record: impl FnMut(usize, u64) -> FileRecord,
    ) -> Self {
        let mut next = self.clone();
        next.revision += 1;
        if self.revision == 0 {
            next.store = author.write;
        }
        next.remember(author);
        for edit in edits {
            match edit {
                Edit::Write { path, change } => {
                    next.files.insert(path, record(change, next.revision));
                }
                Edit::Remove { path } => {
                    next.files.remove(&path);
                }
                Edit::Move { from, to } => {
                    next.files.remove(&from).map(|file| next.files.insert(to, file));
                }
            }
        }
        next
    }

    /// Notes that contents without a file are about to be collected.
    pub(crate) fn note_collection(&mut self) {
        self.collections += 1;
    }

    fn remember(&mut self, Author { writer, write }: Author) {
        self.writers.retain(|known| known.writer != writer);
        while self.writers.len() >= REMEMBERED_WRITERS {
            self.writers.pop_front();
        }
        self.writers.push_back(WriterRecord { writer, write, revision: self.revision });
    }

    /// What became of a write that was to replace `base`, and whose writer made none since. This index is of a later moment, and
    /// not `base`.
    pub(crate) fn fate_of(&self, write: Id, base: &Self) -> Fate {
        if self.writers.iter().any(|known| known.write == write) {
            return Fate::Made;
        }
        // It would have led to the revision after that of `base`. Who wrote least recently is forgotten first, so whatever came
        // after a write that is remembered is remembered as well.
        let forgot_nobody = self.writers.len() < REMEMBERED_WRITERS;
        let reaches_back = self.writers.front().is_some_and(|oldest| oldest.revision <= base.revision + 1);
        if forgot_nobody || reaches_back { Fate::Void } else { Fate::Forgotten }
    }
}

impl FileRecord {
    pub(crate) fn version(&self) -> Version {
        Version::new(self.version.as_bytes())
    }
}

/// What can be wrong with the object that should be the index.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum IndexError {
    #[error("the index is no memory store's, or damaged")]
    NotAnIndex(#[source] serde_json::Error),
    #[error("the index has version {found} of the format, and this program knows version {known}")]
    NewerVersion { found: u64, known: u64 },
    #[error("the index is damaged: {0}")]
    Inconsistent(&'static str),
    #[error("the index has more than {MAX_INDEX_BYTES} bytes")]
    Oversized,
    #[error("the index is gone from the bucket")]
    Gone,
    #[error("the index would have {size} bytes, and may have {MAX_INDEX_BYTES}")]
    TooLarge { size: usize },
    #[error("the index cannot be written as JSON")]
    Unwritable(#[source] serde_json::Error),
}

/// Why bytes cannot be read as an index: those of a newer version may differ in anything but their head.
fn explain(bytes: &[u8], error: serde_json::Error) -> IndexError {
    #[derive(Deserialize)]
    struct Head {
        #[serde(rename = "format")]
        _format: Format,
        version: u64,
    }
    match serde_json::from_slice(bytes) {
        Ok(Head { version: found, .. }) if found > FORMAT_VERSION => {
            IndexError::NewerVersion { found, known: FORMAT_VERSION }
        }
        _ => IndexError::NotAnIndex(error),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const GOLDEN: &[u8] = include_bytes!("../tests/index-version-1.json");

    #[test]
    fn what_was_written_by_version_1_is_written_back_the_same() {
        let written = Index::decode(GOLDEN).unwrap().encode().unwrap();
        let (written, golden): (Value, Value) =
            (serde_json::from_slice(&written).unwrap(), serde_json::from_slice(GOLDEN).unwrap());
        assert_eq!(written, golden);
    }

    /// As many writers as are remembered write one after another, then one more.
    #[test]
    fn a_write_is_remembered_until_too_many_others_wrote() {
        let author = |number: u64| {
            let id = format!("{number:032x}").parse().unwrap();
            Author { writer: id, write: id }
        };
        let no_file = |_, _| unreachable!();
        let base = Index::default().after(author(1_000), Vec::new(), no_file);
        let mine = author(1);
        let mut with_mine = base.after(mine, Vec::new(), no_file);
        let mut without_mine = base.clone();
        for other in 2..=REMEMBERED_WRITERS as u64 {
            with_mine = with_mine.after(author(other), Vec::new(), no_file);
            without_mine = without_mine.after(author(other), Vec::new(), no_file);
            assert_eq!(with_mine.fate_of(mine.write, &base), Fate::Made, "{other}");
            assert_eq!(without_mine.fate_of(mine.write, &base), Fate::Void, "{other}");
        }
        let one_more = with_mine.after(author(REMEMBERED_WRITERS as u64 + 1), Vec::new(), no_file);
        assert_eq!(one_more.fate_of(mine.write, &base), Fate::Forgotten);
        // However often the same few write, nobody is forgotten for it.
        for other in [2, 3, 2] {
            with_mine = with_mine.after(author(other), Vec::new(), no_file);
            assert_eq!(with_mine.fate_of(mine.write, &base), Fate::Made);
        }
    }
}
