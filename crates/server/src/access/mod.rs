//! [`Caller`]: the sender of a request, and the rights of its token.

#[cfg(feature = "mcp")]
pub(crate) mod issuer;
pub(crate) mod mounts;
pub(crate) mod public_url;
pub(crate) mod sessions;
pub(crate) mod tokens;

use std::fmt;
use std::sync::Arc;

use memory_tool::Actor;
use memory_tool::store::MemoryName;
use serde::{Deserialize, Serialize, Serializer};
use tokio::sync::watch;

use crate::http::error::ApiError;
use crate::options::from_text;
use mounts::Mount;
use tokens::{Index, Present};

/// A right of a token in the memories that it reaches.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Right {
    /// The six commands of the tool, by the agent.
    Tool,
    /// The six commands of the tool, whose changes wait in a proposal until a person takes them. [`Tool`](Self::Tool)
    /// includes it.
    Propose,
    /// Reads and listings of files and versions.
    Read,
    /// Changes of files, and their redaction.
    Write,
    /// Creation, change, archive and removal of memories.
    Admin,
}

impl Right {
    /// All rights.
    pub const ALL: [Self; 5] = [Self::Tool, Self::Propose, Self::Read, Self::Write, Self::Admin];

    /// The name in the file of tokens.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Propose => "propose",
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

/// The memories that a token reaches.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Grant {
    /// All memories.
    All,
    /// The memory with this name.
    #[serde(serialize_with = "as_text", deserialize_with = "from_text")]
    Name(MemoryName),
    /// The memories whose names start with this text.
    Prefix(String),
}

fn as_text<S: Serializer>(value: &impl fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

impl Grant {
    fn reaches(&self, memory: &MemoryName) -> bool {
        match self {
            Self::All => true,
            Self::Name(name) => name == memory,
            Self::Prefix(prefix) => memory.as_str().starts_with(prefix.as_str()),
        }
    }
}

/// The sender of a request: the owner of a valid token.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    actor: Actor,
    grants: Arc<[Grant]>,
    rights: Arc<[Right]>,
    creates: bool,
    tenant: Arc<str>,
    /// With different points.
    mounts: Arc<[Mount]>,
    present: Option<Present>,
}

impl Caller {
    /// Creates a caller from the token's entry.
    pub(crate) fn new(actor: Actor, grants: Vec<Grant>, rights: Vec<Right>) -> Self {
        let tenant = format!("{grants:?}").into();
        let (mounts, present) = (Arc::default(), None);
        Self { actor, grants: grants.into(), rights: rights.into(), creates: false, tenant, mounts, present }
    }

    /// Shows shared memories in the memories of `--memory` and its kind. The first one at a point counts.
    #[must_use]
    pub(crate) fn mounting(mut self, mounts: impl IntoIterator<Item = Mount>) -> Self {
        let mut at_points: Vec<Mount> = Vec::new();
        for mount in mounts {
            if at_points.iter().all(|other| other.point != mount.point) {
                at_points.push(mount);
            }
        }
        self.mounts = at_points.into();
        self
    }

    /// The caller. It notices a loss of mounts during a request.
    #[must_use]
    fn following(self, present: Present) -> Self {
        Self { present: Some(present), ..self }
    }

    /// The caller in a request with this id.
    #[must_use]
    pub(crate) fn in_request(self, id: &str) -> Self {
        Self { actor: self.actor.in_request(id), ..self }
    }

    /// Allows the caller to create a memory that it reaches with its first command.
    #[must_use]
    pub(crate) fn creating(mut self, creates: bool) -> Self {
        self.creates = creates;
        self
    }

    /// The tenant: the memories that the caller reaches. Its callers share limits.
    pub(crate) fn tenant(&self) -> &Arc<str> {
        &self.tenant
    }

    /// The actor of this caller's changes.
    pub(crate) fn actor(&self) -> &Actor {
        &self.actor
    }

    /// Whether the first command of the caller creates a memory.
    pub(crate) fn creates(&self) -> bool {
        self.creates
    }

    /// The memory, if the token names a single one.
    #[cfg(feature = "mcp")]
    pub(crate) fn only_memory(&self) -> Option<&MemoryName> {
        let mut names = self.grants.iter().map(|grant| if let Grant::Name(name) = grant { Some(name) } else { None });
        let first = names.next()??;
        names.all(|name| name == Some(first)).then_some(first)
    }

    /// Whether the caller knows of this memory. Another tenant's memory is reported as not found.
    pub(crate) fn reaches(&self, memory: &MemoryName) -> bool {
        self.owns(memory) || self.mounts_now().iter().any(|mount| mount.memory == *memory)
    }

    /// Whether the caller reaches this memory without a mount.
    fn owns(&self, memory: &MemoryName) -> bool {
        self.grants.iter().any(|grant| grant.reaches(memory))
    }

    /// The mounts in a memory.
    pub(crate) fn mounts_in(&self, memory: &MemoryName) -> Vec<Mount> {
        let now = self.mounts_now();
        now.iter().filter(|mount| self.owns(memory) && mount.memory != *memory).cloned().collect()
    }

    /// The mounts that the caller has now.
    pub(crate) fn mounts_now(&self) -> Arc<[Mount]> {
        self.present.as_ref().map_or_else(|| Arc::clone(&self.mounts), Present::mounts)
    }

    /// The changes of tokens and groups.
    pub(crate) fn changes(&self) -> Option<watch::Receiver<Arc<Index>>> {
        self.present.as_ref().map(Present::changes)
    }

    /// Whether the caller may change this memory. Otherwise, it can look into it.
    pub(crate) fn can_change(&self, memory: &MemoryName) -> bool {
        let is_changeable = |mount: &Mount| mount.memory == *memory && mount.can_change;
        self.owns(memory) || self.mounts_now().iter().any(is_changeable)
    }

    /// Whether the caller has a right in a memory.
    pub(crate) fn has_in(&self, memory: &MemoryName, right: Right) -> bool {
        let is_possible = match right {
            Right::Tool | Right::Propose | Right::Read => self.reaches(memory),
            Right::Write => self.can_change(memory),
            Right::Admin => self.owns(memory),
        };
        is_possible && self.has(right)
    }

    /// The right by which the caller runs commands of the tool.
    pub(crate) fn tool_right(&self) -> Right {
        if self.has(Right::Propose) && !self.has(Right::Tool) { Right::Propose } else { Right::Tool }
    }

    /// Whether the caller has a right in some memories.
    pub(crate) fn has(&self, right: Right) -> bool {
        self.rights.contains(&right)
    }

    /// Checks a right, in a memory or for all of them. Only a token that reaches all memories has a right for all.
    ///
    /// # Errors
    /// [`ApiError`] 404 if the caller does not reach the memory, 403 if the right is missing.
    pub(crate) fn check(&self, right: Right, memory: Option<&MemoryName>) -> Result<(), ApiError> {
        match memory {
            Some(memory) if !self.reaches(memory) => Err(ApiError::no_such_memory(memory.as_str())),
            None if !self.grants.contains(&Grant::All) => Err(ApiError::permission()),
            Some(memory) if self.has_in(memory, right) => Ok(()),
            None if self.has(right) => Ok(()),
            _ => Err(ApiError::permission()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_for_all_memories_needs_a_token_that_reaches_all() {
        let alice: MemoryName = "alice".parse().unwrap();
        let caller = |grant, right| Caller::new(Actor::from_trusted_name("ops").unwrap(), vec![grant], vec![right]);
        for (grant, in_alice, for_all) in [
            (Grant::All, true, true),
            (Grant::Name(alice.clone()), true, false),
            (Grant::Prefix("ali".to_owned()), true, false),
            (Grant::Prefix(String::new()), true, false),
            (Grant::Prefix("bob".to_owned()), false, false),
        ] {
            let admin = caller(grant.clone(), Right::Admin);
            assert_eq!(admin.check(Right::Admin, Some(&alice)).is_ok(), in_alice, "{grant:?}");
            assert_eq!(admin.check(Right::Admin, None).is_ok(), for_all, "{grant:?}");
        }
        assert!(caller(Grant::All, Right::Read).check(Right::Admin, None).is_err());
    }
}
