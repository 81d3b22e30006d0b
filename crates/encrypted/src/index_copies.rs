//! Reading the two copies of the index and choosing the current one.

use std::sync::Arc;

use memory_tool_core::{FileEntry, ReadOptions, StorePath};

use crate::backoff::Backoff;
use crate::failure::{Damage, EncryptionError, Failure};
use crate::header::{IndexCopy, ObjectName, parse};
use crate::id::Id;
use crate::index::Index;
use crate::inner::Inner;
use crate::keys::KeyError;
use crate::object::{offload, open};
use crate::plaintext::Plaintext;
use crate::snapshot::{CopyState, IndexHistory, Snapshot};
use crate::stored_object::{StoredObject, id_of};

impl Inner {
    /// Takes a snapshot that was current at some time during this call. Returns the latest snapshot itself if nothing
    /// has changed.
    pub(crate) async fn snapshot(&self) -> Result<Arc<Snapshot>, Failure> {
        let mut backoff = Backoff::new(self.options.timeout);
        let history = self.history();
        loop {
            let first = self.fetch(ObjectName::Index(IndexCopy::First)).await?;
            let of_existing = history
                .latest
                .as_ref()
                .filter(|latest| latest.index.exists() && latest.index.revision >= history.revision);
            if let Some(latest) = of_existing.filter(|latest| latest.first == CopyState::of(&first)) {
                match &latest.second {
                    None => return Ok(Arc::clone(latest)),
                    Some(second) if self.is_still_there(IndexCopy::Second, second).await? => {
                        return Ok(Arc::clone(latest));
                    }
                    Some(_) => {}
                }
            }
            if let Some(snapshot) = self.choose_snapshot(&history, first).await? {
                // If the store does not exist, as before, nothing has changed.
                if let Some(latest) = history.latest.filter(|latest| !latest.index.exists() && !snapshot.index.exists())
                {
                    return Ok(latest);
                }
                let snapshot = Arc::new(snapshot);
                self.keep(Arc::clone(&snapshot));
                return Ok(snapshot);
            }
            backoff.pause().await?;
        }
    }

    /// The snapshot of the better copy; `None` if the copies were replaced during the read.
    async fn choose_snapshot(&self, history: &IndexHistory, first: StoredObject) -> Result<Option<Snapshot>, Failure> {
        let first_found = CopyState::of(&first);
        let opened_first = self.open_copy(IndexCopy::First, first).await;
        if let Ok(index) = &opened_first
            && history.store == Some(index.store)
            && index.revision >= history.revision
        {
            return Ok(opened_first.ok().map(|index| Snapshot { index, first: first_found, second: None }));
        }
        let second = self.fetch(ObjectName::Index(IndexCopy::Second)).await?;
        let second_found = CopyState::of(&second);
        let opened_second = self.open_copy(IndexCopy::Second, second).await;
        let is_new = (&first_found, &second_found) == (&CopyState::Missing, &CopyState::Missing);
        let chosen = if is_new {
            self.expect_nothing(history.store)
                .await
                .and_then(|()| Ok((Index::of_new_store(self.label.label.clone())?, IndexCopy::Second)))
        } else {
            choose(history.store, opened_first, opened_second)
                .and_then(|(index, copy)| Ok((history.refuse_older(index)?, copy)))
        };
        if let Ok((index, IndexCopy::First)) = chosen {
            return Ok(Some(Snapshot { index, first: first_found, second: None }));
        }
        // The first copy may have been replaced before the second was read.
        if !self.is_still_there(IndexCopy::First, &first_found).await? {
            return Ok(None);
        }
        chosen.map(|(index, _)| Some(Snapshot { index, first: first_found, second: Some(second_found) }))
    }

    pub(crate) async fn fetch(&self, name: ObjectName) -> Result<StoredObject, Failure> {
        StoredObject::of(self.inner_store.read_opts(&name.path(), ReadOptions::new()).await)
    }

    /// Lists all files of the inner store.
    pub(crate) async fn list_inner(&self) -> Result<Vec<FileEntry>, Failure> {
        let root = self.inner_store.read_opts(&StorePath::memories(), ReadOptions::new()).await;
        Ok(root.map_err(Failure::of_inner)?.into_listing().files)
    }

    async fn is_still_there(&self, copy: IndexCopy, found: &CopyState) -> Result<bool, Failure> {
        Ok(CopyState::of(&self.fetch(ObjectName::Index(copy)).await?) == *found)
    }

    /// Decrypts a copy of the index.
    pub(crate) async fn open_copy(&self, copy: IndexCopy, stored: StoredObject) -> Result<Index, Failure> {
        let name = ObjectName::Index(copy);
        let damaged = |damage| Failure::damaged(name.path(), damage);
        let stored = stored.into_object(name)?.content;
        let (header, head) = parse(&stored).map_err(damaged)?;
        header.expect_name(name).map_err(damaged)?;
        let slot = header.slots.iter().find(|slot| slot.data_key == header.data_key);
        let slot = slot.ok_or_else(|| damaged(Damage::Header("no slot for its own data key")))?;
        let cipher = self.keychain.open(slot).await?.cipher;
        let opening = offload(stored.len(), move || {
            let encoded = Plaintext::new(open(&header, &cipher, head, stored)?);
            let decoded = Index::decode(header.store, header.slots, &encoded)?;
            Ok(Index { data_key: Some(header.data_key), ..decoded })
        });
        let index = opening.await?.map_err(damaged)?;
        self.label.check(&index)?;
        Ok(index)
    }

    /// Checks that the inner store is empty, because it has no index.
    async fn expect_nothing(&self, known_store: Option<Id>) -> Result<(), Failure> {
        if known_store.is_some() {
            return Err(EncryptionError::IndexMissing.into());
        }
        let files = self.list_inner().await?;
        if files.iter().any(|file| id_of(&file.path).is_some()) {
            return Err(EncryptionError::IndexMissing.into());
        }
        if files.is_empty() { Ok(()) } else { Err(EncryptionError::NotEncrypted { files: files.len() }.into()) }
    }
}

/// Chooses the copy that belongs to the known store and has the higher revision.
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

/// Whether the other copy may be readable in spite of this failure.
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
