//! [`Keychain`]: the key ring and the data keys that it has unwrapped.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};

use memory_tool_core::lock;

use crate::cipher::Cipher;
use crate::failure::{EncryptionError, Failure};
use crate::header::Slot;
use crate::id::Id;
use crate::keys::{DataKey, KeyError, KeyId, KeyRing};

/// The key ring and a cache of the data keys that it has unwrapped. The cache saves calls to a key management service
/// and repeated Argon2id runs.
pub(crate) struct Keychain {
    ring: KeyRing,
    /// `None` if a key of the ring has the name but not the value.
    // Only lookups and insertions happen under the lock.
    cache: Mutex<BTreeMap<Slot, Option<OpenSlot>>>,
}

impl fmt::Debug for Keychain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ring.fmt(f)
    }
}

/// An unwrapped data key.
#[derive(Clone, Debug)]
pub(crate) struct OpenSlot {
    pub(crate) cipher: Arc<Cipher>,
    /// Whether the primary key of the ring unwrapped it.
    is_primary: bool,
}

/// A data key for new contents.
#[derive(Clone, Debug)]
pub(crate) struct WriteKey {
    pub(crate) slot: Slot,
    pub(crate) cipher: Arc<Cipher>,
}

impl Keychain {
    pub(crate) fn new(ring: KeyRing) -> Self {
        Self { ring, cache: Mutex::default() }
    }

    fn primary_id(&self) -> &KeyId {
        self.ring.primary().key_id()
    }

    /// Unwraps a slot with a key of the ring.
    pub(crate) async fn open(&self, slot: &Slot) -> Result<OpenSlot, Failure> {
        let cached = lock(&self.cache).get(slot).cloned();
        if let Some(cached) = cached {
            return cached.ok_or_else(|| key_failure(slot, KeyError::WrongKey));
        }
        let mut refusal = None;
        for (provider, is_primary) in self.ring.all().filter(|(provider, _)| *provider.key_id() == slot.key) {
            match provider.unwrap(&slot.wrapped).await {
                Ok(data_key) => {
                    let open = OpenSlot { cipher: Arc::new(Cipher::new(&data_key)), is_primary };
                    lock(&self.cache).insert(slot.clone(), Some(open.clone()));
                    return Ok(open);
                }
                Err(error @ KeyError::Unavailable { .. }) => return Err(key_failure(slot, error)),
                Err(error) => refusal = Some(error),
            }
        }
        match refusal {
            None => Err(self.no_key(slot)),
            Some(error) => {
                if matches!(error, KeyError::WrongKey) {
                    lock(&self.cache).insert(slot.clone(), None);
                }
                Err(key_failure(slot, error))
            }
        }
    }

    fn no_key(&self, slot: &Slot) -> Failure {
        let available = self.ring.key_ids().cloned().collect();
        EncryptionError::NoKey { needed: slot.key.clone(), available }.into()
    }

    /// The data key in a slot, which any key of the ring unwraps.
    pub(crate) async fn write_key(&self, slot: &Slot) -> Result<WriteKey, Failure> {
        Ok(WriteKey { slot: slot.clone(), cipher: self.open(slot).await?.cipher })
    }

    /// The newest data key in the slots that the primary key unwraps.
    pub(crate) async fn primary_key(&self, slots: &[Slot]) -> Result<Option<WriteKey>, Failure> {
        let primary = self.primary_id();
        for slot in slots.iter().rev().filter(|slot| slot.key == *primary) {
            match self.open(slot).await {
                Ok(OpenSlot { cipher, is_primary: true }) => {
                    return Ok(Some(WriteKey { slot: slot.clone(), cipher }));
                }
                Err(Failure::Encryption(EncryptionError::Key { source: KeyError::Unavailable { source }, key })) => {
                    return Err(EncryptionError::Key { key, source: KeyError::Unavailable { source } }.into());
                }
                // The slot belongs to another key with the same name, such as the previous passphrase.
                Ok(_) | Err(_) => {}
            }
        }
        Ok(None)
    }

    /// The names of the keys other than the primary that wrapped the data keys in the slots. One of them may have the
    /// same name as the primary, such as the previous passphrase.
    pub(crate) async fn others(&self, slots: &[Slot]) -> BTreeSet<KeyId> {
        let mut others = BTreeSet::new();
        for slot in slots {
            let is_primary = slot.key == *self.primary_id() && self.open(slot).await.is_ok_and(|open| open.is_primary);
            if !is_primary {
                others.insert(slot.key.clone());
            }
        }
        others
    }

    /// Generates a data key and wraps it with the primary key.
    pub(crate) async fn new_key(&self) -> Result<WriteKey, Failure> {
        let primary = self.ring.primary();
        let key = primary.key_id().clone();
        let data_key = DataKey::random()?;
        let wrapping = primary.wrap(&data_key).await;
        let wrapped = wrapping.map_err(|source| EncryptionError::Wrapping { key: key.clone(), source })?;
        let slot = Slot { data_key: Id::random()?, key, wrapped };
        let cipher = Arc::new(Cipher::new(&data_key));
        lock(&self.cache).insert(slot.clone(), Some(OpenSlot { cipher: Arc::clone(&cipher), is_primary: true }));
        Ok(WriteKey { slot, cipher })
    }
}

fn key_failure(slot: &Slot, source: KeyError) -> Failure {
    EncryptionError::Key { key: slot.key.clone(), source }.into()
}
