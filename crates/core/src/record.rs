//! [`RecordName`]: names what a wrapper keeps in a store, outside of `/memories`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The longest name of a record in bytes.
pub const MAX_RECORD_NAME_BYTES: usize = 512;

/// The name of a record: bytes that a store over a store keeps in the inner one for itself, such as the access times of files.
///
/// Records lie outside of `/memories`: no [`MemoryPath`](crate::MemoryPath) names one, no listing has one and no quota counts
/// one. They change in the same [`Batch`](crate::Batch) as the files.
///
/// A name is one or more segments with slashes between them. The first names the wrapper. A segment consists of `a` to `z`, `0` to
/// `9`, `-`, `_` and `.`, and does not start with a dot, so that every backend can hold it.
///
/// ```
/// use memory_tool_core::RecordName;
///
/// let name: RecordName = "expiry/access-times".parse()?;
/// assert_eq!(name.as_str(), "expiry/access-times");
/// assert!("../journal".parse::<RecordName>().is_err());
/// # Ok::<(), memory_tool_core::InvalidRecordName>(())
/// ```
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(into = "String", try_from = "String")]
pub struct RecordName(Arc<str>);

impl RecordName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RecordName {
    type Err = InvalidRecordName;

    fn from_str(name: &str) -> Result<Self, InvalidRecordName> {
        let is_legal = name.len() <= MAX_RECORD_NAME_BYTES && name.split('/').all(is_segment);
        if is_legal {
            Ok(Self(Arc::from(name)))
        } else {
            Err(InvalidRecordName { name: name.escape_debug().to_string() })
        }
    }
}

fn is_segment(segment: &str) -> bool {
    let is_legal = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.');
    !segment.is_empty() && !segment.starts_with('.') && segment.bytes().all(is_legal)
}

impl TryFrom<String> for RecordName {
    type Error = InvalidRecordName;

    fn try_from(name: String) -> Result<Self, InvalidRecordName> {
        name.parse()
    }
}

impl From<RecordName> for String {
    fn from(name: RecordName) -> Self {
        name.as_str().to_owned()
    }
}

impl fmt::Display for RecordName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text is not the name of a record.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "invalid record name `{name}`: use up to {MAX_RECORD_NAME_BYTES} bytes of a-z, 0-9, `-`, `_` and `.`, in segments that are \
     separated by `/`, are not empty and do not start with a dot"
)]
#[non_exhaustive]
pub struct InvalidRecordName {
    /// The text as it was given, escaped.
    pub name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_a_backend_could_misread_is_refused() {
        for name in ["", "/", "a/", "/a", "a//b", ".", "..", "a/../b", ".a", "A", "a b", "a\\b", "é", "a\0"] {
            assert!(name.parse::<RecordName>().is_err(), "{name:?}");
        }
        assert!("a".repeat(MAX_RECORD_NAME_BYTES + 1).parse::<RecordName>().is_err());
        for name in ["a", "a/b", "a.b/c-d_e/0", &"a".repeat(MAX_RECORD_NAME_BYTES)] {
            assert_eq!(name.parse::<RecordName>().unwrap().as_str(), name);
        }
    }
}
