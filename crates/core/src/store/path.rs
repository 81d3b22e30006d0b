//! [`MemoryPath`]: a validated path under `/memories`.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::store::path_rules::{PathError, check_path};
use crate::store::store_path::StorePath;

/// A validated path in canonical form: `/memories`, or `/memories/` followed by one or more names.
///
/// Every `MemoryPath` follows the rules `[P1]`, `[P2]` and `[P3]`:
///
/// - It is `/memories` or under it.
/// - It contains no `..`, `.` or empty segment, no backslash, no percent-encoded traversal and no
///   [unprintable] character.
/// - It is in Unicode Normalization Form C.
/// - It has at most [`MAX_PATH_BYTES`] bytes, and each segment has at most [`MAX_SEGMENT_BYTES`] bytes.
///
/// It is a [`StorePath`] that is not the path of a record, and has all of its methods.
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
///
/// [unprintable]: crate::is_unprintable
/// [`MAX_PATH_BYTES`]: crate::MAX_PATH_BYTES
/// [`MAX_SEGMENT_BYTES`]: crate::MAX_SEGMENT_BYTES
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct MemoryPath(StorePath);

impl MemoryPath {
    /// The directory `/memories`, which always exists (`[P5]`).
    pub fn root() -> Self {
        Self(StorePath::memories())
    }

    /// Parses and validates a path.
    ///
    /// # Errors
    /// The rule of `[P1]`, `[P2]` or `[P3]` that the path violates.
    pub fn parse(given: &str) -> Result<Self, PathError> {
        Ok(Self(StorePath::from_checked(check_path(given)?)))
    }

    /// The directory that contains this path, or `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        self.0.parent().map(Self)
    }

    /// The directories above this path, from [`parent`](Self::parent) to `/memories`. The root has no parents.
    pub fn parents(&self) -> impl Iterator<Item = Self> {
        self.0.parents().map(Self)
    }

    /// The first `length` bytes of this path, which must end before a slash or at the end of the path.
    pub(crate) fn truncated(&self, length: usize) -> Self {
        Self(self.0.truncated(length))
    }

    /// Appends a single name to this path.
    ///
    /// # Errors
    /// [`PathError`] if `name` is not a legal segment or the new path is too long.
    pub fn join(&self, name: &str) -> Result<Self, PathError> {
        self.0.join(name).map(Self)
    }

    /// The new path after `from` is renamed to `to`. A path that is neither `from` nor inside it is returned unchanged.
    ///
    /// # Errors
    /// [`PathError::TooLong`] if the new path is longer than [`MAX_PATH_BYTES`](crate::MAX_PATH_BYTES).
    pub fn replace_prefix(&self, from: &Self, to: &Self) -> Result<Self, PathError> {
        self.0.replace_prefix(from, to).map(Self)
    }
}

/// A `MemoryPath` is an immutable `StorePath` of one root, so a reference to its `StorePath` breaks no rule.
impl Deref for MemoryPath {
    type Target = StorePath;

    fn deref(&self) -> &StorePath {
        &self.0
    }
}

impl PartialEq<StorePath> for MemoryPath {
    fn eq(&self, other: &StorePath) -> bool {
        self.0 == *other
    }
}

impl PartialEq<MemoryPath> for StorePath {
    fn eq(&self, other: &MemoryPath) -> bool {
        *self == other.0
    }
}

impl fmt::Debug for MemoryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemoryPath").field(&self.as_str()).finish()
    }
}

impl fmt::Display for MemoryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
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

/// The path of a record is [`PathError::OutsideMemories`].
impl TryFrom<StorePath> for MemoryPath {
    type Error = PathError;

    fn try_from(path: StorePath) -> Result<Self, PathError> {
        if path.is_record() { Err(PathError::OutsideMemories { path: path.to_string() }) } else { Ok(Self(path)) }
    }
}

impl TryFrom<&StorePath> for MemoryPath {
    type Error = PathError;

    fn try_from(path: &StorePath) -> Result<Self, PathError> {
        path.clone().try_into()
    }
}

impl From<MemoryPath> for StorePath {
    fn from(path: MemoryPath) -> Self {
        path.0
    }
}

/// Clones the path, which is cheap.
impl From<&MemoryPath> for StorePath {
    fn from(path: &MemoryPath) -> Self {
        path.0.clone()
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

/// Clones the path, which is cheap.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::path_rules::{MAX_PATH_BYTES, MAX_SEGMENT_BYTES};

    fn path(text: &str) -> MemoryPath {
        MemoryPath::parse(text).unwrap()
    }

    #[test]
    fn a_directory_sorts_before_its_contents_and_both_before_its_siblings() {
        let mut paths = ["/memories/a.txt", "/memories/a/b", "/memories/a", "/memories/a-b", "/memories"].map(path);
        paths.sort();
        let sorted: Vec<_> = paths.iter().map(|path| path.as_str()).collect();
        assert_eq!(sorted, ["/memories", "/memories/a", "/memories/a/b", "/memories/a-b", "/memories/a.txt"]);
    }

    #[test]
    fn paths_are_ordered_by_their_segments() {
        let names = [" ", "!", "-", "-a", ".", ".a", "0", "a", "a ", "a!", "a-", "a.", "aa", "é", "日"];
        let legal = |path: String| MemoryPath::parse(&path).ok();
        let below = |path: &str| names.map(|name| format!("{path}/{name}"));
        let outer = below("/memories").into_iter().filter(|path| !path.ends_with("/."));
        let paths: Vec<_> = outer.flat_map(|path| [vec![path.clone()], below(&path).to_vec()].concat()).collect();
        let paths: Vec<_> = paths.into_iter().chain(["/memories".to_owned()]).filter_map(legal).collect();
        assert!(paths.len() > 200);
        for left in &paths {
            for right in &paths {
                assert_eq!(left.cmp(right), left.segments().cmp(right.segments()), "{left} {right}");
            }
        }
    }

    #[test]
    fn a_joined_path_is_the_parsed_path() {
        let long = "x".repeat(MAX_SEGMENT_BYTES);
        let directories = [
            "/memories".to_owned(),
            "/memories/100%/a".to_owned(),
            "/memories/a%2".to_owned(),
            "/memories/é".to_owned(),
            format!("/memories{}", format!("/{long}").repeat(3)),
        ];
        let too_long = format!("{long}x");
        let names = [
            "a", "a b", ".a", "...", "é", "e5", "%41", "100%", &long, // legal, unless the path becomes too long
            ".", "..", "a\\b", "\\", "%2e", "%252F", "a\n", "\u{202e}", "e\u{301}", "\u{301}", &too_long,
        ];
        for directory in directories {
            for name in names {
                let joined = path(&directory).join(name);
                assert_eq!(joined, MemoryPath::parse(&format!("{directory}/{name}")), "{directory} {name}");
            }
            assert!(matches!(path(&directory).join(""), Err(PathError::EmptySegment { .. })));
            assert!(matches!(path(&directory).join("a/b"), Err(PathError::NotASegment { .. })));
        }
    }

    #[test]
    fn segments_and_parents_of_a_path() {
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
    fn replace_prefix_refuses_a_path_that_is_too_long() {
        let file = path(&format!("/memories/a/{}", "x".repeat(200)));
        let (from, to) = (path("/memories/a"), path("/memories/b/c"));
        assert_eq!(file.replace_prefix(&from, &to).unwrap(), path(&format!("/memories/b/c/{}", "x".repeat(200))));
        let long = path(&format!("/memories{}", format!("/{}", "y".repeat(200)).repeat(5)));
        assert!(matches!(file.replace_prefix(&from, &long), Err(PathError::TooLong { .. })));
    }

    #[test]
    fn a_segment_of_two_dots_is_a_traversal() {
        for escaping in ["..", "../", "..//", "/..", "a/..", "a/../b", "../../b", "a/../\u{1}"] {
            let parsed = MemoryPath::parse(&format!("/memories/{escaping}"));
            assert!(matches!(parsed, Err(PathError::Traversal { .. })), "{escaping}: {parsed:?}");
        }
        for harmless in ["...", "..a", "a..", "a../b", "a/..b", "a/b..c"] {
            assert!(MemoryPath::parse(&format!("/memories/{harmless}")).is_ok(), "{harmless}");
        }
    }

    #[test]
    fn the_error_names_the_unprintable_character() {
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
    fn the_error_for_a_huge_path_is_short() {
        let huge = format!("/elsewhere/{}", "é".repeat(1_000_000));
        assert!(MemoryPath::parse(&huge).unwrap_err().to_string().len() < 2 * MAX_PATH_BYTES);
    }
}
