//! [`MemoryPath`]: a path beneath `/memories`, parsed once and never checked again.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use percent_encoding::percent_decode;
use serde::{Deserialize, Serialize};
use unicode_normalization::is_nfc;

use crate::quote::{MAX_QUOTED_BYTES, escape_unprintable, is_unprintable, quote};

const ROOT: &str = "/memories";

/// The longest path in bytes, `/memories` included (`[P2]`).
pub const MAX_PATH_BYTES: usize = 1_024;
/// The longest segment (one name between slashes) in bytes (`[P2]`).
pub const MAX_SEGMENT_BYTES: usize = 255;

const _: () = assert!(MAX_PATH_BYTES <= MAX_QUOTED_BYTES, "an error quotes a legal path whole");

/// A path of the memory tool in its canonical form: `/memories`, or `/memories/` and one or more names.
///
/// A value of this type is proof that the rules `[P1]`, `[P2]` and `[P3]` hold: it lies beneath `/memories`, has no `..`, `.`
/// or empty segment, no backslash, no [unprintable](is_unprintable) character and no percent-encoded traversal, is in Unicode
/// normalization form C, and keeps within [`MAX_PATH_BYTES`] and [`MAX_SEGMENT_BYTES`]. So a
/// [segment](Self::segments) never leaves its directory and never hides a character. A backend must still cope with names
/// that its own system refuses ([`FailureKind::UnsupportedName`](crate::FailureKind::UnsupportedName)) or takes for one
/// another, as file systems that ignore case do.
///
/// Paths are ordered by their segments, each compared byte by byte: a directory comes right before all that is beneath
/// it, and siblings come in the order of a listing (`[V1]`).
///
/// ```
/// use memory_tool_core::MemoryPath;
///
/// let path: MemoryPath = "/memories/projects/".parse()?;
/// assert_eq!(path.as_str(), "/memories/projects");
/// assert!("/memories/../etc/passwd".parse::<MemoryPath>().is_err());
/// assert!("/memoriesX".parse::<MemoryPath>().is_err());
/// # Ok::<(), memory_tool_core::PathError>(())
/// ```
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct MemoryPath(Arc<str>);

impl MemoryPath {
    /// The directory `/memories`, which always exists (`[P5]`).
    pub fn root() -> Self {
        Self(Arc::from(ROOT))
    }

    /// Parses what the model sent.
    ///
    /// # Errors
    /// [`PathError`] says which rule of `[P1]`, `[P2]` or `[P3]` the path breaks.
    pub fn parse(given: &str) -> Result<Self, PathError> {
        let canonical = given.strip_suffix('/').unwrap_or(given);
        let names = beneath_root(given, canonical)?;
        refuse_traversal(given, canonical)?;
        for name in names {
            check_segment(given, name)?;
        }
        if !canonical.is_ascii() && !is_nfc(canonical) {
            return Err(PathError::NotNormalized { path: escape_unprintable(given) });
        }
        Ok(Self(Arc::from(canonical)))
    }

    /// The canonical spelling, as replies echo it (`[P3]`).
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is `/memories` itself.
    pub fn is_root(&self) -> bool {
        &*self.0 == ROOT
    }

    /// The names beneath `/memories`, outermost first; none for the root.
    pub fn segments(&self) -> impl DoubleEndedIterator<Item = &str> + Clone {
        self.0[ROOT.len()..].strip_prefix('/').into_iter().flat_map(split_names)
    }

    /// The number of segments: 0 for the root.
    pub(crate) fn depth(&self) -> u64 {
        self.segments().count() as u64
    }

    /// The last segment; `None` for the root.
    pub fn file_name(&self) -> Option<&str> {
        self.segments().next_back()
    }

    /// The directory that holds this path; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        let end = self.0.rfind('/')?;
        Some(Self(Arc::from(&self.0[..end])))
    }

    /// Every directory above this path, the nearest first, `/memories` last; none for the root.
    pub fn parents(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(self.parent(), Self::parent)
    }

    /// The path that consists of the first `length` bytes of this one, up to a slash or to the end.
    pub(crate) fn truncated(&self, length: usize) -> Self {
        if length == self.0.len() { self.clone() } else { Self(Arc::from(&self.0[..length])) }
    }

    /// The path of the entry `name` in this directory.
    ///
    /// # Errors
    /// [`PathError`] where `name` is not a legal segment or the whole would be too long.
    pub fn child(&self, name: &str) -> Result<Self, PathError> {
        let joined = format!("{}/{name}", self.0);
        if name.contains('/') {
            return Err(PathError::NotASegment { name: quote(name) });
        }
        if name.is_empty() {
            return Err(PathError::EmptySegment { path: escape_unprintable(&joined) });
        }
        Self::parse(&joined)
    }

    /// Whether this path lies strictly beneath `directory`.
    pub fn is_under(&self, directory: &Self) -> bool {
        self.0.strip_prefix(&*directory.0).is_some_and(|rest| rest.starts_with('/'))
    }

    /// Whether the two are equal or one lies beneath the other.
    pub fn overlaps(&self, other: &Self) -> bool {
        self == other || self.is_under(other) || other.is_under(self)
    }

    /// Where this path ends up when the directory or file `from`, which it equals or lies beneath, is renamed to `to`.
    /// A path that is not touched by that rename comes back unchanged.
    ///
    /// # Errors
    /// [`PathError::TooLong`] where the new path would pass [`MAX_PATH_BYTES`].
    pub fn replace_prefix(&self, from: &Self, to: &Self) -> Result<Self, PathError> {
        if self != from && !self.is_under(from) {
            return Ok(self.clone());
        }
        let moved = format!("{}{}", to.0, &self.0[from.0.len()..]);
        refuse_too_long(&moved)?;
        Ok(Self(Arc::from(moved)))
    }
}

impl Ord for MemoryPath {
    fn cmp(&self, other: &Self) -> Ordering {
        self.segments().cmp(other.segments())
    }
}

impl PartialOrd for MemoryPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for MemoryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for MemoryPath {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl FromStr for MemoryPath {
    type Err = PathError;

    fn from_str(given: &str) -> Result<Self, PathError> {
        Self::parse(given)
    }
}

impl TryFrom<String> for MemoryPath {
    type Error = PathError;

    fn try_from(given: String) -> Result<Self, PathError> {
        Self::parse(&given)
    }
}

impl TryFrom<&str> for MemoryPath {
    type Error = PathError;

    fn try_from(given: &str) -> Result<Self, PathError> {
        Self::parse(given)
    }
}

impl TryFrom<&String> for MemoryPath {
    type Error = PathError;

    fn try_from(given: &String) -> Result<Self, PathError> {
        Self::parse(given)
    }
}

/// Cheap: the text is shared.
impl From<&MemoryPath> for MemoryPath {
    fn from(path: &MemoryPath) -> Self {
        path.clone()
    }
}

impl From<MemoryPath> for String {
    fn from(path: MemoryPath) -> Self {
        path.as_str().to_owned()
    }
}

/// The rule that a path breaks. Its `Display` is safe to show to the model; the path in it is as it was given, with
/// unprintable characters escaped.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The path is the empty string (`[P2]`).
    #[error("Path must not be empty. Paths start with /memories.")]
    Empty,
    /// The path is neither `/memories` nor beneath it (`[P1]`).
    #[error("Path must start with /memories, got: {path}")]
    OutsideMemories {
        /// The path as it was given.
        path: String,
    },
    /// The path holds `..`, a backslash or a percent-encoded traversal (`[P2]`).
    #[error("Path {path} would escape /memories directory")]
    Traversal {
        /// The path as it was given.
        path: String,
    },
    /// The path holds a `.` segment (`[P2]`).
    #[error("Path {path} contains a `.` segment. Remove it.")]
    DotSegment {
        /// The path as it was given.
        path: String,
    },
    /// The path holds two slashes in a row (`[P3]`).
    #[error("Path {path} contains an empty segment. Use a single slash between names.")]
    EmptySegment {
        /// The path as it was given.
        path: String,
    },
    /// A name that a program gave for one segment holds a slash.
    #[error("The name {name} contains a slash")]
    NotASegment {
        /// The name as it was given.
        name: String,
    },
    /// The path holds a character that [`is_unprintable`] (`[P2]`).
    #[error("Path {path} contains the unprintable character {character}. Remove it.")]
    UnprintableCharacter {
        /// The path as it was given, escaped.
        path: String,
        /// The character, such as `U+202E`.
        character: String,
    },
    /// The path is not in Unicode normalization form C (`[P2]`).
    #[error("Path {path} is not in Unicode Normalization Form C (NFC). Use precomposed accented characters.")]
    NotNormalized {
        /// The path as it was given.
        path: String,
    },
    /// A segment is longer than [`MAX_SEGMENT_BYTES`] (`[P2]`).
    #[error("Path {path} contains a name of {length} bytes. A name may have up to {MAX_SEGMENT_BYTES} bytes.")]
    SegmentTooLong {
        /// The path as it was given.
        path: String,
        /// The segment's length in bytes.
        length: usize,
    },
    /// The path is longer than [`MAX_PATH_BYTES`] (`[P2]`).
    #[error("Path {path} has {length} bytes. A path may have up to {MAX_PATH_BYTES} bytes.")]
    TooLong {
        /// The beginning of the path.
        path: String,
        /// The path's length in bytes.
        length: usize,
    },
}

/// What is between the slashes. The array makes it a plain loop over the characters: the search for a single character is made
/// for long texts, and takes longer for names.
pub(crate) fn split_names(path: &str) -> impl DoubleEndedIterator<Item = &str> + Clone {
    path.split(['/'])
}

/// The names of a path that starts as `[P1]` wants it.
fn beneath_root<'a>(given: &str, canonical: &'a str) -> Result<impl Iterator<Item = &'a str> + use<'a>, PathError> {
    if given.is_empty() {
        return Err(PathError::Empty);
    }
    match canonical.strip_prefix(ROOT) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => Ok(split_names(rest).skip(1)),
        _ => Err(PathError::OutsideMemories { path: quote(given) }),
    }
}

fn refuse_traversal(given: &str, canonical: &str) -> Result<(), PathError> {
    let traversal = || PathError::Traversal { path: quote(given) };
    if canonical.contains('\\') || canonical.contains("/../") || canonical.ends_with("/..") {
        return Err(traversal());
    }
    refuse_too_long(canonical)?; // before the decoding below, whose cost grows with the square of the length
    if has_encoded_traversal(canonical) {
        return Err(traversal());
    }
    Ok(())
}

fn refuse_too_long(canonical: &str) -> Result<(), PathError> {
    if canonical.len() > MAX_PATH_BYTES {
        return Err(PathError::TooLong { path: quote(canonical), length: canonical.len() });
    }
    Ok(())
}

/// Whether decoding, once or again and again, turns an escape into `.`, `/` or `\`.
fn has_encoded_traversal(path: &str) -> bool {
    if !path.contains('%') {
        return false;
    }
    let dangerous = |bytes: &[u8]| bytes.iter().filter(|byte| matches!(byte, b'.' | b'/' | b'\\')).count();
    let mut current = path.as_bytes().to_vec();
    loop {
        // None of the three is a hexadecimal digit, so decoding never consumes one: a higher count means a decoded one.
        let decoded: Vec<u8> = percent_decode(&current).collect();
        if dangerous(&decoded) > dangerous(&current) {
            return true;
        }
        if decoded.len() == current.len() {
            return false;
        }
        current = decoded;
    }
}

fn check_segment(given: &str, segment: &str) -> Result<(), PathError> {
    let path = || escape_unprintable(given);
    if segment.is_empty() {
        return Err(PathError::EmptySegment { path: path() });
    }
    if segment == "." {
        return Err(PathError::DotSegment { path: path() });
    }
    if let Some(character) = segment.chars().find(|&character| is_unprintable(character)) {
        let character = format!("U+{:04X}", u32::from(character));
        return Err(PathError::UnprintableCharacter { path: path(), character });
    }
    if segment.len() > MAX_SEGMENT_BYTES {
        return Err(PathError::SegmentTooLong { path: path(), length: segment.len() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> MemoryPath {
        MemoryPath::parse(text).unwrap()
    }

    #[test]
    fn a_directory_is_followed_by_its_contents_and_then_by_its_siblings() {
        let mut paths = ["/memories/a.txt", "/memories/a/b", "/memories/a", "/memories/a-b", "/memories"].map(path);
        paths.sort();
        let sorted: Vec<_> = paths.iter().map(MemoryPath::as_str).collect();
        assert_eq!(sorted, ["/memories", "/memories/a", "/memories/a/b", "/memories/a-b", "/memories/a.txt"]);
    }

    #[test]
    fn a_path_knows_its_place() {
        let deep = path("/memories/a/b/c.txt");
        assert_eq!(deep.segments().collect::<Vec<_>>(), ["a", "b", "c.txt"]);
        assert_eq!(deep.file_name(), Some("c.txt"));
        assert_eq!(deep.parent(), Some(path("/memories/a/b")));
        assert_eq!(deep.truncated("/memories/a/b".len()), path("/memories/a/b"));
        assert_eq!(deep.truncated(deep.as_str().len()), deep);
        assert_eq!(deep.parents().last(), Some(MemoryPath::root()));
        assert!(deep.is_under(&path("/memories/a")));
        assert!(!path("/memories/ab").is_under(&path("/memories/a")));
        assert_eq!(MemoryPath::root().parent(), None);
        assert_eq!(MemoryPath::root().file_name(), None);
    }

    #[test]
    fn a_rename_may_not_make_a_path_too_long() {
        let file = path(&format!("/memories/a/{}", "x".repeat(200)));
        let (from, to) = (path("/memories/a"), path("/memories/b/c"));
        assert_eq!(file.replace_prefix(&from, &to).unwrap(), path(&format!("/memories/b/c/{}", "x".repeat(200))));
        let long = path(&format!("/memories{}", format!("/{}", "y".repeat(200)).repeat(5)));
        assert!(matches!(file.replace_prefix(&from, &long), Err(PathError::TooLong { .. })));
    }

    #[test]
    fn two_dots_are_a_traversal_where_they_are_a_whole_name() {
        for escaping in ["..", "../", "..//", "/..", "a/..", "a/../b", "../../b", "a/../\u{1}"] {
            let parsed = MemoryPath::parse(&format!("/memories/{escaping}"));
            assert!(matches!(parsed, Err(PathError::Traversal { .. })), "{escaping}: {parsed:?}");
        }
        for harmless in ["...", "..a", "a..", "a../b", "a/..b", "a/b..c"] {
            assert!(MemoryPath::parse(&format!("/memories/{harmless}")).is_ok(), "{harmless}");
        }
    }

    #[test]
    fn traversal_is_found_at_any_depth_of_encoding() {
        for encoded in ["%2e", "%2E", "%2f", "%5C", "%252e", "%25252F", "%25%32%65", "%%32%65"] {
            assert!(has_encoded_traversal(encoded), "{encoded}");
        }
        for harmless in ["100%", "100%.txt", "%41", "%2", "%zz", "%25", "a%20b"] {
            assert!(!has_encoded_traversal(harmless), "{harmless}");
        }
    }

    #[test]
    fn a_hidden_character_is_named() {
        for (name, escaped, character) in [
            ("❤\u{fe0f}.md", "❤\\u{fe0f}.md", "U+FE0F"),
            ("a\u{3164}", "a\\u{3164}", "U+3164"),
            ("a\u{e0100}", "a\\u{e0100}", "U+E0100"),
            ("a\n", "a\\n", "U+000A"),
        ] {
            let error = MemoryPath::parse(&format!("/memories/{name}")).unwrap_err().to_string();
            let expected = "contains the unprintable character";
            assert_eq!(error, format!("Path /memories/{escaped} {expected} {character}. Remove it."));
        }
        assert!(MemoryPath::parse("/memories/❤.md").is_ok());
    }

    #[test]
    fn an_endless_path_is_refused_with_a_short_message() {
        let huge = format!("/elsewhere/{}", "é".repeat(1_000_000));
        assert!(MemoryPath::parse(&huge).unwrap_err().to_string().len() < 2 * MAX_PATH_BYTES);
    }
}
