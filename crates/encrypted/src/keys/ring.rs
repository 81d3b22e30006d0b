//! [`KeyRing`]: the keys that a store is opened with.

use std::sync::Arc;

use crate::keys::{KeyId, KeyProvider};

/// The keys that a store is opened with: one that new contents are encrypted under, and any number of others that only open what
/// they once encrypted.
///
/// # Rotation without downtime
/// 1. Give every process a ring in which the new key is among the others: they can read what it encrypts, and do not use it yet.
/// 2. Give every process a ring in which the new key is the primary and the old one among the others.
/// 3. [`rekey`](crate::EncryptedStore::rekey) the store. It says when the old key is no longer needed.
/// 4. Take the old key out of the rings.
#[derive(Clone, Debug)]
pub struct KeyRing {
    primary: Arc<dyn KeyProvider>,
    others: Vec<Arc<dyn KeyProvider>>,
}

impl KeyRing {
    /// A ring of one key.
    pub fn new(primary: impl KeyProvider) -> Self {
        Self { primary: Arc::new(primary), others: Vec::new() }
    }

    /// The ring with another key that opens what it once encrypted. Several may have the same id.
    #[must_use]
    pub fn with(mut self, other: impl KeyProvider) -> Self {
        self.others.push(Arc::new(other));
        self
    }

    /// The ids of the keys, that of the primary first.
    pub fn key_ids(&self) -> impl Iterator<Item = &KeyId> {
        self.all().map(|(provider, _)| provider.key_id())
    }

    /// The key that new contents are encrypted under.
    pub(crate) fn primary(&self) -> &dyn KeyProvider {
        &*self.primary
    }

    /// The keys, each with whether it is the primary.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&dyn KeyProvider, bool)> {
        let others = self.others.iter().map(|provider| (&**provider, false));
        std::iter::once((&*self.primary, true)).chain(others)
    }
}
