//! [`Index`]: the one object that says what a store holds. Each write replaces it as a whole.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet, VecDeque};

use memory_tool_core::{MemoryPath, PathMap, PathMapEdits, RecordName};
use serde::{Deserialize, Serialize};

use crate::content::FileRecord;
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
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    /// Tells the store from one that was later made in its place.
    store: Id,
    /// The number of writes so far.
    revision: u64,
    /// The number of times that contents without a file were collected.
    collections: u64,
    /// The last write of each of the last writers, the newest last.
    writers: VecDeque<WriterRecord>,
    /// The files and the records.
    pub(crate) files: PathMap<FileRecord>,
}

/// An [`Index`] as it is written.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)] // what this version does not know it would lose with the next write
struct Document<'a> {
    format: Format,
    version: u64,
    store: Id,
    revision: u64,
    collections: u64,
    writers: Cow<'a, VecDeque<WriterRecord>>,
    files: Cow<'a, BTreeMap<MemoryPath, FileRecord>>,
    /// Left out where there are none, so that programs that do not know records can use the store until there is one.
    #[serde(default, skip_serializing_if = "is_empty")]
    records: Cow<'a, BTreeMap<RecordName, FileRecord>>,
}

fn is_empty(records: &BTreeMap<RecordName, FileRecord>) -> bool {
    records.is_empty()
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

impl Index {
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, IndexError> {
        let document: Document<'_> = serde_json::from_slice(bytes).map_err(|error| explain(bytes, error))?;
        let Document { version, store, revision, collections, writers, files, records, .. } = document;
        if version != FORMAT_VERSION {
            return Err(IndexError::NewerVersion { found: version, known: FORMAT_VERSION });
        }
        let files = PathMap::from_parts(files.into_owned(), records.into_owned());
        let index = Self { store, revision, collections, writers: writers.into_owned(), files };
        index.check_consistency()?;
        Ok(index)
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>, IndexError> {
        let document = Document {
            format: Format::MemoryToolIndex,
            version: FORMAT_VERSION,
            store: self.store,
            revision: self.revision,
            collections: self.collections,
            writers: Cow::Borrowed(&self.writers),
            files: Cow::Borrowed(self.files.files()),
            records: Cow::Borrowed(self.files.records()),
        };
        let bytes = serde_json::to_vec(&document).map_err(IndexError::Unwritable)?;
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
        let files = self.files.files();
        let mut versions = HashSet::with_capacity(files.len());
        if !self.files.values().all(|file| versions.insert(&file.version)) {
            return Err(IndexError::Inconsistent("two files have the same version"));
        }
        if files.contains_key(&MemoryPath::root()) {
            return Err(IndexError::Inconsistent("it has a file at the root"));
        }
        // A directory sorts right before all that is under it, so a file above another is its neighbor.
        let mut neighbours = files.keys().zip(files.keys().skip(1));
        if neighbours.any(|(path, next)| next.is_under(path)) {
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

    /// The index after a write.
    pub(crate) fn after(&self, author: Author, edits: PathMapEdits<FileRecord>) -> Self {
        let mut next = self.clone();
        next.revision = self.next_revision();
        if self.revision == 0 {
            next.store = author.write;
        }
        next.remember(author);
        next.files.edit(edits);
        next
    }

    /// The revision that the next write leads to.
    pub(crate) fn next_revision(&self) -> u64 {
        self.revision + 1
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
        let reaches_back = self.writers.front().is_some_and(|oldest| oldest.revision <= base.next_revision());
        if forgot_nobody || reaches_back { Fate::Void } else { Fate::Forgotten }
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
    use memory_tool_core::{Batch, InvalidBatch, StoreError};
    use serde_json::{Value, json};

    use super::*;
    use crate::content::Content;

    const GOLDEN: &[u8] = include_bytes!("../tests/index-version-1.json");

    #[test]
    fn what_was_written_by_version_1_is_written_back_the_same() {
        let written = Index::decode(GOLDEN).unwrap().encode().unwrap();
        let (written, golden): (Value, Value) =
            (serde_json::from_slice(&written).unwrap(), serde_json::from_slice(GOLDEN).unwrap());
        assert_eq!(written, golden);
    }

    /// Without records, it is what programs read that know none.
    #[test]
    fn records_are_written_where_there_are_any() {
        let without = Index::decode(GOLDEN).unwrap();
        let name: RecordName = "test/record".parse().unwrap();
        let planned = without.files.plan(&Batch::new().write_record(name.clone(), "text"), |_, bytes, _| {
            let content = Content::inline(bytes);
            Ok::<_, StoreError>(FileRecord { version: "unique".to_owned(), revision: 6, size: 4, content })
        });
        let author = Author { writer: Id::default(), write: Id::default() };
        let with = without.after(author, planned.unwrap());
        let (written, golden): (Value, Value) =
            (serde_json::from_slice(&with.encode().unwrap()).unwrap(), serde_json::from_slice(GOLDEN).unwrap());
        let record = json!({"version": "unique", "revision": 6, "size": 4, "content": {"text": "text"}});
        assert_eq!((&written["records"], &golden["records"]), (&json!({"test/record": record}), &Value::Null));
        assert_eq!(written["files"], golden["files"]);
        let read = Index::decode(&with.encode().unwrap()).unwrap();
        assert_eq!(read.files, with.files);
        assert!(read.files.records().contains_key(&name));
    }

    /// As many writers as are remembered write one after another, then one more.
    #[test]
    fn a_write_is_remembered_until_too_many_others_wrote() {
        let author = |number: u64| {
            let id = format!("{number:032x}").parse().unwrap();
            Author { writer: id, write: id }
        };
        let no_edits =
            || PathMap::new().plan(&Batch::new(), |_, _, _| Err(StoreError::from(InvalidBatch::Root))).unwrap();
        let base = Index::default().after(author(1_000), no_edits());
        let mine = author(1);
        let mut with_mine = base.after(mine, no_edits());
        let mut without_mine = base.clone();
        for other in 2..=REMEMBERED_WRITERS as u64 {
            with_mine = with_mine.after(author(other), no_edits());
            without_mine = without_mine.after(author(other), no_edits());
            assert_eq!(with_mine.fate_of(mine.write, &base), Fate::Made, "{other}");
            assert_eq!(without_mine.fate_of(mine.write, &base), Fate::Void, "{other}");
        }
        let one_more = with_mine.after(author(REMEMBERED_WRITERS as u64 + 1), no_edits());
        assert_eq!(one_more.fate_of(mine.write, &base), Fate::Forgotten);
        // However often the same few write, nobody is forgotten for it.
        for other in [2, 3, 2] {
            with_mine = with_mine.after(author(other), no_edits());
            assert_eq!(with_mine.fate_of(mine.write, &base), Fate::Made);
        }
    }
}
