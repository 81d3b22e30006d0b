//! [`Id`]: distinguishes a write from all others on all machines.

use std::fmt;

use memory_tool_core::{fill_random, random_number};
use serde::{Deserialize, Serialize};

const DIGITS: usize = 32;

/// A random number of 128 bits, written in hexadecimal.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Deserialize, Serialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct Id(u128);

impl Id {
    pub(crate) fn random() -> Result<Self, std::io::Error> {
        let mut bytes = [0; size_of::<u128>()];
        fill_random(&mut bytes)?;
        Ok(Self(u128::from_be_bytes(bytes)))
    }

    /// A random id that begins with a session.
    pub(crate) fn of_session(session: u64) -> Result<Self, std::io::Error> {
        Ok(Self(u128::from(session) << 64 | u128::from(random_number()?)))
    }

    /// The session with which the id begins.
    pub(crate) fn session(self) -> u64 {
        (self.0 >> 64) as u64
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0DIGITS$x}", self.0)
    }
}

/// The text is not an id.
#[derive(Debug, thiserror::Error)]
#[error("an id has {DIGITS} hexadecimal digits in lower case")]
pub(crate) struct NotAnId;

impl TryFrom<String> for Id {
    type Error = NotAnId;

    fn try_from(text: String) -> Result<Self, NotAnId> {
        let id = u128::from_str_radix(&text, 16).map(Self).map_err(|_| NotAnId)?;
        if id.to_string() == text { Ok(id) } else { Err(NotAnId) }
    }
}

impl From<Id> for String {
    fn from(id: Id) -> Self {
        id.to_string()
    }
}
