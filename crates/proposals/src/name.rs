//! [`ProposalName`]: the name of a proposal.

use std::fmt;
use std::str::FromStr;

use memory_tool_core::{Actor, StorePath};
use memory_tool_history::Digest;
use serde::{Deserialize, Serialize};

/// The maximum length of a name in bytes.
pub const MAX_NAME_BYTES: usize = 64;

/// The name of a proposal: 1 to [`MAX_NAME_BYTES`] bytes of `a` to `z`, `0` to `9`, `-`, `_` and `.`, without a dot or
/// hyphen at the start.
///
/// ```
/// use memory_tool_proposals::ProposalName;
///
/// assert_eq!("nightly-2".parse::<ProposalName>()?.as_str(), "nightly-2");
/// assert!("../nightly".parse::<ProposalName>().is_err());
/// # Ok::<(), memory_tool_proposals::InvalidName>(())
/// ```
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProposalName(String);

impl ProposalName {
    /// The name of the proposal in which an actor makes all changes. Other actors have others.
    ///
    /// ```
    /// use memory_tool_core::Actor;
    /// use memory_tool_proposals::ProposalName;
    ///
    /// let name = ProposalName::of_actor(&Actor::from_trusted_name("Agent 7")?);
    /// assert_eq!(name.as_str(), "agent7-887c620eb95d2e8f");
    /// # Ok::<(), memory_tool_core::ActorError>(())
    /// ```
    pub fn of_actor(actor: &Actor) -> Self {
        const LETTERS: usize = 32;
        const DIGITS: usize = 16;
        let name = actor.name();
        name.parse().unwrap_or_else(|_| {
            let letters = name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase());
            let letters: String = letters.take(LETTERS).collect();
            let hash = Digest::of(name.as_bytes()).sha256.to_string();
            Self(format!(
                "{}-{}",
                if letters.is_empty() { "actor" } else { &letters },
                hash.chars().take(DIGITS).collect::<String>()
            ))
        })
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ProposalName {
    type Err = InvalidName;

    fn from_str(name: &str) -> Result<Self, InvalidName> {
        let is_short = name.len() <= MAX_NAME_BYTES && !name.contains('/');
        let is_legal = is_short && !name.starts_with('-') && StorePath::records().join(name).is_ok();
        if is_legal { Ok(Self(name.to_owned())) } else { Err(InvalidName) }
    }
}

impl TryFrom<String> for ProposalName {
    type Error = InvalidName;

    fn try_from(name: String) -> Result<Self, InvalidName> {
        name.parse()
    }
}

impl From<ProposalName> for String {
    fn from(name: ProposalName) -> Self {
        name.0
    }
}

impl fmt::Display for ProposalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An invalid [`ProposalName`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "the name of a proposal is 1 to {MAX_NAME_BYTES} of a-z, 0-9, '-', '_' and '.', and does not start with '.' or '-'"
)]
#[non_exhaustive]
pub struct InvalidName;
