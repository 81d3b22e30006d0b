//! The records of a history, and their formats.
//!
//! | record | contains |
//! | --- | --- |
//! | `/records/history/head` | the range of the log: a [`Head`] in JSON |
//! | `/records/history/log/{number}` | a recent entry: a line of JSON, then kept contents |
//! | `/records/history/blocks/{first}` | [`BLOCK`] older entries: compressed lines, then compressed contents |
//! | `/records/history/large/{number}/{part}` | kept contents that are large, compressed |
//! | `/records/history/index` | one line of JSON per block: the hashes of the paths that it changed |
//! | `/records/history/births` | the identities of the files after the last removal of entries, in JSON |
//!
//! A block is compressed as a whole, so that successive versions of a file take little more than their differences.

use std::io::{Read as _, Write as _};
use std::sync::Arc;

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use memory_tool_core::{BoxError, ErrorKind, ReadOptions, Stat, Store, StoreError, StorePath};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::entry::{Entry, FileChange, millis};
use crate::hex::Id;
use crate::limits::{BLOCK, Limits};

/// The format version. Other versions are neither read nor changed.
const FORMAT: u32 = 2;

/// The contents of an entry are large, and stored apart from it, if their total size exceeds this.
pub(crate) const LARGE_BYTES: u64 = 64 * 1024;

/// The size of a part of large contents before compression.
pub(crate) const PART_BYTES: usize = 4 * 1024 * 1024;

/// The limit on numbers in a head, so that none overflows. No memory has so many changes.
const MAX_NUMBER: u64 = 1 << 53;

/// The limit on decompressed data, because a damaged record could fill the RAM.
const MAX_INFLATED_BYTES: u64 = 256 * 1024 * 1024;

pub(crate) fn root() -> StorePath {
    record(&["history"])
}

pub(crate) fn head() -> StorePath {
    record(&["history", "head"])
}

pub(crate) fn index() -> StorePath {
    record(&["history", "index"])
}

pub(crate) fn births() -> StorePath {
    record(&["history", "births"])
}

/// The mark of a plan, which no store has.
pub(crate) fn plan(id: Id) -> StorePath {
    record(&["history", "plan", &id.to_string()])
}

pub(crate) fn log() -> StorePath {
    record(&["history", "log"])
}

pub(crate) fn single(number: u64) -> StorePath {
    record(&["history", "log", &format!("{number:020}")])
}

pub(crate) fn blocks() -> StorePath {
    record(&["history", "blocks"])
}

pub(crate) fn block(first: u64) -> StorePath {
    record(&["history", "blocks", &format!("{first:020}")])
}

pub(crate) fn all_large() -> StorePath {
    record(&["history", "large"])
}

pub(crate) fn large(number: u64) -> StorePath {
    record(&["history", "large", &format!("{number:020}")])
}

pub(crate) fn large_part(number: u64, part: usize) -> StorePath {
    record(&["history", "large", &format!("{number:020}"), &format!("{part:06}")])
}

/// Whether there is a record, perhaps a damaged one.
pub(crate) async fn is_present(store: &impl Store, path: &StorePath) -> Result<bool, StoreError> {
    match store.read_opts(path, ReadOptions::new()).await {
        Ok(node) => Ok(node.stat() != Stat::Absent),
        Err(error) if error.kind() == ErrorKind::Damaged => Ok(true),
        Err(error) => Err(error),
    }
}

/// Joins names that are legal in a record.
fn record(names: &[&str]) -> StorePath {
    let join = |path: StorePath, name: &&str| path.join(name).unwrap_or(path);
    names.iter().fold(StorePath::records(), join)
}

/// The number in the name of a [`single`] record.
pub(crate) fn number(path: &StorePath) -> Option<u64> {
    path.file_name()?.parse().ok().filter(|number| *number < MAX_NUMBER)
}

/// The range of the log. No two heads are equal, not even of histories that were cleared or restored, so an unchanged
/// head proves that the blocks and all entries in them are the same.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Head {
    pub(crate) format: u32,
    /// The identity of the history.
    pub(crate) id: Id,
    /// The identity of this head. Each change of blocks, and of entries that exist, gives it another one.
    pub(crate) revision: Id,
    /// The number of the oldest entry that is kept.
    pub(crate) first: u64,
    /// The number after the newest entry in a block.
    pub(crate) blocks_end: u64,
    /// The identity of the newest entry in a block, or of the history.
    pub(crate) tail: Id,
    pub(crate) limits: Limits,
}

/// The record of the head.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct HeadRecord {
    #[serde(flatten)]
    pub(crate) head: Head,
    /// The claim of a session that goes first, see [`claim`](crate::claim).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) claim: Option<Id>,
}

impl Head {
    /// The head of a new history.
    pub(crate) fn born() -> Result<Self, StoreError> {
        let (id, revision) = (Id::random()?, Id::random()?);
        Ok(Self { format: FORMAT, id, revision, first: 1, blocks_end: 1, tail: id, limits: Limits::default() })
    }

    /// The head without a history.
    pub(crate) fn absent() -> Self {
        Self { first: 1, blocks_end: 1, ..Self::default() }
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<HeadRecord, StoreError> {
        let invalid = |error| damaged(format!("the head is not valid: {error}; {REPAIR_IT}"));
        let record: HeadRecord = serde_json::from_slice(bytes).map_err(invalid)?;
        let head = &record.head;
        if head.format != FORMAT {
            return Err(StoreError::failure(ErrorKind::Other, READING, "the history has an unknown format"));
        }
        let is_whole = head.blocks_end.checked_sub(head.first).is_some_and(|count| count.is_multiple_of(BLOCK));
        let is_possible = head.first > 0 && head.blocks_end < MAX_NUMBER;
        if !is_possible || !is_whole {
            return Err(damaged(format!("the head names impossible entries; {REPAIR_IT}")));
        }
        Ok(record)
    }

    /// The numbers of the first entries of all blocks, newest first.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = u64> + use<> {
        let (first, count) = (self.first, (self.blocks_end - self.first) / BLOCK);
        (0..count).rev().map(move |block| first + block * BLOCK)
    }

    /// The number of the first entry of the block that contains this entry, which is not older than the first.
    pub(crate) fn block_of(&self, number: u64) -> u64 {
        number - number.saturating_sub(self.first) % BLOCK
    }
}

/// An entry and its kept contents, one after another. Large ones are stored elsewhere.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Stored {
    pub(crate) entry: Entry,
    pub(crate) contents: Vec<u8>,
}

impl Stored {
    /// The contents of a [`single`] record.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, StoreError> {
        let mut bytes = line(&self.entry)?;
        bytes.extend_from_slice(&self.contents);
        Ok(bytes)
    }

    pub(crate) fn parse(mut bytes: Vec<u8>) -> Result<Self, StoreError> {
        let end = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(|| damaged("an entry has no end"))?;
        let entry = parse_line(&bytes[..end])?;
        let contents = bytes.split_off(end + 1);
        Ok(Self { entry, contents })
    }
}

impl Entry {
    pub(crate) fn is_large(&self) -> bool {
        self.kept_bytes() > LARGE_BYTES
    }
}

pub(crate) fn to_json(value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value).map_err(|error| StoreError::failure(ErrorKind::Other, "writing the history", error))
}

fn line(value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    let mut line = to_json(value)?;
    line.push(b'\n');
    Ok(line)
}

fn parse_line<T: for<'a> Deserialize<'a>>(line: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(line).map_err(damaged)
}

/// A [`block`] record.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) entries: Vec<Entry>,
    compressed_contents: Vec<u8>,
}

impl Block {
    pub(crate) fn to_bytes(entries: &[Arc<Stored>]) -> Result<Vec<u8>, StoreError> {
        let (mut lines, mut contents) = (Vec::new(), Vec::new());
        for stored in entries {
            lines.append(&mut line(&stored.entry)?);
            contents.extend_from_slice(&stored.contents);
        }
        let (lines, mut contents) = (deflate(&lines)?, deflate(&contents)?);
        let mut bytes = line(&lines.len())?;
        bytes.extend(lines);
        bytes.append(&mut contents);
        Ok(bytes)
    }

    pub(crate) fn parse(mut bytes: Vec<u8>) -> Result<Self, StoreError> {
        let end = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(|| damaged("a block has no entries"))?;
        let length: usize = parse_line(&bytes[..end])?;
        let contents_start = (end + 1).checked_add(length).filter(|start| *start <= bytes.len());
        let compressed_contents = bytes.split_off(contents_start.ok_or_else(|| damaged("a block is cut off"))?);
        Ok(Self { entries: parse_lines(&inflate(&bytes[end + 1..])?)?, compressed_contents })
    }

    /// All entries with their contents.
    pub(crate) fn into_stored(self) -> Result<Vec<Stored>, StoreError> {
        let mut rest = inflate(&self.compressed_contents)?;
        let mut stored = Vec::with_capacity(self.entries.len());
        for entry in self.entries {
            let bytes = if entry.is_large() { 0 } else { entry.kept_bytes() }; // large contents are elsewhere
            let length = usize::try_from(bytes).ok().filter(|length| *length <= rest.len());
            let after = rest.split_off(length.ok_or_else(|| damaged("a block lacks contents"))?);
            stored.push(Stored { entry, contents: std::mem::replace(&mut rest, after) });
        }
        if rest.is_empty() { Ok(stored) } else { Err(damaged("a block has contents without an entry")) }
    }
}

pub(crate) fn deflate(bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    let compressed = encoder.write_all(bytes).and_then(|()| encoder.finish());
    compressed.map_err(|error| StoreError::failure(ErrorKind::Other, "compressing the history", error))
}

pub(crate) fn inflate(bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
    let mut inflated = Vec::new();
    DeflateDecoder::new(bytes).take(MAX_INFLATED_BYTES + 1).read_to_end(&mut inflated).map_err(damaged)?;
    if inflated.len() as u64 > MAX_INFLATED_BYTES {
        return Err(damaged("a record of the history is too large"));
    }
    Ok(inflated)
}

/// The index of a block, so that the log of a path reads few blocks.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct IndexedBlock {
    /// The number of the first entry.
    pub(crate) first: u64,
    /// The time of the newest entry, in milliseconds since 1970.
    pub(crate) until: u64,
    /// The stored size, with large contents.
    pub(crate) bytes: u64,
    /// The entries with large contents.
    pub(crate) large: Vec<u64>,
    /// The hashes of the paths of changed files and of the directories above them.
    paths: Vec<u32>,
    /// The hashes of the paths of renames.
    moved: Vec<u32>,
}

impl IndexedBlock {
    /// Indexes a block that is stored with this size.
    pub(crate) fn new(stored_bytes: u64, entries: &[Arc<Stored>]) -> Self {
        let first = entries.first().map_or(0, |stored| stored.entry.number);
        let until = entries.last().map_or(0, |stored| millis(stored.entry.time));
        let large: Vec<_> = entries.iter().map(|stored| &stored.entry).filter(|entry| entry.is_large()).collect();
        let bytes = large.iter().fold(stored_bytes, |bytes, entry| bytes.saturating_add(entry.kept_bytes()));
        let large = large.into_iter().map(|entry| entry.number).collect();
        let (mut paths, mut moved) = (Vec::new(), Vec::new());
        for change in entries.iter().flat_map(|stored| &stored.entry.changes) {
            if let FileChange::Rename { from, to } = change {
                moved.extend([hash(from), hash(to)]);
                paths.extend(from.parents().map(|path| hash(&path)));
            }
            let Some(path) = change.path() else { continue };
            paths.push(hash(path));
            paths.extend(path.parents().map(|path| hash(&path)));
        }
        for hashes in [&mut paths, &mut moved] {
            hashes.sort_unstable();
            hashes.dedup();
        }
        Self { first, until, bytes, large, paths, moved }
    }

    /// Whether the block may have changed this path, a file under it, or a directory above it by a rename.
    pub(crate) fn may_concern(&self, path: &StorePath) -> bool {
        let is_moved = |path: &StorePath| self.moved.binary_search(&hash(path)).is_ok();
        self.paths.binary_search(&hash(path)).is_ok() || is_moved(path) || path.parents().any(|above| is_moved(&above))
    }

    /// Whether the index knows what an entry of the block changed.
    pub(crate) fn has(&self, entry: &Entry) -> bool {
        let mut paths = entry.changes.iter().flat_map(FileChange::paths);
        entry.is_large() == self.large.contains(&entry.number) && paths.all(|path| self.may_concern(path))
    }
}

/// The first bytes of the SHA-256 of a path.
fn hash(path: &StorePath) -> u32 {
    let digest = Sha256::digest(path.as_str());
    u32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]])
}

pub(crate) fn parse_lines<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<Vec<T>, StoreError> {
    bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(parse_line).collect()
}

/// A record with a line for each value.
pub(crate) fn to_lines(values: &[impl Serialize]) -> Result<Vec<u8>, StoreError> {
    Ok(values.iter().map(line).collect::<Result<Vec<_>, _>>()?.concat())
}

/// The operation in errors.
pub(crate) const READING: &str = "reading the history";

/// The advice about damage that [`History::repair`](crate::History::repair) mends.
pub(crate) const REPAIR_IT: &str = "repair the history, as `memory-tool verify --repair` does";

pub(crate) fn damaged(cause: impl Into<BoxError>) -> StoreError {
    StoreError::failure(ErrorKind::Damaged, READING, cause)
}
