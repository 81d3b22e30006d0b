//! [`Caller`]: who sent a request, and what this caller may do.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use memory_tool::Actor;
use memory_tool::store::MemoryName;

use crate::error::ApiError;

/// What a token allows in the memories that it reaches.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum Right {
    /// The six commands of the tool, by the agent.
    Tool,
    /// Reads and listings of files and versions.
    Read,
    /// Changes of files, and their redaction.
    Write,
    /// Creation, change, archive and removal of memories.
    Admin,
}

/// The memories that a token reaches.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Grant {
    /// All memories.
    All,
    /// The memory with this name.
    Name(MemoryName),
    /// The memories whose names start with this text.
    Prefix(String),
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

/// Who sent a request: the owner of a valid token.
#[derive(Clone, Debug)]
pub struct Caller {
    actor: Actor,
    grants: Vec<Grant>,
    rights: Vec<Right>,
}

impl Caller {
    /// Creates a caller from the token's entry.
    pub fn new(actor: Actor, grants: Vec<Grant>, rights: Vec<Right>) -> Self {
        Self { actor, grants, rights }
    }

    /// The actor of this caller's changes.
    pub fn actor(&self) -> &Actor {
        &self.actor
    }

    /// Whether the caller knows of this memory. Another tenant's memory is reported as not found.
    pub fn reaches(&self, memory: &MemoryName) -> bool {
        self.grants.iter().any(|grant| grant.reaches(memory))
    }

    /// Checks a right, in a memory or for all of them.
    ///
    /// # Errors
    /// [`ApiError`] 404 if the caller does not reach the memory, 403 if the right is missing.
    pub fn check(&self, right: Right, memory: Option<&MemoryName>) -> Result<(), ApiError> {
        if let Some(memory) = memory
            && !self.reaches(memory)
        {
            return Err(ApiError::no_such_memory(memory.as_str()));
        }
        if self.rights.contains(&right) { Ok(()) } else { Err(ApiError::permission()) }
    }
}

/// The layer of authentication puts the caller into each request, so its absence is a fault of this program.
impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let caller = parts.extensions.get::<Self>().cloned();
        std::future::ready(caller.ok_or_else(ApiError::authentication)).await
    }
}
