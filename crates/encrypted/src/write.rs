//! How a batch is applied: planned on the index, encrypted, and put under the condition that the index is still that one.

use std::collections::BTreeSet;
use std::sync::Arc;

use memory_tool_core::{Batch, Expected, MemoryPath, StoreError};

use crate::cipher::Nonce;
use crate::failure::{EncryptionError, Failure};
use crate::header::{Header, IndexCopy, Place};
use crate::id::Id;
use crate::index::Index;
use crate::keychain::WriteKey;
use crate::object::{offload, seal};
use crate::padding::Padding;
use crate::patience::Patience;
use crate::plaintext::Plaintext;
use crate::plan::{Condition, Content, Plan, PlannedWrite, Refusal, Request, Sealing};
use crate::shared::{Shared, Sizes, Stored};
use crate::snapshot::Snapshot;

/// What became of one attempt.
enum Attempt {
    Done,
    /// The index is another by now.
    Stale,
    /// The ciphertext of a file that is to be removed is not there.
    Missing,
}

impl Shared {
    /// Applies the batch as a whole, or not at all.
    pub(crate) async fn apply(&self, batch: Batch) -> Result<(), Failure> {
        let request = Request::new(batch);
        if !request.changes_nothing() {
            self.refuse_read_only()?;
        }
        let mut patience = Patience::of(self.busy_timeout);
        let mut fresh_key = None;
        let mut missing = BTreeSet::new();
        let mut snapshot = self.likely_snapshot().await?;
        loop {
            let key = self.write_key(&request, &snapshot.index, &mut fresh_key).await?;
            let sealing = Sealing { data_key: key.as_ref().map(|key| key.slot.data_key), padding: self.padding };
            let sizes = self.sizes_for(&request, &snapshot.index).await?;
            match request.plan(&snapshot.index, &sizes, sealing) {
                Ok(plan) => match self.attempt(&snapshot, plan, key, &missing).await {
                    Ok(Attempt::Done) => return Ok(()),
                    Ok(Attempt::Stale) => {}
                    Ok(Attempt::Missing) => missing = self.missing(&snapshot.index).await?,
                    // It may be a copy of the index that is damaged since it was read: then the other will do.
                    Err(failure) if failure.is_damage_beneath() => {
                        if Arc::ptr_eq(&snapshot, &self.snapshot().await?) {
                            return Err(failure);
                        }
                    }
                    Err(failure) => return Err(failure),
                },
                Err(refusal) => {
                    let failure = self.first_failure(refusal).await?;
                    if Arc::ptr_eq(&snapshot, &self.snapshot().await?) {
                        return Err(failure);
                    }
                }
            }
            patience.pause().await?;
            snapshot = self.snapshot().await?;
        }
    }

    /// The sizes of the files, where they matter to the request. They are of a moment after the index was read: as long as it holds,
    /// nobody who counts them has changed one.
    async fn sizes_for(&self, request: &Request, index: &Index) -> Result<Sizes, Failure> {
        if request.depends_on_sizes() { self.sizes(index.files.values()).await } else { Ok(Sizes::default()) }
    }

    /// The data key to write with, where there is something to write.
    async fn write_key(
        &self,
        request: &Request,
        index: &Index,
        fresh: &mut Option<WriteKey>,
    ) -> Result<Option<WriteKey>, Failure> {
        if request.changes_nothing() { Ok(None) } else { self.primary_key(index, fresh).await.map(Some) }
    }

    /// The data key of the primary: that of the store, or else a fresh one, which is made once for all attempts.
    pub(crate) async fn primary_key(&self, index: &Index, fresh: &mut Option<WriteKey>) -> Result<WriteKey, Failure> {
        if let Some(key) = self.keychain.of_primary(&index.slots).await? {
            return Ok(key);
        }
        match fresh {
            Some(key) => Ok(key.clone()),
            None => Ok(fresh.insert(self.keychain.new_key().await?).clone()),
        }
    }

    async fn attempt(
        &self,
        snapshot: &Snapshot,
        plan: Plan,
        key: Option<WriteKey>,
        missing: &BTreeSet<Id>,
    ) -> Result<Attempt, Failure> {
        let mut batch = snapshot.require(Batch::new())?;
        let mut written = None;
        for Condition { id, version, .. } in &plan.conditions {
            batch = batch.require(Place::Content(*id).path(), Expected::Version(version.clone()));
        }
        if let Some(key) = key {
            for PlannedWrite { id, content, .. } in &plan.writes {
                let stored = self.seal_content(snapshot.index.store, *id, &key, Arc::clone(content)).await?;
                batch = write_to(batch, Place::Content(*id), stored)?;
            }
            for id in plan.removals.iter().filter(|id| !missing.contains(id)) {
                batch = batch.remove(Place::Content(*id).path()).map_err(StoreError::from)?;
            }
            if let Some(next) = plan.next {
                let revision = snapshot.index.revision + 1;
                batch = self.write_index(batch, Index { revision, ..next }, &key).await?;
                written = Some(revision);
            }
        }
        match self.inner.apply(batch).await {
            Ok(()) => {
                if let Some(revision) = written {
                    self.note_write(snapshot.index.store, revision);
                }
                Ok(Attempt::Done)
            }
            // A link, say: it is no ciphertext, and not ours to remove.
            Err(StoreError::SymbolicLink { path } | StoreError::NotARegularFile { path })
                if plan.removals.iter().any(|id| Place::Content(*id).path() == path) =>
            {
                Ok(Attempt::Missing)
            }
            Err(error) => judge(error, &plan.conditions, &plan.writes),
        }
    }

    /// Encrypts the content of a file.
    pub(crate) async fn seal_content(
        &self,
        store: Id,
        id: Id,
        key: &WriteKey,
        content: Content,
    ) -> Result<Vec<u8>, Failure> {
        let padding = self.padding;
        let is_padded = padding != Padding::None;
        let header = Header::new(Place::Content(id), store, key.slot.data_key, is_padded, Nonce::random()?);
        let cipher = Arc::clone(&key.cipher);
        offload(content.len(), move || seal(&header, &cipher, padding, &content)).await?
    }

    /// Writes both copies of the index, with a slot for the data key that it is encrypted with and the name of the memory.
    pub(crate) async fn write_index(&self, batch: Batch, mut next: Index, key: &WriteKey) -> Result<Batch, Failure> {
        if next.slot(key.slot.data_key).is_none() {
            next.slots.push(key.slot.clone());
        }
        next.name.clone_from(&self.naming.name);
        let cipher = Arc::clone(&key.cipher);
        let data_key = key.slot.data_key;
        let sealing = offload(next.files.len() * TYPICAL_ENTRY_BYTES, move || {
            let encoded = next.encode().map(Plaintext::new).ok_or(EncryptionError::TooLarge { what: "the index" })?;
            let seal_copy = |copy| {
                let mut header = Header::new(Place::Index(copy), next.store, data_key, true, Nonce::random()?);
                header.slots.clone_from(&next.slots);
                seal(&header, &cipher, INDEX_PADDING, &encoded)
            };
            Ok::<_, Failure>([seal_copy(IndexCopy::First)?, seal_copy(IndexCopy::Second)?])
        });
        let [first, second] = sealing.await??;
        let batch = write_to(batch, Place::Index(IndexCopy::First), first)?;
        write_to(batch, Place::Index(IndexCopy::Second), second)
    }

    /// The files of the index whose ciphertexts are not there.
    async fn missing(&self, index: &Index) -> Result<BTreeSet<Id>, Failure> {
        let there = self.inner.list(&MemoryPath::root()).await.map_err(Failure::of_inner)?;
        let mut missing: BTreeSet<_> = index.files.values().map(|file| file.id).collect();
        for file in there {
            // What lies beneath a name is in its place, too, and can be removed.
            if let Some(id) = file.path.segments().next().and_then(Id::parse) {
                missing.remove(&id);
            }
        }
        Ok(missing)
    }

    /// The failure that a refusal comes to: a condition before it that does not hold is told first.
    async fn first_failure(&self, refusal: Refusal) -> Result<Failure, Failure> {
        for Condition { path, id, version } in refusal.conditions {
            match self.fetch(Place::Content(id)).await? {
                Stored::File(file) if file.version == version => {}
                _ => return Ok(StoreError::VersionMismatch { path }.into()),
            }
        }
        Ok(refusal.failure)
    }
}

/// To what the index is padded, whatever the padding of files: a name more or less is not seen.
const INDEX_PADDING: Padding = Padding::Multiple(std::num::NonZeroUsize::new(1024).unwrap());

/// About what a file takes in the index.
const TYPICAL_ENTRY_BYTES: usize = 64;

fn write_to(batch: Batch, place: Place, stored: Vec<u8>) -> Result<Batch, Failure> {
    batch.write(place.path(), stored).map_err(|error| StoreError::from(error).into())
}

/// What the answer of the store beneath says.
fn judge(error: StoreError, conditions: &[Condition], writes: &[PlannedWrite]) -> Result<Attempt, Failure> {
    let is_index = |path: &MemoryPath| {
        [IndexCopy::First, IndexCopy::Second].into_iter().any(|copy| Place::Index(copy).path() == *path)
    };
    match error {
        StoreError::VersionMismatch { path } | StoreError::AlreadyExists { path } if is_index(&path) => {
            Ok(Attempt::Stale)
        }
        StoreError::NotFound { .. } => Ok(Attempt::Missing),
        StoreError::VersionMismatch { path } => {
            let condition = conditions.iter().find(|condition| Place::Content(condition.id).path() == path);
            match condition {
                Some(condition) => Err(StoreError::VersionMismatch { path: condition.path.clone() }.into()),
                None => Err(Failure::of_inner(StoreError::VersionMismatch { path })),
            }
        }
        // Such as a file that is too large to be written: the model knows it by its own path.
        StoreError::Refused { path, reason } => {
            match writes.iter().find(|write| Place::Content(write.id).path() == path) {
                Some(write) => Err(StoreError::Refused { path: write.path.clone(), reason }.into()),
                None => Err(Failure::of_inner(StoreError::Refused { path, reason })),
            }
        }
        other => Err(Failure::of_inner(other)),
    }
}
