//! [`Actor`]: who is recorded.

use std::fmt;
use std::sync::Arc;

/// The longest name of an actor in bytes.
pub const MAX_ACTOR_BYTES: usize = 256;

/// Who is answerable for a change: a user, a service or a job, from a source that the model has no part in.
///
/// A name is 1 to [`MAX_ACTOR_BYTES`] bytes of any characters but control characters, and is not blank. It is in every record, so
/// a name that stands for a person, such as the id of an account, is better than what it stands for.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Actor(Arc<str>);

impl Actor {
    /// The actor of that name.
    ///
    /// The name must be one that the program vouches for, such as the user of an authenticated request. Nothing that the model
    /// wrote may come in here.
    ///
    /// # Errors
    /// [`ActorError`] says which rule the name breaks.
    ///
    /// ```
    /// use memory_tool_policies::{Actor, ActorError};
    ///
    /// assert_eq!(Actor::from_trusted_name("user/42")?.name(), "user/42");
    /// assert_eq!(Actor::from_trusted_name(""), Err(ActorError::Empty));
    /// # Ok::<(), ActorError>(())
    /// ```
    pub fn from_trusted_name(name: &str) -> Result<Self, ActorError> {
        if name.trim().is_empty() {
            return Err(ActorError::Empty);
        }
        if name.len() > MAX_ACTOR_BYTES {
            return Err(ActorError::TooLong { length: name.len() });
        }
        if let Some(character) = name.chars().find(|character| character.is_control()) {
            return Err(ActorError::ControlCharacter { character });
        }
        Ok(Self(Arc::from(name)))
    }

    /// The name as it was given.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a text is not the name of an [`Actor`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ActorError {
    /// It is empty or blank: the name is missing.
    #[error("actor name must not be empty")]
    Empty,
    /// It is longer than [`MAX_ACTOR_BYTES`].
    #[error("actor name is {length} bytes long; the limit is {MAX_ACTOR_BYTES}")]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// It holds a control character, such as the line feed at the end of a file.
    #[error("actor name contains the control character {}", character.escape_default())]
    ControlCharacter {
        /// The first such character.
        character: char,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_missing_or_a_mistake_is_refused() {
        for blank in ["", " ", "\n", "\u{3000}\t"] {
            assert_eq!(Actor::from_trusted_name(blank), Err(ActorError::Empty), "{blank:?}");
        }
        let line_feed = ActorError::ControlCharacter { character: '\n' };
        assert_eq!(Actor::from_trusted_name("alice\n"), Err(line_feed));
        assert!(Actor::from_trusted_name(&"a".repeat(MAX_ACTOR_BYTES)).is_ok());
        let refused = Actor::from_trusted_name(&"a".repeat(MAX_ACTOR_BYTES + 1));
        assert_eq!(refused, Err(ActorError::TooLong { length: MAX_ACTOR_BYTES + 1 }));
    }
}
