//! [`KeyRing`]: the keys of a store.

use std::sync::Arc;

use crate::keys::{KeyId, KeyProvider};

/// The keys of a store: a primary key that encrypts new contents, and any number of other keys that only decrypt.
///
/// # Rotation without downtime
/// 1. Give every process a ring with the new key among the other keys. The processes can then read data under the new
///    key, but do not write with it.
/// 2. Give every process a ring with the new key as the primary and the old key among the others.
/// 3. [Rekey](crate::EncryptedStore::rekey) the store. The report lists the keys that are no longer needed.
/// 4. Remove the old key from the rings.
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

    /// Adds a key for decryption. Several keys may have the same id.
    #[must_use]
    pub fn with(mut self, other: impl KeyProvider) -> Self {
        self.others.push(Arc::new(other));
        self
    }

    /// The ids of the keys, starting with the primary.
    pub fn key_ids(&self) -> impl Iterator<Item = &KeyId> {
        self.all().map(|(provider, _)| provider.key_id())
    }

    /// The key that encrypts new contents.
    pub(crate) fn primary(&self) -> &dyn KeyProvider {
        &*self.primary
    }

    /// All keys, each with a flag for the primary.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&dyn KeyProvider, bool)> {
        let others = self.others.iter().map(|provider| (&**provider, false));
        std::iter::once((&*self.primary, true)).chain(others)
    }
}
