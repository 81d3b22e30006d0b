//! [`Actor`]: the user, service or job that makes a change.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// The maximum length of an actor name in bytes.
pub const MAX_ACTOR_BYTES: usize = 256;

/// The characters of a [reason](Actor::because) that are kept.
const MAX_REASON: usize = 500;

/// The user, service or job that makes a change, for logs. Its name must come from a trusted source, not from the
/// model.
///
/// A name is 1 to [`MAX_ACTOR_BYTES`] bytes of any characters except control characters, and is not blank. It is in
/// every log, so prefer an account id to the name of a person.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Actor {
    name: Arc<str>,
    request: Option<Arc<str>>,
    reason: Option<Arc<str>>,
}

impl Actor {
    /// Creates an actor.
    ///
    /// Take the name from a trusted source, such as the user of an authenticated request, and never from the model.
    ///
    /// # Errors
    /// Returns [`ActorError`] if the name is empty or invalid.
    ///
    /// ```
    /// use memory_tool_core::{Actor, ActorError};
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
        Ok(Self { name: Arc::from(name), request: None, reason: None })
    }

    /// The actor in a request with this id, which the audit log records. It must come from a trusted source, as the
    /// name.
    #[must_use]
    pub fn in_request(self, id: &str) -> Self {
        Self { request: Some(Arc::from(id)), ..self }
    }

    /// The id of the request, if there is one.
    pub fn request(&self) -> Option<&str> {
        self.request.as_deref()
    }

    /// The actor with the reason for a change, which a history keeps: one line of at most 500 characters.
    ///
    /// ```
    /// use memory_tool_core::Actor;
    ///
    /// let actor = Actor::from_trusted_name("ada")?.because("the customer\nasked for it ");
    /// assert_eq!(actor.reason(), Some("the customer asked for it"));
    /// # Ok::<(), memory_tool_core::ActorError>(())
    /// ```
    #[must_use]
    pub fn because(self, reason: &str) -> Self {
        let reason: String = reason.trim().replace(char::is_control, " ").chars().take(MAX_REASON).collect();
        Self { reason: (!reason.is_empty()).then(|| reason.into()), ..self }
    }

    /// The reason, if there is one.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// The different reasons of several actors in one line.
    pub fn reasons<'a>(actors: impl IntoIterator<Item = &'a Self>) -> Option<String> {
        let reasons: BTreeSet<_> = actors.into_iter().filter_map(Self::reason).collect();
        (!reasons.is_empty()).then(|| reasons.into_iter().collect::<Vec<_>>().join("; "))
    }

    /// The name that was passed to [`from_trusted_name`](Self::from_trusted_name).
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// An invalid name for an [`Actor`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ActorError {
    /// The name is empty or blank.
    #[error("actor name must not be empty")]
    Empty,
    /// The name is longer than [`MAX_ACTOR_BYTES`].
    #[error("actor name is {length} bytes long; the limit is {MAX_ACTOR_BYTES}")]
    TooLong {
        /// The length of the name in bytes.
        length: usize,
    },
    /// The name contains a control character, such as the line feed at the end of a file.
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
    fn an_empty_or_invalid_name_is_rejected() {
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
