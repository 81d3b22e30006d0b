//! [`KeyRing`]: the keys of a store.

use std::sync::Arc;

use crate::keys::provider::{KeyId, KeyProvider};

/// The keys of a store: a primary key, and any number of other keys.
///
/// The primary key encrypts a new store. An existing store keeps its key until a
/// [rekey](crate::EncryptedStore::rekey), which changes it to the primary key. Every writer uses the key of the store,
/// whichever of its keys that is, so a process with an older primary key never goes back to it.
///
/// # Rotation without downtime
/// 1. Give every process a ring with both keys, in any order.
/// 2. [Rekey](crate::EncryptedStore::rekey) the store with a ring whose primary is the new key. The report lists the
///    keys that are no longer needed.
/// 3. Remove the old key from the rings.
#[derive(Clone, Debug)]
pub struct KeyRing {
    primary: Arc<dyn KeyProvider>,
    others: Vec<Arc<dyn KeyProvider>>,
}

impl KeyRing {
    /// Creates a ring of one key.
    pub fn new(primary: impl KeyProvider) -> Self {
        Self { primary: Arc::new(primary), others: Vec::new() }
    }

    /// Adds a key. Several keys may have the same id.
    #[must_use]
    pub fn with(mut self, other: impl KeyProvider) -> Self {
        self.others.push(Arc::new(other));
        self
    }

    /// The ids of the keys, starting with the primary.
    pub fn key_ids(&self) -> impl Iterator<Item = &KeyId> {
        self.all().map(|(provider, _)| provider.key_id())
    }

    /// The key of a new or rekeyed store.
    pub(crate) fn primary(&self) -> &dyn KeyProvider {
        &*self.primary
    }

    /// All keys, each with a flag for the primary.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&dyn KeyProvider, bool)> {
        let others = self.others.iter().map(|provider| (&**provider, false));
        std::iter::once((&*self.primary, true)).chain(others)
    }
}
