//! [`MemoryName`]: which of the memories in a file.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The longest name of a memory in bytes.
pub const MAX_MEMORY_NAME_BYTES: usize = 255;

/// The name of one memory among those in a database file, such as the name of a user or a project. Default: `default`.
///
/// A name is 1 to [`MAX_MEMORY_NAME_BYTES`] bytes of any characters but control characters. It is compared byte by byte:
/// case matters, and `/`, `%`, `_` and quotes stand for themselves.
///
/// The column of the database that holds it is called `store`: a new name for the column would be a new file format.
///
/// ```
/// use memory_tool_sqlite::MemoryName;
///
/// assert_eq!("user/42".parse::<MemoryName>()?.as_str(), "user/42");
/// assert!("".parse::<MemoryName>().is_err());
/// # Ok::<(), memory_tool_sqlite::MemoryNameError>(())
/// ```
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct MemoryName(Arc<str>);

impl MemoryName {
    /// Parses a name.
    ///
    /// # Errors
    /// [`MemoryNameError`] says which rule it breaks.
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

    /// The name as it was given.
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

/// Why a text is not a [`MemoryName`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryNameError {
    /// It is empty.
    #[error("the name of a memory must not be empty")]
    Empty,
    /// It is longer than [`MAX_MEMORY_NAME_BYTES`].
    #[error("the name of a memory has {length} bytes; the limit is {MAX_MEMORY_NAME_BYTES}")]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// It holds a control character.
    #[error("the name of a memory contains the control character {}", character.escape_default())]
    ControlCharacter {
        /// The first such character.
        character: char,
    },
}
