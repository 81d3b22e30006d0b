//! [`Inner`]: what the clones of a store have in common.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memory_tool_core::{FailureKind, OpenMode, OpenOptions, Store};

use crate::expected_name::ExpectedName;
use crate::failure::Failure;
use crate::id::Id;
use crate::keychain::Keychain;
use crate::padding::Padding;
use crate::snapshot::{Known, Snapshot};

/// A store in use.
pub(crate) struct Inner {
    /// The store that holds the ciphertexts.
    pub(crate) inner: Box<dyn Store>,
    pub(crate) keychain: Keychain,
    pub(crate) options: OpenOptions,
    pub(crate) name: ExpectedName,
    pub(crate) padding: Padding,
    known: Mutex<Known>,
    /// The contents that were found damaged when they were last read.
    damaged: Mutex<BTreeSet<Id>>,
}

impl fmt::Debug for Inner {
    /// Without the index, which holds the names.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut inner = f.debug_struct("Inner");
        inner.field("inner", &self.inner).field("keychain", &self.keychain).field("options", &self.options);
        inner.field("name", &self.name).field("padding", &self.padding).finish_non_exhaustive()
    }
}

impl Inner {
    pub(crate) fn new(
        inner: Box<dyn Store>,
        keychain: Keychain,
        options: OpenOptions,
        name: ExpectedName,
        padding: Padding,
    ) -> Self {
        Self { inner, keychain, options, name, padding, known: Mutex::default(), damaged: Mutex::default() }
    }

    /// Refuses to change what was opened for reading.
    pub(crate) fn refuse_read_only(&self) -> Result<(), Failure> {
        match self.options.mode {
            OpenMode::ReadOnly => Err(Failure::new(FailureKind::AccessDenied, "the store was opened read-only")),
            _ => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // It holds a pointer and a number, which are whole even if a holder panicked.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn known(&self) -> Known {
        self.lock().clone()
    }

    pub(crate) fn keep(&self, snapshot: Arc<Snapshot>) {
        let mut known = self.lock();
        known.store = snapshot.index.exists().then_some(snapshot.index.store).or(known.store);
        // Another task may have seen a newer one in between.
        if snapshot.index.revision >= known.revision {
            known.revision = snapshot.index.revision;
            known.latest = Some(snapshot);
        }
    }

    /// Notes that this store wrote the index.
    pub(crate) fn note_write(&self, store: Id, revision: u64) {
        let mut known = self.lock();
        known.store = Some(store);
        known.revision = known.revision.max(revision);
    }

    /// Notes whether a content is damaged, if that is known after a reading.
    pub(crate) fn note_reading<T>(&self, id: Id, reading: &Result<T, Failure>) {
        match reading {
            Ok(_) => _ = self.lock_damaged().remove(&id),
            Err(failure) if failure.is_damage() => _ = self.lock_damaged().insert(id),
            Err(_) => {}
        }
    }

    /// Whether a content was found damaged when it was last read.
    pub(crate) fn was_damaged(&self, id: Id) -> bool {
        self.lock_damaged().contains(&id)
    }

    fn lock_damaged(&self) -> MutexGuard<'_, BTreeSet<Id>> {
        self.damaged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
