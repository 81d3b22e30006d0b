//! [`Snapshot`]: the index at one moment, and how it is found out whether it still holds.
//!
//! The index lies in two copies, which every write of it replaces together. Whoever reads it looks at the first, and at the second
//! where the first is gone, damaged, or older than it was before. A snapshot remembers what was where, so that a write can be put
//! under the condition that it is still there, and so that a reader can tell that nothing changed in between.

use std::sync::Arc;

use memory_tool_core::{Batch, MemoryPath, Precondition, Version};

use crate::failure::{Damage, EncryptionError, Failure};
use crate::header::{IndexCopy, ObjectName};
use crate::id::Id;
use crate::index::Index;
use crate::stored::Stored;

/// What a store held at one moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) index: Index,
    pub(crate) first: CopyState,
    /// Where it matters: where the index is not that of the first copy.
    pub(crate) second: Option<CopyState>,
}

/// What was at the path of a copy of the index.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum CopyState {
    Nothing,
    /// Something else than a file.
    Obstructed,
    /// A file that the inner store found damaged.
    Unreadable,
    File(Version),
}

impl CopyState {
    pub(crate) fn of(stored: &Stored) -> Self {
        match stored {
            Stored::Nothing => Self::Nothing,
            Stored::Obstructed => Self::Obstructed,
            Stored::Unreadable(_) => Self::Unreadable,
            Stored::File(file) => Self::File(file.version.clone()),
        }
    }
}

impl Snapshot {
    /// What has to hold in the inner store so that the index is still this one.
    pub(crate) fn preconditions(&self) -> Result<Vec<(MemoryPath, Precondition)>, Failure> {
        match (&self.first, &self.second) {
            (first, None) => Ok(vec![precondition(IndexCopy::First, first)?]),
            // Nothing can be asked of the first. Who replaces it replaces the second as well.
            (CopyState::Unreadable, Some(second)) => Ok(vec![precondition(IndexCopy::Second, second)?]),
            (first, Some(second)) => {
                Ok(vec![precondition(IndexCopy::First, first)?, precondition(IndexCopy::Second, second)?])
            }
        }
    }

    /// Puts a batch of the inner store under the precondition that the index is still this one.
    pub(crate) fn require(&self, batch: Batch) -> Result<Batch, Failure> {
        let preconditions = self.preconditions()?.into_iter();
        Ok(preconditions.fold(batch, |batch, (path, precondition)| batch.require(path, precondition)))
    }
}

fn precondition(copy: IndexCopy, state: &CopyState) -> Result<(MemoryPath, Precondition), Failure> {
    let path = ObjectName::Index(copy).path();
    match state {
        CopyState::Nothing => Ok((path, Precondition::Absent)),
        CopyState::File(version) => Ok((path, Precondition::Version(version.clone()))),
        // No index could be written there; and none was chosen that could not be read.
        CopyState::Obstructed | CopyState::Unreadable => Err(Failure::damaged(path, Damage::Obstructed)),
    }
}

/// What is known of the index from before. Others may have replaced it since.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// The latest snapshot.
    pub(crate) latest: Option<Arc<Snapshot>>,
    /// The store, once it exists: there will be no other in its place.
    pub(crate) store: Option<Id>,
    /// The highest revision of the index that was seen. Where it is lower, somebody put an older one back.
    pub(crate) revision: u64,
}

impl Known {
    /// Refuses an index that is older than what was seen.
    pub(crate) fn refuse_older(&self, index: Index) -> Result<Index, EncryptionError> {
        let (seen, found) = (self.revision, index.revision);
        if found < seen { Err(EncryptionError::OlderIndex { seen, found }) } else { Ok(index) }
    }
}
