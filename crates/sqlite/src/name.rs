//! [`StoreName`]: which of the memories in a file.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The longest name of a store in bytes.
pub const MAX_STORE_NAME_BYTES: usize = 255;

/// The name of one memory among those in a database file, such as the name of a user or a project. Default: `default`.
///
/// A name is 1 to [`MAX_STORE_NAME_BYTES`] bytes of any characters but control characters. It is compared byte by byte:
/// case matters, and `/`, `%`, `_` and quotes stand for themselves.
///
/// ```
/// use memory_tool_sqlite::StoreName;
///
/// assert_eq!("user/42".parse::<StoreName>()?.as_str(), "user/42");
/// assert!("".parse::<StoreName>().is_err());
/// # Ok::<(), memory_tool_sqlite::StoreNameError>(())
/// ```
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct StoreName(Arc<str>);

impl StoreName {
    /// Parses a name.
    ///
    /// # Errors
    /// [`StoreNameError`] says which rule it breaks.
    pub fn parse(name: &str) -> Result<Self, StoreNameError> {
        if name.is_empty() {
            return Err(StoreNameError::Empty);
        }
        if name.len() > MAX_STORE_NAME_BYTES {
            return Err(StoreNameError::TooLong { length: name.len() });
        }
        match name.chars().find(|character| character.is_control()) {
            Some(character) => Err(StoreNameError::ControlCharacter { character }),
            None => Ok(Self(Arc::from(name))),
        }
    }

    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for StoreName {
    fn default() -> Self {
        Self(Arc::from("default"))
    }
}

impl fmt::Display for StoreName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for StoreName {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl FromStr for StoreName {
    type Err = StoreNameError;

    fn from_str(name: &str) -> Result<Self, StoreNameError> {
        Self::parse(name)
    }
}

/// Why a text is not a [`StoreName`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreNameError {
    /// It is empty.
    #[error("the name of a store must not be empty")]
    Empty,
    /// It is longer than [`MAX_STORE_NAME_BYTES`].
    #[error("the name of a store has {length} bytes, and may have up to {MAX_STORE_NAME_BYTES}")]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// It holds a control character.
    #[error("the name of a store contains the control character {}", character.escape_default())]
    ControlCharacter {
        /// The first such character.
        character: char,
    },
}
