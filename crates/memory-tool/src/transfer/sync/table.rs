//! [`Table`]: the known states of the files of a memory, in a record.
//!
//! | record | contains |
//! | --- | --- |
//! | `/records/sync/files` | a [`Table`] in JSON, compressed |
//! | `/records/sync/texts/{id}` | earlier texts, if the memory has no history: see [`texts`](super::texts) |

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use memory_tool_core::{ErrorKind, FileEntry, StoreError, StorePath};
use memory_tool_history::{Digest, Hash, Id};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The format version. Other versions are neither read nor changed.
const FORMAT: u32 = 1;

/// The states that a file keeps the identities of. A memory with an older state has missed more changes than that, and
/// its state counts as another change, to be merged.
const MAX_KNOWN: usize = 1_000;

/// How long the deletion of a file is known. After that, a memory that was not synchronized for so long brings it back.
const DELETIONS_ARE_KNOWN: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// A file with a later time of modification may be changed once more in the same instant of its clock.
const SETTLES: Duration = Duration::from_secs(3);

/// The longest record that is read. A table has about 250 bytes for each file.
const MAX_BYTES: u64 = 1 << 28;

const READING: &str = "reading the state of a synchronization";

/// The records of synchronizations.
pub(super) fn root() -> StorePath {
    join(&StorePath::records(), "sync")
}

/// The record of the table.
pub(super) fn record() -> StorePath {
    join(&root(), "files")
}

/// The records of earlier texts.
pub(super) fn root_of_texts() -> StorePath {
    join(&root(), "texts")
}

pub(super) fn record_of_texts(id: Id) -> StorePath {
    join(&root_of_texts(), &id.to_string())
}

/// Joins names that are legal in a record.
fn join(path: &StorePath, name: &str) -> StorePath {
    path.join(name).unwrap_or_else(|_| path.clone())
}

/// A path, without its name: a table does not keep the names of deleted files.
pub(super) type Key = Hash;

pub(super) fn key_of(path: &StorePath) -> Key {
    Digest::of(path.as_str().as_bytes()).sha256
}

/// The last known state of each file of a memory.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Table {
    format: u32,
    /// The newest entry of the history when the states were noted.
    #[serde(default)]
    pub(super) entry: Option<(u64, Id)>,
    pub(super) files: BTreeMap<Key, Noted>,
}

/// The last known state of a file.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Noted {
    /// The random identity of this state. Memories in which a file has the same state have the same one.
    pub(super) id: Id,
    /// The identities of the states that were changed to this one, newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) known: Vec<Id>,
    pub(super) state: State,
    /// The last state that another memory has as well, if this memory changed it since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) base: Option<Base>,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    File(NotedFile),
    Deleted {
        /// In milliseconds since 1970.
        at: u64,
        /// The new path of a renamed file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Key>,
    },
}

/// A file at its last read.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct NotedFile {
    #[serde(flatten)]
    pub(super) digest: Digest,
    /// In milliseconds since 1970, as not all stores keep more.
    modified: Option<u64>,
    is_settled: bool,
    /// The record with the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) texts: Option<Id>,
}

/// An earlier state of a file, for a merge.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Base {
    pub(super) id: Id,
    #[serde(flatten)]
    pub(super) digest: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) texts: Option<Id>,
}

impl Table {
    /// # Errors
    /// [`StoreError::Failure`] for a damaged record.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, StoreError> {
        let table: Self = unpack(bytes)?;
        if table.format != FORMAT {
            return Err(StoreError::failure(ErrorKind::Other, READING, "the record has an unknown format"));
        }
        Ok(table)
    }

    /// The table as a record, without deletions that were long ago.
    ///
    /// # Errors
    /// [`StoreError::Failure`] if it cannot be written.
    pub(super) fn next_record(&mut self) -> Result<Vec<u8>, StoreError> {
        let oldest = millis(SystemTime::now()).saturating_sub(DELETIONS_ARE_KNOWN.as_millis() as u64);
        self.files.retain(|_, noted| !matches!(noted.state, State::Deleted { at, .. } if at < oldest));
        self.format = FORMAT;
        pack(self)
    }

    /// Erases what tells something of contents. States keep their identities.
    pub(super) fn erase_contents(&mut self) {
        for noted in self.files.values_mut() {
            noted.texts_mut().for_each(|texts| *texts = None);
            let of_base = noted.base.as_mut().map(|base| &mut base.digest);
            let of_file = match &mut noted.state {
                State::File(file) => Some(&mut file.digest),
                State::Deleted { .. } => None,
            };
            of_base.into_iter().chain(of_file).for_each(|digest| digest.sha256 = Hash::default());
        }
    }

    /// Names another record for texts.
    pub(super) fn replace_texts(&mut self, old: Id, new: Id) {
        for texts in self.files.values_mut().flat_map(Noted::texts_mut).filter(|texts| **texts == Some(old)) {
            *texts = Some(new);
        }
    }

    /// The digests of all texts in a record.
    pub(super) fn digests_in(&self, record: Id) -> impl Iterator<Item = Hash> {
        let of_base = |noted: &Noted| noted.base.as_ref().map(|base| (base.texts, base.digest));
        let of_file = |noted: &Noted| noted.file().map(|file| (file.texts, file.digest));
        let all = self.files.values().flat_map(move |noted| of_base(noted).into_iter().chain(of_file(noted)));
        all.filter(move |(texts, _)| *texts == Some(record)).map(|(_, digest)| digest.sha256)
    }
}

impl Noted {
    fn texts_mut(&mut self) -> impl Iterator<Item = &mut Option<Id>> {
        let of_file = match &mut self.state {
            State::File(file) => Some(&mut file.texts),
            State::Deleted { .. } => None,
        };
        self.base.as_mut().map(|base| &mut base.texts).into_iter().chain(of_file)
    }

    /// The first known state of a file.
    pub(super) fn new(state: State) -> Result<Self, StoreError> {
        Ok(Self { id: Id::random()?, known: Vec::new(), state, base: None })
    }

    /// The state after a change in this memory.
    pub(super) fn changed(&self, state: State) -> Result<Self, StoreError> {
        let base = || {
            let NotedFile { digest, texts, .. } = self.file()?.clone();
            Some(Base { id: self.id, digest, texts })
        };
        let base = self.base.clone().or_else(base);
        Ok(Self { base, state, ..self.with_known([]) }.with_id(Id::random()?))
    }

    /// The same state with another identity.
    pub(super) fn with_id(self, id: Id) -> Self {
        Self { id, ..self }.without_itself()
    }

    /// The state, which was made from others too.
    pub(super) fn with_known<'a>(&self, others: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut known = self.known.clone();
        for other in others {
            known.extend(other.known.iter().chain([&other.id]));
        }
        known.push(self.id);
        let (mut seen, mut unique) = (BTreeSet::new(), known);
        unique.reverse();
        unique.retain(|id| seen.insert(*id));
        unique.truncate(MAX_KNOWN);
        unique.reverse();
        Self { known: unique, ..self.clone() }
    }

    fn without_itself(mut self) -> Self {
        self.known.retain(|id| *id != self.id);
        self
    }

    /// The state, which another memory has as well from now on.
    pub(super) fn agreed(self) -> Self {
        Self { base: None, ..self }.without_itself()
    }

    pub(super) fn file(&self) -> Option<&NotedFile> {
        match &self.state {
            State::File(file) => Some(file),
            State::Deleted { .. } => None,
        }
    }

    /// The new path of a file that was renamed.
    pub(super) fn renamed_to(&self) -> Option<Key> {
        match self.state {
            State::Deleted { to, .. } => to,
            State::File(_) => None,
        }
    }

    /// Whether both were made from the same state.
    pub(super) fn shares_a_state_with(&self, other: &Self) -> bool {
        self.includes(other.id) || other.known.iter().any(|id| self.includes(*id))
    }

    /// Whether this state was made from the other one, or is the same.
    pub(super) fn includes(&self, other: Id) -> bool {
        self.id == other || self.known.contains(&other)
    }
}

impl NotedFile {
    pub(super) fn new(digest: Digest, modified: Option<SystemTime>) -> Self {
        let settled = SystemTime::now().checked_sub(SETTLES);
        let is_settled = modified.zip(settled).is_some_and(|(modified, settled)| modified <= settled);
        Self { digest, modified: modified.map(millis), is_settled, texts: None }
    }

    /// Whether a file with this digest has the noted contents. An erased digest does not tell it, and the listing does.
    pub(super) fn has_same_contents(&self, digest: Digest, entry: &FileEntry) -> bool {
        self.digest == digest || self.is_erased() && self.is_unchanged(entry)
    }

    /// Makes the next look at the memory read the file.
    pub(super) fn unsettle(&mut self) {
        self.is_settled = false;
    }

    /// Whether the digest was erased.
    pub(super) fn is_erased(&self) -> bool {
        self.digest.sha256 == Hash::default()
    }

    /// Whether the listing shows that the file is unchanged.
    pub(super) fn is_unchanged(&self, entry: &FileEntry) -> bool {
        let is_same_time = self.modified.zip(entry.modified.map(millis)).is_some_and(|(noted, listed)| {
            // Buckets keep whole seconds.
            let is_coarse = [noted, listed].iter().any(|millis| millis.is_multiple_of(1_000));
            noted == listed || is_coarse && noted / 1_000 == listed / 1_000
        });
        self.is_settled && self.digest.size == entry.size && is_same_time
    }
}

pub(super) fn deleted(to: Option<Key>) -> State {
    State::Deleted { at: millis(SystemTime::now()), to }
}

fn millis(time: SystemTime) -> u64 {
    u64::try_from(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// Compresses a record.
pub(super) fn pack(value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    let failed = |error| StoreError::failure(ErrorKind::Other, "writing the state of a synchronization", error);
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    let json = serde_json::to_vec(value).map_err(|error| failed(std::io::Error::other(error)))?;
    packed.write_all(&json).map_err(failed)?;
    packed.finish().map_err(failed)
}

pub(super) fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, StoreError> {
    let mut json = Vec::new();
    GzDecoder::new(bytes).take(MAX_BYTES).read_to_end(&mut json).map_err(damaged)?;
    serde_json::from_slice(&json).map_err(damaged)
}

fn damaged(cause: impl Into<memory_tool_core::BoxError>) -> StoreError {
    StoreError::failure(ErrorKind::Damaged, READING, cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_unchanged_if_its_size_and_time_are_as_far_as_a_store_keeps_it() {
        let path: StorePath = "/memories/a".parse().unwrap();
        let at = |millis| UNIX_EPOCH + Duration::from_millis(millis);
        let noted = |time| NotedFile::new(Digest::of(b"text"), Some(time));
        let is_unchanged = |noted: NotedFile, size, time| {
            noted.is_unchanged(&FileEntry::new(path.clone(), size).with_modified(at(time)))
        };
        for (before, size, time, expected) in [
            (5_250, 4, 5_250, true),
            (5_250, 4, 5_000, true),
            (5_250, 4, 5_251, false),
            (5_250, 4, 6_000, false),
            (5_250, 5, 5_250, false),
        ] {
            assert_eq!(is_unchanged(noted(at(before)), size, time), expected, "{before} {size} {time}");
        }
        // It may be changed again at the same time.
        let now = SystemTime::now();
        assert!(!is_unchanged(noted(now), 4, millis(now)));
        assert!(!NotedFile::new(Digest::of(b"text"), None).is_unchanged(&FileEntry::new(path.clone(), 4)));
    }

    #[test]
    fn changes_keep_the_state_that_another_memory_has() {
        let file = |text: &str| State::File(NotedFile::new(Digest::of(text.as_bytes()), None));
        let agreed = Noted::new(file("agreed")).unwrap();
        let twice = agreed.changed(file("once")).unwrap().changed(file("twice")).unwrap();
        assert_eq!(twice.base.as_ref().map(|base| base.id), Some(agreed.id));
        assert!(twice.includes(agreed.id) && !agreed.includes(twice.id));
        assert_eq!(twice.agreed().base, None);
    }
}
