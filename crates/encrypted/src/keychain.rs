//! [`Keychain`]: the key ring, and the data keys that it has opened.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cipher::Cipher;
use crate::failure::{EncryptionError, Failure};
use crate::header::Slot;
use crate::id::Id;
use crate::keys::{DataKey, KeyError, KeyId, KeyRing};

/// The key ring, and the data keys that it has opened: a key management service is not asked twice, and no passphrase is
/// tried twice.
pub(crate) struct Keychain {
    ring: KeyRing,
    tried: Mutex<BTreeMap<Slot, Tried>>,
}

impl fmt::Debug for Keychain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ring.fmt(f)
    }
}

/// What came of a slot.
#[derive(Clone, Debug)]
enum Tried {
    Opened(OpenSlot),
    WrongKey,
}

/// A data key in use.
#[derive(Clone, Debug)]
pub(crate) struct OpenSlot {
    pub(crate) cipher: Arc<Cipher>,
    /// Whether the primary of the ring opened it.
    is_of_primary: bool,
}

/// The data key that is written with.
#[derive(Clone, Debug)]
pub(crate) struct WriteKey {
    pub(crate) slot: Slot,
    pub(crate) cipher: Arc<Cipher>,
}

impl Keychain {
    pub(crate) fn new(ring: KeyRing) -> Self {
        Self { ring, tried: Mutex::default() }
    }

    fn primary_id(&self) -> &KeyId {
        self.ring.primary().key_id()
    }

    fn tried(&self) -> MutexGuard<'_, BTreeMap<Slot, Tried>> {
        // Nothing is done under the lock but to look and to insert: the map is whole even if a holder panicked.
        self.tried.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, slot: &Slot, tried: Tried) {
        self.tried().insert(slot.clone(), tried);
    }

    /// Opens a slot with whatever key of the ring does.
    pub(crate) async fn open(&self, slot: &Slot) -> Result<OpenSlot, Failure> {
        let tried = self.tried().get(slot).cloned();
        match tried {
            Some(Tried::Opened(opened)) => return Ok(opened),
            Some(Tried::WrongKey) => return Err(refused(slot, KeyError::WrongKey)),
            None => {}
        }
        let mut refusal = None;
        for (provider, is_of_primary) in self.ring.all().filter(|(provider, _)| *provider.key_id() == slot.key) {
            match provider.unwrap(&slot.wrapped).await {
                Ok(data_key) => {
                    let opened = OpenSlot { cipher: Arc::new(Cipher::new(&data_key)), is_of_primary };
                    self.keep(slot, Tried::Opened(opened.clone()));
                    return Ok(opened);
                }
                Err(error @ KeyError::Unavailable { .. }) => return Err(refused(slot, error)),
                Err(error) => refusal = Some(error),
            }
        }
        match refusal {
            None => Err(self.lacks(slot)),
            Some(error) => {
                if matches!(error, KeyError::WrongKey) {
                    self.keep(slot, Tried::WrongKey);
                }
                Err(refused(slot, error))
            }
        }
    }

    fn lacks(&self, slot: &Slot) -> Failure {
        let available = self.ring.key_ids().cloned().collect();
        EncryptionError::NoKey { needed: slot.key.clone(), available }.into()
    }

    /// The data key of the primary among those of a store, the newest where there are several.
    pub(crate) async fn of_primary(&self, slots: &[Slot]) -> Result<Option<WriteKey>, Failure> {
        let primary = self.primary_id();
        for slot in slots.iter().rev().filter(|slot| slot.key == *primary) {
            match self.open(slot).await {
                Ok(OpenSlot { cipher, is_of_primary: true }) => {
                    return Ok(Some(WriteKey { slot: slot.clone(), cipher }));
                }
                Err(Failure::Encryption(EncryptionError::Key { source: KeyError::Unavailable { source }, key })) => {
                    return Err(EncryptionError::Key { key, source: KeyError::Unavailable { source } }.into());
                }
                // It is the slot of another key of the same name, such as the passphrase before this one.
                Ok(_) | Err(_) => {}
            }
        }
        Ok(None)
    }

    /// The names of the keys other than the primary that wrapped the data keys in the slots. One of them may have the name of the
    /// primary, such as the passphrase before this one.
    pub(crate) async fn others(&self, slots: &[Slot]) -> BTreeSet<KeyId> {
        let mut others = BTreeSet::new();
        for slot in slots {
            let is_of_primary =
                slot.key == *self.primary_id() && self.open(slot).await.is_ok_and(|open| open.is_of_primary);
            if !is_of_primary {
                others.insert(slot.key.clone());
            }
        }
        others
    }

    /// A new data key, wrapped by the primary.
    pub(crate) async fn new_key(&self) -> Result<WriteKey, Failure> {
        let primary = self.ring.primary();
        let key = primary.key_id().clone();
        let data_key = DataKey::random()?;
        let wrapping = primary.wrap(&data_key).await;
        let wrapped = wrapping.map_err(|source| EncryptionError::Wrapping { key: key.clone(), source })?;
        let slot = Slot { data_key: Id::random()?, key, wrapped };
        let cipher = Arc::new(Cipher::new(&data_key));
        self.keep(&slot, Tried::Opened(OpenSlot { cipher: Arc::clone(&cipher), is_of_primary: true }));
        Ok(WriteKey { slot, cipher })
    }
}

fn refused(slot: &Slot, source: KeyError) -> Failure {
    EncryptionError::Key { key: slot.key.clone(), source }.into()
}
