//! [`Entry`]: one change of the memory, for people and in its stored form.

use std::fmt;
use std::time::{Duration, SystemTime};

use memory_tool_core::StorePath;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// One change of the memory: a batch that changed files.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Entry {
    /// The number. The first entry of a memory is 1, and no number is left out.
    pub number: u64,
    /// The time by the clock of the machine that made the change, to the millisecond.
    #[serde(with = "milliseconds")]
    pub time: SystemTime,
    /// The [actor](memory_tool_core::Actor) of the change, if it was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// The command of the tool, if one made the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The cause of the change.
    #[serde(default, skip_serializing_if = "Origin::is_edit")]
    pub origin: Origin,
    /// The changes of files, in the order of the batch.
    pub changes: Vec<FileChange>,
    /// Whether changes were [redacted](crate::History::redact). Then the list is empty, or has them as
    /// [`FileChange::Redacted`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_redacted: bool,
}

impl Entry {
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
    /// The change was [redacted](crate::History::redact_change).
    #[non_exhaustive]
    Redacted {
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

    /// The contents that the change replaced or removed.
    pub fn before(&self) -> Option<&Kept> {
        match self {
            Self::Write { before, .. } | Self::Redacted { before } => before.as_ref(),
            Self::Remove { before, .. } => Some(before),
            Self::Rename { .. } => None,
        }
    }

    /// Removes the contents before the change.
    pub(crate) fn forget_before(&mut self) {
        match self {
            Self::Write { before: Some(before), .. }
            | Self::Redacted { before: Some(before) }
            | Self::Remove { before, .. } => before.digest = None,
            Self::Write { before: None, .. } | Self::Redacted { before: None } | Self::Rename { .. } => {}
        }
    }

    /// The path before the change, if the change affects `path` or a file under it.
    pub(crate) fn follow(&self, path: &StorePath) -> Option<StorePath> {
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
    pub(crate) fn of(content: &[u8]) -> Self {
        Self { size: content.len() as u64, sha256: Hash(Sha256::digest(content).into()) }
    }
}

/// A SHA-256 hash, displayed in hexadecimal.
#[derive(Clone, Copy, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hash([u8; 32]);

impl Hash {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Hash> for String {
    fn from(hash: Hash) -> Self {
        hash.to_string()
    }
}

impl TryFrom<String> for Hash {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        const NOT_A_HASH: &str = "not a SHA-256 in hexadecimal";
        let digits = text.as_bytes();
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return Err(NOT_A_HASH);
        }
        let value = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8).ok_or(NOT_A_HASH);
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = value(pair[0])? << 4 | value(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

/// A time in milliseconds since 1970.
pub(crate) fn millis(time: SystemTime) -> u64 {
    let since_1970 = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since_1970.as_millis().try_into().unwrap_or(u64::MAX)
}

mod milliseconds {
    use serde::{Deserializer, Serializer};

    use super::*;

    /// RFC 3339 has no later years.
    const YEAR_10_000: Duration = Duration::from_secs(253_402_300_800);

    pub(super) fn serialize<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(millis(*time))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SystemTime, D::Error> {
        let since_1970 =
            Some(Duration::from_millis(u64::deserialize(deserializer)?)).filter(|time| *time < YEAR_10_000);
        let time = since_1970.and_then(|time| SystemTime::UNIX_EPOCH.checked_add(time));
        time.ok_or_else(|| serde::de::Error::custom("a time after the year 9999"))
    }
}
