//! [`Inner`]: the state that the clones of a store share.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex};

use memory_tool_core::{ErrorKind, OpenMode, OpenOptions, Store, lock};

use crate::failure::Failure;
use crate::id::Id;
use crate::index::ExpectedLabel;
use crate::keychain::Keychain;
use crate::padding::Padding;
use crate::snapshot::{IndexHistory, Snapshot};

/// The shared state of an open store.
pub(crate) struct Inner {
    /// The inner store, which holds the ciphertexts.
    pub(crate) inner_store: Box<dyn Store>,
    pub(crate) keychain: Keychain,
    pub(crate) options: OpenOptions,
    pub(crate) label: ExpectedLabel,
    pub(crate) padding: Padding,
    // Changed by single assignments.
    history: Mutex<IndexHistory>,
    /// The contents whose last read found damage.
    damaged: Mutex<BTreeSet<Id>>,
}

impl fmt::Debug for Inner {
    /// Omits the index, which contains names.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut inner = f.debug_struct("Inner");
        inner.field("inner_store", &self.inner_store).field("keychain", &self.keychain).field("options", &self.options);
        inner.field("label", &self.label).field("padding", &self.padding).finish_non_exhaustive()
    }
}

impl Inner {
    pub(crate) fn new(
        inner_store: Box<dyn Store>,
        keychain: Keychain,
        options: OpenOptions,
        label: ExpectedLabel,
        padding: Padding,
    ) -> Self {
        Self { inner_store, keychain, options, label, padding, history: Mutex::default(), damaged: Mutex::default() }
    }

    /// Fails if the store was opened read-only.
    pub(crate) fn refuse_read_only(&self) -> Result<(), Failure> {
        match self.options.mode {
            OpenMode::ReadOnly => Err(Failure::new(ErrorKind::AccessDenied, "the store was opened read-only")),
            _ => Ok(()),
        }
    }

    pub(crate) fn history(&self) -> IndexHistory {
        lock(&self.history).clone()
    }

    pub(crate) fn keep(&self, snapshot: Arc<Snapshot>) {
        let mut history = lock(&self.history);
        history.store = snapshot.index.exists().then_some(snapshot.index.store).or(history.store);
        // Another task may have stored a newer snapshot.
        if snapshot.index.revision >= history.revision {
            history.revision = snapshot.index.revision;
            history.latest = Some(snapshot);
        }
    }

    /// Records that this store wrote the index.
    pub(crate) fn note_write(&self, store: Id, revision: u64) {
        let mut history = lock(&self.history);
        history.store = Some(store);
        history.revision = history.revision.max(revision);
    }

    /// Records whether a read found a content damaged. Other failures prove neither.
    pub(crate) fn note_read<T>(&self, id: Id, result: &Result<T, Failure>) {
        match result {
            Ok(_) => _ = lock(&self.damaged).remove(&id),
            Err(failure) if failure.is_damage() => _ = lock(&self.damaged).insert(id),
            Err(_) => {}
        }
    }

    /// Whether the last read of a content found damage.
    pub(crate) fn was_damaged(&self, id: Id) -> bool {
        lock(&self.damaged).contains(&id)
    }
}
