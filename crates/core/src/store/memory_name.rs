//! [`MemoryName`]: the name of a memory in a database.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The maximum length of a memory name in bytes.
pub const MAX_MEMORY_NAME_BYTES: usize = 255;

/// The name of one of several memories in a database, such as the name of a user or a project. Default: `default`.
///
/// A name has 1 to [`MAX_MEMORY_NAME_BYTES`] bytes without control characters. Names are compared byte by byte: case
/// matters, and `/`, `%`, `_` and quotes have no special meaning.
///
/// ```
/// use memory_tool_core::MemoryName;
///
/// assert_eq!("user/42".parse::<MemoryName>()?.as_str(), "user/42");
/// assert!("".parse::<MemoryName>().is_err());
/// # Ok::<(), memory_tool_core::MemoryNameError>(())
/// ```
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct MemoryName(Arc<str>);

impl MemoryName {
    /// Parses a name.
    ///
    /// # Errors
    /// [`MemoryNameError`] if the text is not a valid name.
    pub fn parse(name: &str) -> Result<Self, MemoryNameError> {
        if name.is_empty() {
            return Err(MemoryNameError::Empty);
        }
        if name.len() > MAX_MEMORY_NAME_BYTES {
            return Err(MemoryNameError::TooLong { length: name.len() });
        }
        match name.chars().find(|character| character.is_control()) {
            Some(character) => Err(MemoryNameError::ControlCharacter { character }),
            None => Ok(Self(Arc::from(name))),
        }
    }

    /// The name as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for MemoryName {
    fn default() -> Self {
        Self(Arc::from("default"))
    }
}

impl fmt::Display for MemoryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for MemoryName {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl FromStr for MemoryName {
    type Err = MemoryNameError;

    fn from_str(name: &str) -> Result<Self, MemoryNameError> {
        Self::parse(name)
    }
}

/// The rule that an invalid memory name breaks.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryNameError {
    /// The name is empty.
    #[error("the name of a memory must not be empty")]
    Empty,
    /// The name is longer than [`MAX_MEMORY_NAME_BYTES`].
    #[error("the name of a memory has {length} bytes; the limit is {MAX_MEMORY_NAME_BYTES}")]
    TooLong {
        /// The length in bytes.
        length: usize,
    },
    /// The name contains a control character.
    #[error("the name of a memory contains the control character {}", character.escape_default())]
    ControlCharacter {
        /// The first control character.
        character: char,
    },
}
