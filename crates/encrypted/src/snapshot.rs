//! [`Snapshot`]: the index at one moment, and how it is found out whether it still holds.
//!
//! The index lies in two copies, which every write of it replaces together. Whoever reads it looks at the first, and at the second
//! where the first is gone, damaged, or older than it was before. A snapshot remembers what was where, so that a write can be put
//! under the condition that it is still there, and so that a reader can tell that nothing changed in between.

use std::sync::Arc;

use memory_tool_core::{Batch, Expected, MemoryPath, Version};

use crate::failure::{Damage, EncryptionError, Failure};
use crate::header::{IndexCopy, Place, parse};
use crate::id::Id;
use crate::index::Index;
use crate::keys::KeyError;
use crate::object::{offload, open};
use crate::patience::Patience;
use crate::plaintext::Plaintext;
use crate::shared::{Known, Shared, Stored, id_of};

/// What a store held at one moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) index: Index,
    first: Found,
    /// Where it matters: where the index is not that of the first copy.
    second: Option<Found>,
}

/// What stood at the place of a copy of the index.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Found {
    Nothing,
    /// Something else than a file.
    Obstructed,
    /// A file that the store beneath found damaged.
    Unreadable,
    File(Version),
}

impl Found {
    fn of(stored: &Stored) -> Self {
        match stored {
            Stored::Nothing => Self::Nothing,
            Stored::Obstructed => Self::Obstructed,
            Stored::Unreadable(_) => Self::Unreadable,
            Stored::File(file) => Self::File(file.version.clone()),
        }
    }
}

impl Snapshot {
    /// Puts a batch of the store beneath under the condition that the index is still this one.
    pub(crate) fn require(&self, batch: Batch) -> Result<Batch, Failure> {
        match (&self.first, &self.second) {
            (first, None) => require(batch, IndexCopy::First, first),
            // Nothing can be asked of the first. Who replaces it replaces the second as well.
            (Found::Unreadable, Some(second)) => require(batch, IndexCopy::Second, second),
            (first, Some(second)) => require(require(batch, IndexCopy::First, first)?, IndexCopy::Second, second),
        }
    }
}

fn require(batch: Batch, copy: IndexCopy, found: &Found) -> Result<Batch, Failure> {
    let path = Place::Index(copy).path();
    match found {
        Found::Nothing => Ok(batch.require(path, Expected::Absent)),
        Found::File(version) => Ok(batch.require(path, Expected::Version(version.clone()))),
        // No index could be written there; and none was chosen that could not be read.
        Found::Obstructed | Found::Unreadable => Err(Failure::damaged(path, Damage::Obstructed)),
    }
}

impl Shared {
    /// What the store holds at a moment between the call and the answer: the latest snapshot itself where nothing changed since.
    pub(crate) async fn snapshot(&self) -> Result<Arc<Snapshot>, Failure> {
        let mut patience = Patience::of(self.busy_timeout);
        let known = self.known();
        loop {
            let first = self.fetch(Place::Index(IndexCopy::First)).await?;
            let of_existing =
                known.latest.as_ref().filter(|latest| latest.index.exists() && latest.index.revision >= known.revision);
            if let Some(latest) = of_existing.filter(|latest| latest.first == Found::of(&first)) {
                match &latest.second {
                    None => return Ok(Arc::clone(latest)),
                    Some(second) if self.is_still_there(IndexCopy::Second, second).await? => {
                        return Ok(Arc::clone(latest));
                    }
                    Some(_) => {}
                }
            }
            if let Some(snapshot) = self.decide(&known, first).await? {
                // Where there was no store before and is none now, nothing changed.
                if let Some(latest) = known.latest.filter(|latest| !latest.index.exists() && !snapshot.index.exists()) {
                    return Ok(latest);
                }
                let snapshot = Arc::new(snapshot);
                self.keep(Arc::clone(&snapshot));
                return Ok(snapshot);
            }
            patience.pause().await?;
        }
    }

    /// The snapshot that the two copies make; `None` where they were replaced while they were read.
    async fn decide(&self, known: &Known, first: Stored) -> Result<Option<Snapshot>, Failure> {
        let first_found = Found::of(&first);
        let opened_first = self.open_copy(IndexCopy::First, first).await;
        if let Ok(index) = &opened_first
            && known.store == Some(index.store)
            && index.revision >= known.revision
        {
            return Ok(opened_first.ok().map(|index| Snapshot { index, first: first_found, second: None }));
        }
        let second = self.fetch(Place::Index(IndexCopy::Second)).await?;
        let second_found = Found::of(&second);
        let opened_second = self.open_copy(IndexCopy::Second, second).await;
        let is_new = (&first_found, &second_found) == (&Found::Nothing, &Found::Nothing);
        let chosen = if is_new {
            self.expect_nothing(known.store).await.and_then(|()| Ok((Index::of_new_store()?, IndexCopy::Second)))
        } else {
            choose(known.store, opened_first, opened_second)
                .and_then(|(index, copy)| Ok((known.refuse_older(index)?, copy)))
        };
        if let Ok((index, IndexCopy::First)) = chosen {
            return Ok(Some(Snapshot { index, first: first_found, second: None }));
        }
        // What the first copy lacks may be because it was replaced before the second was read.
        if !self.is_still_there(IndexCopy::First, &first_found).await? {
            return Ok(None);
        }
        chosen.map(|(index, _)| Some(Snapshot { index, first: first_found, second: Some(second_found) }))
    }

    async fn is_still_there(&self, copy: IndexCopy, found: &Found) -> Result<bool, Failure> {
        Ok(Found::of(&self.fetch(Place::Index(copy)).await?) == *found)
    }

    /// Decrypts a copy of the index.
    pub(crate) async fn open_copy(&self, copy: IndexCopy, stored: Stored) -> Result<Index, Failure> {
        let place = Place::Index(copy);
        let damaged = |damage| Failure::damaged(place.path(), damage);
        let stored = match stored {
            Stored::Nothing => return Err(damaged(Damage::Missing)),
            Stored::Obstructed => return Err(damaged(Damage::Obstructed)),
            Stored::Unreadable(source) => {
                return Err(EncryptionError::Unreadable { object: place.path(), source }.into());
            }
            Stored::File(file) => file.content,
        };
        let (header, head) = parse(&stored).map_err(damaged)?;
        header.expect_place(place).map_err(damaged)?;
        let slot = header.slots.iter().find(|slot| slot.data_key == header.data_key);
        let slot = slot.ok_or_else(|| damaged(Damage::Header("it has no slot for its own data key")))?;
        let cipher = self.keychain.open(slot).await?.cipher;
        let opening = offload(stored.len(), move || {
            let encoded = Plaintext::new(open(&header, &cipher, head, stored)?);
            Index::decode(header.store, header.slots, &encoded)
        });
        let index = opening.await?.map_err(damaged)?;
        self.naming.check(&index)?;
        Ok(index)
    }

    /// Checks that there is nothing where there is no index.
    async fn expect_nothing(&self, known_store: Option<Id>) -> Result<(), Failure> {
        if known_store.is_some() {
            return Err(EncryptionError::IndexGone.into());
        }
        let files = self.inner.list(&MemoryPath::root()).await.map_err(Failure::of_inner)?;
        if files.iter().any(|file| id_of(&file.path).is_some()) {
            return Err(EncryptionError::IndexGone.into());
        }
        if files.is_empty() { Ok(()) } else { Err(EncryptionError::NotEncrypted { files: files.len() }.into()) }
    }
}

impl Known {
    /// Refuses an index that is older than what was seen.
    fn refuse_older(&self, index: Index) -> Result<Index, EncryptionError> {
        let (seen, found) = (self.revision, index.revision);
        if found < seen { Err(EncryptionError::OlderIndex { seen, found }) } else { Ok(index) }
    }
}

/// The better one of the two copies: that of the store that is known, and the newer one.
fn choose(
    known_store: Option<Id>,
    first: Result<Index, Failure>,
    second: Result<Index, Failure>,
) -> Result<(Index, IndexCopy), Failure> {
    let belongs = |index: &Index| known_store.is_none_or(|store| index.store == store);
    let (index, copy) = match (first, second) {
        (Ok(first), Ok(second)) => match (belongs(&first), belongs(&second)) {
            (true, true) if first.store != second.store => return Err(EncryptionError::OtherStore.into()),
            (true, true) if second.revision > first.revision => (second, IndexCopy::Second),
            (false, true) => (second, IndexCopy::Second),
            _ => (first, IndexCopy::First),
        },
        (Ok(first), Err(_)) => (first, IndexCopy::First),
        (Err(failure), Ok(second)) if may_be_damage(&failure) => (second, IndexCopy::Second),
        (Err(failure), Err(other)) if is_missing(&failure) => return Err(other),
        (Err(failure), _) => return Err(failure),
    };
    if belongs(&index) { Ok((index, copy)) } else { Err(EncryptionError::OtherStore.into()) }
}

/// Whether another copy may do better.
fn may_be_damage(failure: &Failure) -> bool {
    match failure {
        Failure::Encryption(EncryptionError::Key { source: KeyError::Unavailable { .. }, .. }) => false,
        Failure::Encryption(_) => true,
        Failure::Refused(_) | Failure::Failed { .. } => false,
    }
}

fn is_missing(failure: &Failure) -> bool {
    matches!(failure, Failure::Encryption(EncryptionError::Damaged { damage: Damage::Missing, .. }))
}
