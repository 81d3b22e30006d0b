//! [`Snapshot`]: the index at one revision, with the preconditions that it is still current.
//!
//! The index has two copies, which every write of the index replaces together. A reader uses the first copy. It uses
//! the second if the first is missing, damaged, or older than before. A snapshot records the state of the copies.
//! Writes require that state, and readers compare with it to detect changes.

use std::sync::Arc;

use memory_tool_core::{Batch, Precondition, StorePath, Version};

use crate::failure::{Damage, EncryptionError, Failure};
use crate::header::{IndexCopy, ObjectName};
use crate::id::Id;
use crate::index::Index;
use crate::stored_object::StoredObject;

/// The index of a store and the copies that it was read from.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) index: Index,
    pub(crate) first: CopyState,
    /// The state of the second copy, if the index was not read from the first.
    pub(crate) second: Option<CopyState>,
}

/// The state of a copy of the index.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum CopyState {
    Missing,
    /// A directory, a symbolic link or another non-file.
    NotAFile,
    Unreadable,
    File(Version),
}

impl CopyState {
    pub(crate) fn of(stored: &StoredObject) -> Self {
        match stored {
            StoredObject::Missing => Self::Missing,
            StoredObject::NotAFile => Self::NotAFile,
            StoredObject::Unreadable(_) => Self::Unreadable,
            StoredObject::File(file) => Self::File(file.version.clone()),
        }
    }
}

impl Snapshot {
    /// The preconditions of the inner store that the index is unchanged.
    pub(crate) fn preconditions(&self) -> Result<Vec<(StorePath, Precondition)>, Failure> {
        match (&self.first, &self.second) {
            (first, None) => Ok(vec![precondition(IndexCopy::First, first)?]),
            // A precondition on the first copy would fail. Every writer of the index replaces the second copy as well.
            (CopyState::Unreadable, Some(second)) => Ok(vec![precondition(IndexCopy::Second, second)?]),
            (first, Some(second)) => {
                Ok(vec![precondition(IndexCopy::First, first)?, precondition(IndexCopy::Second, second)?])
            }
        }
    }

    /// Adds the preconditions that the index is unchanged to a batch of the inner store.
    pub(crate) fn require(&self, batch: Batch) -> Result<Batch, Failure> {
        Ok(batch.require_all(self.preconditions()?))
    }
}

fn precondition(copy: IndexCopy, state: &CopyState) -> Result<(StorePath, Precondition), Failure> {
    let path = ObjectName::Index(copy).path();
    match state {
        CopyState::Missing => Ok((path, Precondition::Absent)),
        CopyState::File(version) => Ok((path, Precondition::Version(version.clone()))),
        // An index cannot be written to this path, and an unreadable copy is never used.
        CopyState::NotAFile | CopyState::Unreadable => Err(Failure::damaged(path, Damage::NotAFile)),
    }
}

/// The earlier observations of the index. Other writers may have replaced it since.
#[derive(Clone, Debug, Default)]
pub(crate) struct IndexHistory {
    pub(crate) latest: Option<Arc<Snapshot>>,
    /// The id of the store, once it exists. It never changes.
    pub(crate) store: Option<Id>,
    /// The highest revision that was seen. A lower revision means that the store was rolled back.
    pub(crate) revision: u64,
}

impl IndexHistory {
    /// Refuses an index with a lower revision than the highest that was seen.
    pub(crate) fn refuse_older(&self, index: Index) -> Result<Index, EncryptionError> {
        let (seen, found) = (self.revision, index.revision);
        if found < seen { Err(EncryptionError::OlderIndex { seen, found }) } else { Ok(index) }
    }
}
