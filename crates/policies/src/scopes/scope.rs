//! [`Scope`]: whose memory it is.

use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;

use memory_tool_core::MemoryPath;

/// The longest name of a scope in bytes.
pub const MAX_SCOPE_NAME_BYTES: usize = 80;

/// What the directory of every scope begins with, so that none has a name that a system reserves, such as `con`.
const DIRECTORY_PREFIX: &str = "scope-";

/// Whose memory it is: the name of a tenant, a user or a project, from a source that the model has no part in.
///
/// A name is 1 to [`MAX_SCOPE_NAME_BYTES`] bytes of any characters but control characters, without white space at either
/// end. It is compared byte by byte: case matters, and `/`, `..`, `%` and quotes stand for themselves.
///
/// There is one way to make a scope, and it says what it asks of you. A scope is nothing that a program gets by leaving
/// something out, or by reading it from what was sent:
///
/// ```compile_fail,E0599
/// let scope = memory_tool_policies::Scope::default();
/// ```
/// ```compile_fail,E0277
/// let scope: memory_tool_policies::Scope = serde_json::from_str("\"alice\"")?;
/// # Ok::<(), serde_json::Error>(())
/// ```
/// ```compile_fail,E0277
/// let scope = memory_tool_policies::Scope::from("alice".to_owned());
/// ```
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Scope {
    name: Arc<str>,
    directory: MemoryPath,
}

impl Scope {
    /// The scope of that name.
    ///
    /// The name must be one that the program vouches for, such as the user of an authenticated request: whoever chooses it
    /// chooses whose memory is read and changed. Nothing that the model wrote may come in here.
    ///
    /// # Errors
    /// [`ScopeError`] says which rule the name breaks. An empty name stands for no scope, least of all for a shared one.
    ///
    /// ```
    /// use memory_tool_policies::{Scope, ScopeError};
    ///
    /// assert_eq!(Scope::from_trusted_name("user/42")?.name(), "user/42");
    /// assert_eq!(Scope::from_trusted_name(""), Err(ScopeError::Empty));
    /// # Ok::<(), ScopeError>(())
    /// ```
    pub fn from_trusted_name(name: &str) -> Result<Self, ScopeError> {
        let too_long = || ScopeError::TooLong { length: name.len() };
        if name.trim().is_empty() {
            return Err(ScopeError::Empty);
        }
        if name.len() > MAX_SCOPE_NAME_BYTES {
            return Err(too_long());
        }
        if let Some(character) = name.chars().find(|character| character.is_control()) {
            return Err(ScopeError::ControlCharacter { character });
        }
        if name.trim() != name {
            return Err(ScopeError::SurroundingWhiteSpace);
        }
        // Its length is the only thing about an encoded name that could be illegal, and the limit above is made for it.
        let directory = MemoryPath::root().child(&encode(name)).map_err(|_| too_long())?;
        Ok(Self { name: Arc::from(name), directory })
    }

    /// The name as it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The directory of the inner store in which a [`ScopedStore`](crate::ScopedStore) keeps the files of this scope, for
    /// whoever copies or removes all that a tenant has. It stays the same in later versions.
    ///
    /// It is `scope-` and the name, in which `a` to `z`, `0` to `9` and `-` stand for themselves and every other byte is an
    /// underscore and two hexadecimal digits. So different names have different directories, neither of which lies in the
    /// other, also where a file system takes upper case for lower or normalizes Unicode.
    ///
    /// ```
    /// use memory_tool_policies::Scope;
    ///
    /// let scope = Scope::from_trusted_name("Zoë")?;
    /// assert_eq!(scope.directory().as_str(), "/memories/scope-_5ao_c3_ab");
    /// # Ok::<(), memory_tool_policies::ScopeError>(())
    /// ```
    pub fn directory(&self) -> &MemoryPath {
        &self.directory
    }
}

/// The name, for the operator. The model never reads it.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

fn encode(name: &str) -> String {
    let mut encoded = DIRECTORY_PREFIX.to_owned();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' => encoded.push(char::from(byte)),
            // Writing to a string does not fail.
            _ => _ = write!(encoded, "_{byte:02x}"),
        }
    }
    encoded
}

/// Why a text is not the name of a [`Scope`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScopeError {
    /// It is empty or blank: the name is missing.
    #[error("scope name must not be empty")]
    Empty,
    /// It is longer than [`MAX_SCOPE_NAME_BYTES`].
    #[error("scope name is {length} bytes long; the limit is {MAX_SCOPE_NAME_BYTES}")]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// It holds a control character, such as the line feed at the end of a file.
    #[error("scope name contains the control character {}", character.escape_default())]
    ControlCharacter {
        /// The first such character.
        character: char,
    },
    /// It starts or ends with white space, which would silently be another scope than the name without it.
    #[error("scope name must not start or end with white space")]
    SurroundingWhiteSpace,
}

#[cfg(test)]
mod tests {
    use memory_tool_core::MAX_SEGMENT_BYTES;

    use super::*;

    #[test]
    fn the_longest_name_fits_whatever_it_consists_of() {
        for character in ["a", "A", "é", "語", "𝄞"] {
            let name = character.repeat(MAX_SCOPE_NAME_BYTES / character.len());
            let scope = Scope::from_trusted_name(&name).unwrap();
            assert!(scope.directory().file_name().unwrap().len() <= MAX_SEGMENT_BYTES);
        }
        let refused = Scope::from_trusted_name(&"a".repeat(MAX_SCOPE_NAME_BYTES + 1));
        assert_eq!(refused, Err(ScopeError::TooLong { length: MAX_SCOPE_NAME_BYTES + 1 }));
    }

    #[test]
    fn a_name_that_is_missing_or_a_mistake_is_refused() {
        for blank in ["", " ", "\n", "\u{3000}\t"] {
            assert_eq!(Scope::from_trusted_name(blank), Err(ScopeError::Empty), "{blank:?}");
        }
        assert_eq!(Scope::from_trusted_name(" alice"), Err(ScopeError::SurroundingWhiteSpace));
        let line_feed = ScopeError::ControlCharacter { character: '\n' };
        assert_eq!(Scope::from_trusted_name("alice\n"), Err(line_feed));
    }
}
