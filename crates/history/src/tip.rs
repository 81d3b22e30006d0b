//! [`Tip`]: the end of the log.

use std::sync::Arc;

use memory_tool_core::{Batch, Precondition, ReadOptions, StoreError, StorePath, Version};

use crate::entry::Entry;
use crate::hex::Id;
use crate::records::{self, Head, Stored};

/// The end of the log at some moment.
#[derive(Clone, Debug)]
pub(crate) struct Tip {
    pub(crate) head: Head,
    /// The precondition on the stored head.
    pub(crate) required: Precondition,
    /// The claim of a session that goes first.
    pub(crate) claim: Option<Id>,
    /// The next number.
    pub(crate) next: u64,
    /// The entries that are in no block, oldest first. `None` if the entry was not read yet. The newest one was, unless
    /// it is damaged.
    pub(crate) recent: Vec<Option<Arc<Stored>>>,
    /// The version of the newest one. `None` after this process wrote it.
    pub(crate) last: Option<Version>,
}

impl Tip {
    /// The number of the newest entry, or of the last one that was removed.
    pub(crate) fn newest(&self) -> u64 {
        self.next - 1
    }

    /// The identity of the newest entry, or of a history without entries.
    pub(crate) fn last_id(&self) -> Id {
        self.recent.last().and_then(Option::as_ref).map_or(self.head.tail, |stored| stored.entry.id)
    }

    /// Whether nothing was changed between the two.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (&self.head, self.next, self.last_id()) == (&other.head, other.next, other.last_id())
    }

    /// Whether there is a history, perhaps without entries.
    pub(crate) fn has_history(&self) -> bool {
        self.required != Precondition::Absent
    }

    fn preconditions(&self) -> impl Iterator<Item = (StorePath, Precondition)> {
        let last = self.last.clone().map(|last| (records::single(self.newest()), Precondition::Version(last)));
        let free = (records::single(self.next), Precondition::Absent);
        [(records::head(), self.required.clone()), free].into_iter().chain(last)
    }

    /// Requires that the head has not changed.
    pub(crate) fn require_head(&self, batch: Batch) -> Batch {
        batch.require(records::head(), self.required.clone())
    }

    /// Requires that this is still the end of the log.
    pub(crate) fn require(&self, batch: Batch) -> Batch {
        batch.require_all(self.preconditions())
    }

    /// Requires that this is still the end of the log when a read ends.
    pub(crate) fn require_in_read(&self) -> ReadOptions {
        ReadOptions::new().require_all(self.preconditions())
    }

    pub(crate) fn end(&self) -> KnownEnd {
        KnownEnd { history: self.head.id, first: self.head.first, number: self.newest(), id: self.last_id() }
    }
}

/// An end of the log that a reader knows. Entries were only added since if they lead from it to the present end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownEnd {
    pub(crate) history: Id,
    /// The number of the oldest entry.
    pub(crate) first: u64,
    /// The newest entry.
    pub(crate) number: u64,
    pub(crate) id: Id,
}

/// Whether each entry follows the one before it.
pub(crate) fn is_chain<'a>(mut last: Id, entries: impl IntoIterator<Item = &'a Entry>) -> bool {
    entries.into_iter().all(|entry| std::mem::replace(&mut last, entry.id) == entry.after)
}

/// Whether others changed the log, so that the caller has to read it again.
pub(crate) fn is_outdated(error: &StoreError) -> bool {
    match error {
        StoreError::VersionMismatch { path } | StoreError::AlreadyExists { path } | StoreError::NotFound { path } => {
            path.is_under(&records::root())
        }
        _ => false,
    }
}
