//! The records of a proposal, and their format.
//!
//! | record | contains |
//! | --- | --- |
//! | `/records/proposals/{name}/index` | an [`Index`] in JSON |
//! | `/records/proposals/{name}/texts/{id}` | the contents of a file, if the index does not have them |
//! | `/records/proposals.ended` | an id, which changes when a proposal has nothing left: its absence can come again |

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use memory_tool_core::{Actor, ErrorKind, StoreError, StorePath, Version};
use memory_tool_history::Id;
use serde::{Deserialize, Serialize};

use crate::name::ProposalName;

/// The format version. Other versions are neither read nor changed.
const FORMAT: u32 = 1;

/// Texts are in the index itself until they make it longer than this, because one record is written faster than two.
const MAX_INLINE_BYTES: usize = 64 * 1024;

pub(crate) const READING: &str = "reading a proposal";

/// The records of all proposals.
pub(crate) fn root() -> StorePath {
    join(&StorePath::records(), "proposals")
}

/// The records of a proposal.
pub(crate) fn directory(name: &ProposalName) -> StorePath {
    join(&root(), name.as_str())
}

pub(crate) fn index(name: &ProposalName) -> StorePath {
    join(&directory(name), "index")
}

pub(crate) fn text(name: &ProposalName, id: Id) -> StorePath {
    join(&join(&directory(name), "texts"), &id.to_string())
}

/// Proves that no proposal ended since it was read.
pub(crate) fn ended() -> StorePath {
    join(&StorePath::records(), "proposals.ended")
}

/// A record that never exists. Its read checks preconditions, and reads nothing.
pub(crate) fn nothing(name: &ProposalName) -> StorePath {
    join(&directory(name), "nothing")
}

/// The name of the proposal of an index.
pub(crate) fn name_of(path: &StorePath) -> Option<ProposalName> {
    let name: ProposalName = path.parent()?.file_name()?.parse().ok()?;
    (*path == index(&name)).then_some(name)
}

/// Joins names that are legal in a record.
fn join(path: &StorePath, name: &str) -> StorePath {
    path.join(name).unwrap_or_else(|_| path.clone())
}

/// The changes of a proposal.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Index {
    format: u32,
    /// Each change gives the index another one, and no other index has it.
    pub(crate) revision: Id,
    /// The time of the first change in milliseconds since 1970.
    created: u64,
    pub(crate) files: BTreeMap<StorePath, Proposed>,
}

/// A file that a proposal changes.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Proposed {
    /// The text of the memory that the proposal changes. `None` if there was no file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) base: Option<Text>,
    /// The proposed text. `None` if the file is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<Text>,
    /// The names of the actors of its changes, with their reasons.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) authors: BTreeMap<String, String>,
    /// The time of the last change, and of the creation of a file, in milliseconds since 1970.
    pub(crate) modified: u64,
    pub(crate) created: u64,
}

/// Contents of a file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Text {
    /// No two writes have the same.
    pub(crate) id: Id,
    pub(crate) size: u64,
    /// The contents, unless a record has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) inline: Option<String>,
}

impl Text {
    /// The version of the file in the memory with the proposal.
    pub(crate) fn version(&self) -> Version {
        Version::new([b"proposal ".as_slice(), self.id.as_bytes()].concat())
    }
}

impl Proposed {
    /// Adds the actor of a change.
    pub(crate) fn add_author(&mut self, actor: Option<&Actor>) {
        let Some(actor) = actor else { return };
        let kept = self.authors.entry(actor.name().to_owned()).or_default();
        if let Some(reason) = actor.reason().filter(|reason| !kept.split("; ").any(|known| known == *reason)) {
            let all = if kept.is_empty() { reason.to_owned() } else { format!("{kept}; {reason}") };
            // An actor has a limited reason, and changes can be many.
            *kept = actor.clone().because(&all).reason().unwrap_or_default().to_owned();
        }
    }

    /// The actors of its changes, without invalid names, which another program wrote.
    pub(crate) fn authors(&self) -> impl Iterator<Item = Actor> {
        let authors = self.authors.iter();
        authors.filter_map(|(name, reason)| Some(Actor::from_trusted_name(name).ok()?.because(reason)))
    }

    fn texts(&self) -> impl Iterator<Item = &Text> {
        self.base.iter().chain(&self.text)
    }
}

impl Index {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, StoreError> {
        let index: Self = serde_json::from_slice(bytes).map_err(damaged)?;
        if index.format != FORMAT {
            return Err(StoreError::failure(ErrorKind::Other, READING, "the proposal has an unknown format"));
        }
        // Another program can have written it. Records would be taken past all policies.
        match index.files.keys().find(|path| path.is_record() || path.is_root()) {
            Some(path) => Err(damaged(format!("it changes {path}"))),
            None => Ok(index),
        }
    }

    /// The index as the next record, with another revision.
    pub(crate) fn next_record(&mut self) -> Result<Vec<u8>, StoreError> {
        if self.created == 0 {
            self.created = now();
        }
        (self.format, self.revision) = (FORMAT, Id::random()?);
        serde_json::to_vec(self).map_err(|error| StoreError::failure(ErrorKind::Other, "writing a proposal", error))
    }

    pub(crate) fn created(&self) -> SystemTime {
        time(self.created)
    }

    /// The total size of all texts, which a limit is for.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.values().flat_map(Proposed::texts).map(|text| text.size).sum()
    }

    /// The texts in records.
    pub(crate) fn stored_texts(&self) -> BTreeSet<Id> {
        let texts = self.files.values().flat_map(Proposed::texts);
        texts.filter(|text| text.inline.is_none()).map(|text| text.id).collect()
    }

    fn inline_bytes(&self) -> usize {
        let texts = self.files.values().flat_map(Proposed::texts);
        texts.filter_map(|text| text.inline.as_ref()).map(String::len).sum()
    }

    /// Creates the text for these contents, and returns them if they need a record.
    pub(crate) fn new_text(&self, mut content: Vec<u8>) -> Result<(Text, Option<Vec<u8>>), StoreError> {
        let (id, size) = (Id::random()?, content.len() as u64);
        if self.inline_bytes().saturating_add(content.len()) <= MAX_INLINE_BYTES {
            match String::from_utf8(content) {
                Ok(text) => return Ok((Text { id, size, inline: Some(text) }, None)),
                Err(error) => content = error.into_bytes(),
            }
        }
        Ok((Text { id, size, inline: None }, Some(content)))
    }
}

pub(crate) fn damaged(cause: impl Into<memory_tool_core::BoxError>) -> StoreError {
    StoreError::failure(ErrorKind::Damaged, READING, cause)
}

pub(crate) fn now() -> u64 {
    millis(SystemTime::now())
}

pub(crate) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn time(millis: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_millis(millis)).unwrap_or(UNIX_EPOCH)
}
