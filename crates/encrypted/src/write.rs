//! How a batch is applied: planned on the index, encrypted, and put under the condition that the index is still that one.

use std::collections::BTreeSet;
use std::sync::Arc;

use memory_tool_core::{Batch, MemoryPath, StoreError};

use crate::backoff::Backoff;
use crate::cipher::Nonce;
use crate::ciphertexts::Ciphertexts;
use crate::failure::{EncryptionError, Failure};
use crate::header::{Header, IndexCopy, ObjectName};
use crate::id::Id;
use crate::index::Index;
use crate::inner::Inner;
use crate::keychain::WriteKey;
use crate::object::{offload, seal};
use crate::padding::Padding;
use crate::plaintext::{BatchContent, Plaintext, PlaintextBatch};
use crate::plan::{Plan, PlannedWrite, Sealing, depends_on_sizes, plan, target};
use crate::snapshot::Snapshot;
use crate::state::{Condition, State};
use crate::stored::id_of;

/// What became of one attempt.
enum Attempt {
    Done,
    /// The index is another by now.
    Stale,
    /// The ciphertext of a file that is to be removed is not there.
    Missing,
}

impl Inner {
    /// Applies the batch as a whole, or not at all.
    pub(crate) async fn apply(&self, batch: Batch) -> Result<(), Failure> {
        let batch = PlaintextBatch::new(batch);
        if !batch.changes_nothing() {
            self.refuse_read_only()?;
        }
        let mut backoff = Backoff::within(self.options.timeout);
        let mut fresh_key = None;
        let mut missing = BTreeSet::new();
        let mut snapshot = self.likely_snapshot().await?;
        loop {
            let index = &snapshot.index;
            let key = self.write_key(&batch, index, &mut fresh_key).await?;
            let sealing = Sealing { data_key: key.as_ref().map(|key| key.slot.data_key), padding: self.padding };
            let ciphertexts = self.ciphertexts_for(&batch, index).await?;
            let conditions = Condition::of_batch(&batch, index);
            match plan(&batch, index, &State::new(index, &ciphertexts, &conditions), sealing) {
                Ok(plan) => match self.attempt(&snapshot, &batch, plan, &conditions, key, &missing).await {
                    Ok(Attempt::Done) => return Ok(()),
                    Ok(Attempt::Stale) => {}
                    Ok(Attempt::Missing) => missing = self.missing(index).await?,
                    // It may be a copy of the index that is damaged since it was read: then the other will do.
                    Err(failure) if failure.is_damage_beneath() => {
                        if Arc::ptr_eq(&snapshot, &self.snapshot().await?) {
                            return Err(failure);
                        }
                    }
                    Err(failure) => return Err(failure),
                },
                Err(refusal) => {
                    let check = |state: &State<'_>| batch.check(state);
                    let failure = self.first_failure(index, &ciphertexts, &conditions, check, refusal).await;
                    if Arc::ptr_eq(&snapshot, &self.snapshot().await?) {
                        return Err(failure);
                    }
                }
            }
            backoff.pause().await?;
            snapshot = self.snapshot().await?;
        }
    }

    /// The ciphertexts, where their sizes matter to the batch. They are from a moment after the index was read: as long as it holds,
    /// nobody who counts them has changed one.
    async fn ciphertexts_for(&self, batch: &Batch, index: &Index) -> Result<Ciphertexts, Failure> {
        if depends_on_sizes(batch) {
            self.ciphertexts_of(index.files.files()).await
        } else {
            Ok(Ciphertexts::default())
        }
    }

    /// The data key to write with, where there is something to write.
    async fn write_key(
        &self,
        batch: &Batch,
        index: &Index,
        fresh: &mut Option<WriteKey>,
    ) -> Result<Option<WriteKey>, Failure> {
        if batch.changes_nothing() { Ok(None) } else { self.primary_key(index, fresh).await.map(Some) }
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
        plaintext: &Arc<PlaintextBatch>,
        plan: Plan,
        conditions: &[Condition],
        key: Option<WriteKey>,
        missing: &BTreeSet<Id>,
    ) -> Result<Attempt, Failure> {
        let mut batch = snapshot.require(Batch::new())?;
        let mut written = None;
        for (path, precondition) in conditions.iter().map(Condition::precondition) {
            batch = batch.require(path, precondition);
        }
        if let Some(key) = key {
            for PlannedWrite { id, number } in &plan.writes {
                let content = BatchContent { batch: Arc::clone(plaintext), number: *number };
                let stored = self.seal_content(snapshot.index.store, *id, &key, content).await?;
                batch = batch.write(ObjectName::Content(*id).path(), stored);
            }
            for id in plan.removals.iter().filter(|id| !missing.contains(id)) {
                batch = batch.remove(ObjectName::Content(*id).path());
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
                if id_of(&path).is_some_and(|id| plan.removals.contains(&id)) =>
            {
                Ok(Attempt::Missing)
            }
            Err(error) => judge(error, conditions, &plan.writes, plaintext),
        }
    }

    /// Encrypts the content of a file or record.
    pub(crate) async fn seal_content(
        &self,
        store: Id,
        id: Id,
        key: &WriteKey,
        content: impl AsRef<[u8]> + Send + 'static,
    ) -> Result<Vec<u8>, Failure> {
        let padding = self.padding;
        let is_padded = padding != Padding::None;
        let header = Header::new(ObjectName::Content(id), store, key.slot.data_key, is_padded, Nonce::random()?);
        let cipher = Arc::clone(&key.cipher);
        let bytes = content.as_ref().len();
        offload(bytes, move || seal(&header, &cipher, padding, content.as_ref())).await?
    }

    /// Writes both copies of the index, with a slot for the data key that it is encrypted with and the name of the memory.
    pub(crate) async fn write_index(&self, batch: Batch, mut next: Index, key: &WriteKey) -> Result<Batch, Failure> {
        if next.slot(key.slot.data_key).is_none() {
            next.slots.push(key.slot.clone());
        }
        next.name.clone_from(&self.name.name);
        let cipher = Arc::clone(&key.cipher);
        let data_key = key.slot.data_key;
        let sealing = offload(next.files.values().count() * TYPICAL_ENTRY_BYTES, move || {
            let encoded = next.encode().map(Plaintext::new).ok_or(EncryptionError::TooLarge { what: "the index" })?;
            let seal_copy = |copy| {
                let mut header = Header::new(ObjectName::Index(copy), next.store, data_key, true, Nonce::random()?);
                header.slots.clone_from(&next.slots);
                seal(&header, &cipher, INDEX_PADDING, &encoded)
            };
            Ok::<_, Failure>([seal_copy(IndexCopy::First)?, seal_copy(IndexCopy::Second)?])
        });
        let [first, second] = sealing.await??;
        let batch = batch.write(ObjectName::Index(IndexCopy::First).path(), first);
        Ok(batch.write(ObjectName::Index(IndexCopy::Second).path(), second))
    }

    /// The files and records of the index whose ciphertexts are not there.
    async fn missing(&self, index: &Index) -> Result<BTreeSet<Id>, Failure> {
        let there = self.list_inner().await?;
        let mut missing: BTreeSet<_> = index.files.values().map(|file| file.id).collect();
        for file in there {
            // What lies beneath a name is in its place, too, and can be removed.
            if let Some(id) = file.path.segments().next().and_then(Id::parse) {
                missing.remove(&id);
            }
        }
        Ok(missing)
    }
}

/// To what the index is padded, whatever the padding of files: a name more or less is not seen.
const INDEX_PADDING: Padding = Padding::Multiple(std::num::NonZeroUsize::new(1024).unwrap());

/// About what a file takes in the index.
const TYPICAL_ENTRY_BYTES: usize = 64;

/// What an error of the inner store means.
fn judge(
    error: StoreError,
    conditions: &[Condition],
    writes: &[PlannedWrite],
    plaintext: &Batch,
) -> Result<Attempt, Failure> {
    let is_index = |path: &MemoryPath| {
        [IndexCopy::First, IndexCopy::Second].into_iter().any(|copy| ObjectName::Index(copy).path() == *path)
    };
    match error {
        StoreError::VersionMismatch { path } | StoreError::AlreadyExists { path } if is_index(&path) => {
            Ok(Attempt::Stale)
        }
        StoreError::NotFound { .. } => Ok(Attempt::Missing),
        StoreError::VersionMismatch { path } => match conditions.iter().find(|condition| condition.object() == path) {
            Some(condition) => Err(condition.target.mismatch().into()),
            None => Err(Failure::of_inner(StoreError::VersionMismatch { path })),
        },
        // Such as a file that is too large to be written.
        StoreError::Refused { path, policy, reason } => {
            let write = writes.iter().find(|write| ObjectName::Content(write.id).path() == path);
            match write.and_then(|write| target(plaintext, write.number)) {
                Some(target) => Err(target.refused(policy, reason)),
                None => Err(Failure::of_inner(StoreError::Refused { path, policy, reason })),
            }
        }
        other => Err(Failure::of_inner(other)),
    }
}
