//! [`Entry`]: one change of the memory, for people and in its stored form.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use memory_tool_core::StorePath;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::hex::{Hash, Hex, Id};

/// One change of the memory: a batch that changed files.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Entry {
    /// The number. The first entry of a memory is 1, and no number is left out.
    pub number: u64,
    /// The identity. After a memory was restored, cleared or made again, another entry can have the same number.
    pub id: Id,
    /// The identity of the entry before, or of the history.
    pub(crate) after: Id,
    /// The time by the clock of the machine that made the change, to the millisecond.
    #[serde(with = "milliseconds")]
    pub time: SystemTime,
    /// The [actor](memory_tool_core::Actor) of the change, if it was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// The actors who [wrote](memory_tool_core::Batch::written_by) the change, if another one agreed to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub authors: Vec<String>,
    /// The [reason](memory_tool_core::Batch::reason) of the change, if it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The command of the tool, if one made the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The cause of the change.
    #[serde(default, skip_serializing_if = "Origin::is_edit")]
    pub origin: Origin,
    /// The changes of files, in the order of the batch.
    pub changes: Vec<FileChange>,
    /// Whether changes were [redacted](crate::History::redact): the list has them as [`FileChange::Redacted`]. An
    /// empty list means that the entry was damaged or missing, so that its changes are not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_redacted: bool,
}

/// Names an entry by its number, and by its identity if another entry may have the number now. Displayed and parsed as
/// `{number}` or `{number}-{id}`.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub struct EntryRef {
    /// The number.
    pub number: u64,
    /// The identity. `None` names any entry with the number.
    pub id: Option<Id>,
}

impl EntryRef {
    /// Names the entry with this number and identity.
    pub fn with_id(number: u64, id: Id) -> Self {
        Self { number, id: Some(id) }
    }
}

impl From<u64> for EntryRef {
    fn from(number: u64) -> Self {
        Self { number, id: None }
    }
}

impl From<&u64> for EntryRef {
    fn from(number: &u64) -> Self {
        Self::from(*number)
    }
}

impl From<&Entry> for EntryRef {
    fn from(entry: &Entry) -> Self {
        Self { number: entry.number, id: Some(entry.id) }
    }
}

impl fmt::Display for EntryRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id {
            Some(id) => write!(f, "{}-{id}", self.number),
            None => write!(f, "{}", self.number),
        }
    }
}

/// The text does not name an entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("not the number of an entry")]
#[non_exhaustive]
pub struct InvalidEntryRef;

impl FromStr for EntryRef {
    type Err = InvalidEntryRef;

    fn from_str(text: &str) -> Result<Self, InvalidEntryRef> {
        let (number, id) = text.split_once('-').map_or((text, None), |(number, id)| (number, Some(id)));
        let id = id.map(|id| Id::try_from(id.to_owned()).map_err(|_| InvalidEntryRef)).transpose()?;
        Ok(Self { number: number.parse().map_err(|_| InvalidEntryRef)?, id })
    }
}

impl Entry {
    /// The command of a batch that writes a new file and removes another one, which moves the file with new contents.
    pub const MOVE: &'static str = "api_update";

    /// The old path of a file that the entry [moved](Self::MOVE) with new contents.
    pub(crate) fn moved_from(&self) -> Option<&StorePath> {
        match self.changes.as_slice() {
            [FileChange::Write { before: None, .. }, FileChange::Remove { path, .. }] if self.is_move() => Some(path),
            _ => None,
        }
    }

    /// The path before the entry, if it affects `path` or a file under it.
    pub(crate) fn follow(&self, path: &StorePath) -> Option<StorePath> {
        if let Some(from) = self.moved_from().filter(|_| self.changes.first().and_then(FileChange::path) == Some(path))
        {
            return Some(from.clone());
        }
        self.changes.iter().find_map(|change| change.follow(path))
    }

    /// Whether a change belongs to the one before it, and is not a separate version.
    pub(crate) fn is_part_of_move(&self, index: usize) -> bool {
        let writes =
            matches!(self.changes.first(), Some(FileChange::Write { before: None, .. } | FileChange::Redacted { .. }));
        index == 1 && self.changes.len() == 2 && writes && self.is_move()
    }

    fn is_move(&self) -> bool {
        self.command.as_deref() == Some(Self::MOVE)
    }

    /// The command or the cause in words, such as `str_replace` and `undo of entry 3`.
    pub fn action(&self) -> String {
        match (&self.origin, &self.command) {
            (Origin::Edit, Some(command)) => command.clone(),
            (Origin::Edit, None) => "by a program".to_owned(),
            (Origin::Undo(entries) | Origin::Revert(entries), _) => format!("undo of {}", Self::numbers(entries)),
            (Origin::Redo(entry), _) => format!("redo of entry {entry}"),
            (Origin::Restore(entry), _) => format!("restore of the state after entry {entry}"),
            (Origin::Redaction(entries), _) if entries.is_empty() => "redaction of present files".to_owned(),
            (Origin::Redaction(entries), _) => format!("redaction of {}", Self::numbers(entries)),
        }
    }

    /// The numbers of entries in words: `entry 3`, `entries 3, 4`.
    pub fn numbers(entries: &[u64]) -> String {
        let listed = entries.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        format!("{} {listed}", if entries.len() == 1 { "entry" } else { "entries" })
    }

    pub(crate) fn without_changes(&self) -> Self {
        let (actor, reason, command) = (self.actor.clone(), self.reason.clone(), self.command.clone());
        let Self { number, id, after, time, ref origin, is_redacted, .. } = *self;
        let (authors, origin, changes) = (self.authors.clone(), origin.clone(), Vec::new());
        Self { number, id, after, time, actor, authors, reason, command, origin, changes, is_redacted }
    }

    /// The total size of the kept contents.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.kept().fold(0, |bytes, kept| bytes.saturating_add(kept.digest.size))
    }

    /// The kept contents, in the order of the changes.
    pub(crate) fn kept(&self) -> impl Iterator<Item = KeptContents> {
        self.changes.iter().filter_map(|change| change.before()?.digest).scan(0, |end: &mut u64, digest| {
            let offset = *end;
            *end = offset.saturating_add(digest.size);
            Some(KeptContents { digest, offset })
        })
    }
}

/// The position of kept contents among those of their entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct KeptContents {
    pub(crate) digest: Digest,
    offset: u64,
}

impl KeptContents {
    /// Finds them in the contents of the entry. `None` if these have changed.
    pub(crate) fn of<'a>(&self, contents: &'a [u8]) -> Option<&'a [u8]> {
        let start = usize::try_from(self.offset).ok()?;
        let kept = contents.get(start..start.checked_add(usize::try_from(self.digest.size).ok()?)?)?;
        (Digest::of(kept) == self.digest).then_some(kept)
    }
}

/// The cause of an [`Entry`].
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A command, or a program.
    #[default]
    Edit,
    /// [`History::undo`](crate::History::undo) of these entries, newest first.
    Undo(Vec<u64>),
    /// [`History::redo`](crate::History::redo) of this undo.
    Redo(u64),
    /// [`History::revert`](crate::History::revert) of these entries, newest first.
    Revert(Vec<u64>),
    /// [`History::restore`](crate::History::restore) to the state after this entry.
    Restore(u64),
    /// [`History::redact`](crate::History::redact) of these entries.
    Redaction(Vec<u64>),
}

impl Origin {
    fn is_edit(&self) -> bool {
        *self == Self::Edit
    }
}

/// The effect of a change on a file.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// The file was created.
    Created,
    /// The contents or the path were changed.
    Modified,
    /// The file was removed.
    Deleted,
}

/// A change of a file or directory in an [`Entry`].
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case", tag = "change")]
pub enum FileChange {
    /// The file was created, or its contents were replaced.
    #[non_exhaustive]
    Write {
        /// The path.
        path: StorePath,
        /// The contents before. `None` if the file was created.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<Kept>,
        /// The contents after.
        after: Digest,
    },
    /// The file was removed, alone or with its directory.
    #[non_exhaustive]
    Remove {
        /// The path.
        path: StorePath,
        /// The contents before.
        before: Kept,
    },
    /// The file or directory was renamed.
    #[non_exhaustive]
    Rename {
        /// The old path.
        from: StorePath,
        /// The new path.
        to: StorePath,
    },
    /// The change was [redacted](crate::History::redact).
    #[non_exhaustive]
    Redacted {
        /// The [identities](crate::FileVersion::file) of the changed files.
        files: Vec<Id>,
        /// The effect.
        operation: Operation,
        /// Whether the files were renamed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_rename: bool,
        /// The number of the entry of the redaction.
        by: u64,
        /// The contents before. An earlier change wrote them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<Kept>,
    },
}

impl FileChange {
    /// The path after the change, or the removed path. `None` if it was redacted.
    pub fn path(&self) -> Option<&StorePath> {
        match self {
            Self::Write { path, .. } | Self::Remove { path, .. } | Self::Rename { to: path, .. } => Some(path),
            Self::Redacted { .. } => None,
        }
    }

    /// The change in words, such as `created a.md`, with the names of paths.
    pub fn in_words(&self, name: impl Fn(&StorePath) -> String) -> String {
        match self {
            Self::Write { path, before: None, .. } => format!("created {}", name(path)),
            Self::Write { path, .. } => format!("changed {}", name(path)),
            Self::Remove { path, .. } => format!("deleted {}", name(path)),
            Self::Rename { from, to } => format!("renamed {} to {}", name(from), name(to)),
            Self::Redacted { .. } => "a change that was erased".to_owned(),
        }
    }

    /// All paths of the change.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &StorePath> {
        let from = if let Self::Rename { from, .. } = self { Some(from) } else { None };
        from.into_iter().chain(self.path())
    }

    /// The contents that the change replaced or removed.
    pub fn before(&self) -> Option<&Kept> {
        match self {
            Self::Write { before, .. } | Self::Redacted { before, .. } => before.as_ref(),
            Self::Remove { before, .. } => Some(before),
            Self::Rename { .. } => None,
        }
    }

    /// Whether it has a path, or contents before the change.
    pub(crate) fn keeps_something(&self) -> bool {
        self.path().is_some() || self.before().is_some_and(|before| before.digest.is_some())
    }

    /// Removes the contents before the change.
    pub(crate) fn forget_before(&mut self) {
        match self {
            Self::Write { before: Some(before), .. }
            | Self::Redacted { before: Some(before), .. }
            | Self::Remove { before, .. } => before.digest = None,
            Self::Write { before: None, .. } | Self::Redacted { before: None, .. } | Self::Rename { .. } => {}
        }
    }

    /// The path before the change, if the change affects `path` or a file under it.
    fn follow(&self, path: &StorePath) -> Option<StorePath> {
        match self {
            Self::Write { path: changed, .. } | Self::Remove { path: changed, .. } => {
                (changed == path || changed.is_under(path)).then(|| path.clone())
            }
            // An old path has the length of a path that existed, so that it is legal.
            Self::Rename { from, to } if to == path || path.is_under(to) => path.replace_prefix(to, from).ok(),
            Self::Rename { from, to } => (from.overlaps(path) || to.is_under(path)).then(|| path.clone()),
            Self::Redacted { .. } => None,
        }
    }
}

/// Contents that a change replaced or removed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Kept {
    /// The size and SHA-256. `None` if the contents are not kept, because they could not be read or had expired.
    #[serde(flatten)]
    pub digest: Option<Digest>,
}

/// The size and SHA-256 of contents.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Digest {
    /// The size in bytes.
    pub size: u64,
    /// The SHA-256 of the bytes.
    pub sha256: Hash,
}

impl Digest {
    /// The digest of these contents.
    pub fn of(content: &[u8]) -> Self {
        Self { size: content.len() as u64, sha256: Hex::new(Sha256::digest(content).into()) }
    }
}

/// A time in milliseconds since 1970.
pub(crate) fn millis(time: SystemTime) -> u64 {
    let since_1970 = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since_1970.as_millis().try_into().unwrap_or(u64::MAX)
}

/// A time as a stored entry has it.
pub(crate) fn to_the_millisecond(time: SystemTime) -> SystemTime {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(millis(time))).unwrap_or(time)
}

pub(crate) mod milliseconds {
    use serde::{Deserializer, Serializer};

    use super::*;

    /// RFC 3339 has no later years.
    const YEAR_10_000: Duration = Duration::from_secs(253_402_300_800);

    pub(crate) fn serialize<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(millis(*time))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SystemTime, D::Error> {
        let since_1970 =
            Some(Duration::from_millis(u64::deserialize(deserializer)?)).filter(|time| *time < YEAR_10_000);
        let time = since_1970.and_then(|time| SystemTime::UNIX_EPOCH.checked_add(time));
        time.ok_or_else(|| serde::de::Error::custom("a time after the year 9999"))
    }
}
