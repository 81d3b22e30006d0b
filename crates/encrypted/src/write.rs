//! Applying a batch: it is planned on the index, encrypted, and written under the precondition that the index is
//! unchanged.

use std::collections::BTreeSet;
use std::sync::Arc;

use memory_tool_core::{Batch, StoreError, StorePath};

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
use crate::plan::{Plan, PlannedWrite, SealOptions, depends_on_sizes, plan, written_path};
use crate::snapshot::Snapshot;
use crate::state::{Condition, State};
use crate::stored_object::id_of;

enum Attempt {
    Done,
    /// The index has changed.
    Stale,
    /// The ciphertext of a file to remove is missing.
    Missing,
}

impl Inner {
    /// Applies the batch atomically.
    pub(crate) async fn apply(&self, batch: Batch) -> Result<(), Failure> {
        let batch = PlaintextBatch::new(batch);
        if !batch.changes_nothing() {
            self.refuse_read_only()?;
        }
        let mut backoff = Backoff::new(self.options.timeout);
        let mut fresh_key = None;
        let mut missing = BTreeSet::new();
        let mut snapshot = self.likely_snapshot().await?;
        loop {
            let index = &snapshot.index;
            let key = self.write_key(&batch, index, &mut fresh_key).await?;
            let options = SealOptions { data_key: key.as_ref().map(|key| key.slot.data_key), padding: self.padding };
            let ciphertexts = self.ciphertexts_for(&batch, index).await?;
            let conditions = Condition::of(batch.preconditions(), index);
            match plan(&batch, index, &State::new(index, &ciphertexts, &conditions), options) {
                Ok(plan) => match self.attempt(&snapshot, &batch, plan, &conditions, key, &missing).await {
                    Ok(Attempt::Done) => return Ok(()),
                    Ok(Attempt::Stale) => {}
                    Ok(Attempt::Missing) => missing = self.missing(index).await?,
                    // A copy of the index may have been damaged after it was read. Then retry with the other copy.
                    Err(failure) if failure.is_inner_damage() => {
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

    /// The ciphertexts, if the batch depends on their sizes. They are listed after the index was read. While the index
    /// is unchanged, no batch that depends on sizes has changed them.
    async fn ciphertexts_for(&self, batch: &Batch, index: &Index) -> Result<Ciphertexts, Failure> {
        if depends_on_sizes(batch) {
            self.ciphertexts_of(index.files.files()).await
        } else {
            Ok(Ciphertexts::default())
        }
    }

    /// The data key for the writes of the batch; `None` if the batch makes no changes.
    ///
    /// It is the key of the index, even if it is not under the primary key of this ring. Otherwise, a process that
    /// still has the old key as its primary would take the store back to that key after it was rekeyed.
    async fn write_key(
        &self,
        batch: &Batch,
        index: &Index,
        fresh: &mut Option<WriteKey>,
    ) -> Result<Option<WriteKey>, Failure> {
        if batch.changes_nothing() {
            return Ok(None);
        }
        match index.data_key.and_then(|data_key| index.slot(data_key)) {
            Some(slot) => self.keychain.write_key(slot).await.map(Some),
            None => self.primary_key(index, fresh).await.map(Some),
        }
    }

    /// The data key of the primary key: the one in the index, or a new one, which is generated once for all attempts.
    pub(crate) async fn primary_key(&self, index: &Index, fresh: &mut Option<WriteKey>) -> Result<WriteKey, Failure> {
        if let Some(key) = self.keychain.primary_key(&index.slots).await? {
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
        let mut batch = snapshot.require(Batch::new())?.require_all(conditions.iter().map(Condition::precondition));
        let mut written = None;
        if let Some(key) = key {
            for PlannedWrite { id, number } in &plan.writes {
                let content = BatchContent { batch: Arc::clone(plaintext), number: *number };
                let stored = self.seal_content(snapshot.index.store, *id, &key, content).await?;
                batch = batch.write_with_times(ObjectName::Content(*id).path(), stored, plaintext.times(*number));
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
        match self.inner_store.apply(batch).await {
            Ok(()) => {
                if let Some(revision) = written {
                    self.note_write(snapshot.index.store, revision);
                }
                Ok(Attempt::Done)
            }
            // A symbolic link, for example, is not a ciphertext, so leave it.
            Err(StoreError::SymbolicLink { path } | StoreError::NotARegularFile { path })
                if id_of(&path).is_some_and(|id| plan.removals.contains(&id)) =>
            {
                Ok(Attempt::Missing)
            }
            Err(error) => classify_error(error, conditions, &plan.writes, plaintext),
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

    /// Adds both copies of the index to the batch, with a slot for the data key that encrypts them.
    pub(crate) async fn write_index(&self, batch: Batch, mut next: Index, key: &WriteKey) -> Result<Batch, Failure> {
        if next.slot(key.slot.data_key).is_none() {
            next.slots.push(key.slot.clone());
        }
        let cipher = Arc::clone(&key.cipher);
        let data_key = key.slot.data_key;
        let sealing = offload(next.files.files().len() * TYPICAL_ENTRY_BYTES, move || {
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

    /// The files and records of the index whose ciphertexts are missing.
    async fn missing(&self, index: &Index) -> Result<BTreeSet<Id>, Failure> {
        let stored = self.list_inner().await?;
        let mut missing: BTreeSet<_> = index.files.files().values().map(|file| file.id).collect();
        for file in stored {
            // A directory with the name of a ciphertext can be removed as well.
            if let Some(id) = file.path.segments().next().and_then(Id::parse) {
                missing.remove(&id);
            }
        }
        Ok(missing)
    }
}

/// The padding of the index, for any padding of files. It hides the length of names.
const INDEX_PADDING: Padding = Padding::Multiple(std::num::NonZeroUsize::new(1024).unwrap());

const TYPICAL_ENTRY_BYTES: usize = 64;

fn classify_error(
    error: StoreError,
    conditions: &[Condition],
    writes: &[PlannedWrite],
    plaintext: &Batch,
) -> Result<Attempt, Failure> {
    let is_index = |path: &StorePath| {
        [IndexCopy::First, IndexCopy::Second].into_iter().any(|copy| ObjectName::Index(copy).path() == *path)
    };
    match error {
        StoreError::VersionMismatch { path } | StoreError::AlreadyExists { path } if is_index(&path) => {
            Ok(Attempt::Stale)
        }
        StoreError::NotFound { .. } => Ok(Attempt::Missing),
        StoreError::VersionMismatch { path } => match conditions.iter().find(|condition| condition.object() == path) {
            Some(condition) => Err(condition.mismatch().into()),
            None => Err(Failure::of_inner(StoreError::VersionMismatch { path })),
        },
        // For example, the file is too large for the inner store.
        StoreError::Refused { path, policy, reason } => {
            let write = writes.iter().find(|write| ObjectName::Content(write.id).path() == path);
            match write.and_then(|write| written_path(plaintext, write.number)) {
                Some(path) => Err(Failure::refused(path, policy, reason)),
                None => Err(Failure::of_inner(StoreError::Refused { path, policy, reason })),
            }
        }
        other => Err(Failure::of_inner(other)),
    }
}
