//! [`RecordName`]: the name of a record, which a wrapper keeps in a store outside `/memories`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The maximum length of a record name in bytes.
pub const MAX_RECORD_NAME_BYTES: usize = 512;

/// The name of a record: metadata that a wrapper keeps in its inner store, such as the access times of files.
///
/// Records are stored outside `/memories`. They have no [`MemoryPath`](crate::MemoryPath), are not listed, and do not
/// count towards quotas. One [`Batch`](crate::Batch) can change files and records together.
///
/// A name is one or more segments separated by slashes, and the first segment is the name of the wrapper. A segment
/// consists of `a` to `z`, `0` to `9`, `-`, `_` and `.`, and does not start with a dot. Every backend supports such
/// names.
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

/// An invalid record name.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "invalid record name `{name}`: use up to {MAX_RECORD_NAME_BYTES} bytes of a-z, 0-9, `-`, `_` and `.`, in segments \
     that are separated by `/`, are not empty and do not start with a dot"
)]
#[non_exhaustive]
pub struct InvalidRecordName {
    /// The invalid name, escaped.
    pub name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsing_refuses_names_that_some_backend_does_not_support() {
        for name in ["", "/", "a/", "/a", "a//b", ".", "..", "a/../b", ".a", "A", "a b", "a\\b", "é", "a\0"] {
            assert!(name.parse::<RecordName>().is_err(), "{name:?}");
        }
        assert!("a".repeat(MAX_RECORD_NAME_BYTES + 1).parse::<RecordName>().is_err());
        for name in ["a", "a/b", "a.b/c-d_e/0", &"a".repeat(MAX_RECORD_NAME_BYTES)] {
            assert_eq!(name.parse::<RecordName>().unwrap().as_str(), name);
        }
    }
}
