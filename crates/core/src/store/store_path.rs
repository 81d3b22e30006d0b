//! [`StorePath`]: the path of a file or record in a store.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::store::path_rules::{
    MAX_SEGMENT_BYTES, MEMORIES, PathError, check_names, check_path, refuse_too_long, split_names,
};
use crate::store::quote::quote;

const RECORDS: &str = "/records";

/// The path of a file in a [`Store`](crate::Store), under one of two roots:
///
/// - `/memories` contains the files of the memory. Claude and programs address them by [`MemoryPath`].
/// - `/records` contains records: files that a wrapper keeps in its inner store, such as the access times of files.
///   The first name after the root is the name of the wrapper.
///
/// The names in a path under `/memories` follow the rules of [`MemoryPath`]. The names in a path under `/records`
/// consist of `a` to `z`, `0` to `9`, `-`, `_` and `.`, and do not start with a dot. Every backend supports such names.
///
/// Paths are ordered by root, then by segment, and segments by byte. A directory sorts right before its contents, and
/// siblings sort in the order of a listing (`[V1]`).
///
/// A backend must still handle names that its system rejects
/// ([`ErrorKind::UnsupportedName`](crate::ErrorKind::UnsupportedName)) or treats as equal, such as on
/// case-insensitive file systems.
///
/// ```
/// use memory_tool_core::{MemoryPath, StorePath};
///
/// let record: StorePath = "/records/expiry/access-times".parse()?;
/// assert!(record.is_record());
/// assert!(MemoryPath::try_from(record).is_err());
/// assert!("/records/../journal".parse::<StorePath>().is_err());
/// assert_eq!("/memories/a.txt".parse::<StorePath>()?, MemoryPath::parse("/memories/a.txt")?);
/// # Ok::<(), memory_tool_core::PathError>(())
/// ```
///
/// [`MemoryPath`]: crate::MemoryPath
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct StorePath(Arc<str>);

impl StorePath {
    /// The directory `/memories`, which always exists (`[P5]`).
    pub fn memories() -> Self {
        Self::from_checked(MEMORIES)
    }

    /// The directory `/records`, which always exists.
    pub fn records() -> Self {
        Self::from_checked(RECORDS)
    }

    /// The caller checked the path.
    pub(crate) fn from_checked(path: &str) -> Self {
        Self(Arc::from(path))
    }

    /// The canonical form, which replies contain (`[P3]`).
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is `/memories` or `/records`.
    pub fn is_root(&self) -> bool {
        self.below_root().is_empty()
    }

    /// Whether this is `/records` or under it.
    pub fn is_record(&self) -> bool {
        self.0.starts_with(RECORDS)
    }

    /// The root of this path: `/memories` or `/records`.
    pub fn root_above(&self) -> Self {
        if self.is_record() { Self::records() } else { Self::memories() }
    }

    /// The text after the root, which is empty or begins with a slash.
    fn below_root(&self) -> &str {
        &self.0[if self.is_record() { RECORDS.len() } else { MEMORIES.len() }..]
    }

    /// The names after the root, from left to right. A root has no segments.
    pub fn segments(&self) -> impl DoubleEndedIterator<Item = &str> + Clone {
        self.below_root().strip_prefix('/').into_iter().flat_map(split_names)
    }

    /// The number of segments, which is 0 for a root.
    pub(crate) fn depth(&self) -> u64 {
        self.segments().count() as u64
    }

    /// The last segment, or `None` for a root.
    pub fn file_name(&self) -> Option<&str> {
        self.segments().next_back()
    }

    /// The directory that contains this path, or `None` for a root.
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        let end = self.0.rfind('/')?;
        Some(Self::from_checked(&self.0[..end]))
    }

    /// The directories above this path, from [`parent`](Self::parent) to the root. A root has no parents.
    pub fn parents(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(self.parent(), Self::parent)
    }

    /// The first `length` bytes of this path, which must end before a slash or at the end of the path.
    pub(crate) fn truncated(&self, length: usize) -> Self {
        if length == self.0.len() { self.clone() } else { Self::from_checked(&self.0[..length]) }
    }

    /// Appends a single name to this path.
    ///
    /// # Errors
    /// [`PathError`] if `name` is not a legal segment or the new path is too long.
    pub fn join(&self, name: &str) -> Result<Self, PathError> {
        if name.contains('/') {
            return Err(PathError::NotASegment { name: quote(name) });
        }
        let joined = [self.as_str(), "/", name].concat();
        if self.is_record() {
            check_record_names(&joined, std::iter::once(name))?;
        } else {
            check_names(&joined, &joined, std::iter::once(name))?;
        }
        Ok(Self(Arc::from(joined)))
    }

    /// Whether this path is inside `directory`. A path is not inside itself.
    pub fn is_under(&self, directory: &Self) -> bool {
        self.0.strip_prefix(&*directory.0).is_some_and(|rest| rest.starts_with('/'))
    }

    /// Whether the paths are equal or nested.
    pub fn overlaps(&self, other: &Self) -> bool {
        self == other || self.is_under(other) || other.is_under(self)
    }

    /// The new path after `from` is renamed to `to`, which has the same root. A path that is neither `from` nor inside
    /// it is returned unchanged.
    ///
    /// # Errors
    /// [`PathError::TooLong`] if the new path is longer than [`MAX_PATH_BYTES`](crate::MAX_PATH_BYTES).
    pub fn replace_prefix(&self, from: &Self, to: &Self) -> Result<Self, PathError> {
        if self != from && !self.is_under(from) {
            return Ok(self.clone());
        }
        let moved = format!("{}{}", to.0, &self.0[from.0.len()..]);
        refuse_too_long(&moved)?;
        Ok(Self(Arc::from(moved)))
    }
}

fn check_record_names<'a>(path: &str, mut names: impl Iterator<Item = &'a str>) -> Result<(), PathError> {
    refuse_too_long(path)?;
    if names.all(is_record_name) { Ok(()) } else { Err(PathError::NotARecord { path: quote(path) }) }
}

fn is_record_name(name: &str) -> bool {
    let is_legal = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.');
    (1..=MAX_SEGMENT_BYTES).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(is_legal)
}

impl Ord for StorePath {
    fn cmp(&self, other: &Self) -> Ordering {
        // A slash sorts before every byte of a name, because no name contains a control character.
        let ranks = |path| str::bytes(path).map(|byte| if byte == b'/' { 0 } else { byte });
        let roots = self.is_record().cmp(&other.is_record());
        roots.then_with(|| ranks(self.below_root()).cmp(ranks(other.below_root())))
    }
}

impl PartialOrd for StorePath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for StorePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for StorePath {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl FromStr for StorePath {
    type Err = PathError;

    fn from_str(given: &str) -> Result<Self, PathError> {
        match given.strip_prefix(RECORDS) {
            Some(below) if below.is_empty() || below.starts_with('/') => {
                check_record_names(given, split_names(below).skip(1))?;
                Ok(Self::from_checked(given))
            }
            _ => Ok(Self::from_checked(check_path(given)?)),
        }
    }
}

impl TryFrom<String> for StorePath {
    type Error = PathError;

    fn try_from(given: String) -> Result<Self, PathError> {
        given.parse()
    }
}

/// Clones the path, which is cheap.
impl From<&StorePath> for StorePath {
    fn from(path: &StorePath) -> Self {
        path.clone()
    }
}

impl From<StorePath> for String {
    fn from(path: StorePath) -> Self {
        path.as_str().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> StorePath {
        text.parse().unwrap()
    }

    #[test]
    fn parsing_refuses_records_that_some_backend_does_not_support() {
        for name in ["", "/", "a/", "/a", "a//b", ".", "..", "a/../b", ".a", "A", "a b", "a\\b", "é", "a\0"] {
            assert!(format!("/records/{name}").parse::<StorePath>().is_err(), "{name:?}");
        }
        assert!(StorePath::records().join(&"a".repeat(MAX_SEGMENT_BYTES + 1)).is_err());
        for name in ["a", "a/b", "a.b/c-d_e/0", &"a".repeat(MAX_SEGMENT_BYTES)] {
            assert_eq!(path(&format!("/records/{name}")).as_str(), format!("/records/{name}"));
        }
        assert!("/recordsX".parse::<StorePath>().is_err());
        assert_eq!(path("/records"), StorePath::records());
    }

    #[test]
    fn records_sort_after_files_and_are_under_their_own_root() {
        let mut sorted = ["/records/a", "/memories/z/a", "/records", "/memories", "/memories/z"].map(path);
        sorted.sort();
        assert_eq!(sorted.map(String::from), ["/memories", "/memories/z", "/memories/z/a", "/records", "/records/a"]);
        let record = path("/records/a/b");
        assert_eq!(record.segments().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(record.parents().collect::<Vec<_>>(), [path("/records/a"), StorePath::records()]);
        assert!(record.is_under(&StorePath::records()) && !record.is_under(&StorePath::memories()));
        assert_eq!(record.replace_prefix(&path("/records/a"), &path("/records/c")).unwrap(), path("/records/c/b"));
    }
}
