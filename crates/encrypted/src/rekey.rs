//! Rekeying: re-encrypts everything with the primary key of the ring, a few files at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use memory_tool_core::{Batch, FileTimes, Precondition, StoreError, StoreExt as _, StorePath, Version};
use serde::Serialize;

use crate::backoff::Backoff;
use crate::failure::Failure;
use crate::header::{ObjectName, Slot};
use crate::id::Id;
use crate::index::{FileRecord, Index};
use crate::inner::Inner;
use crate::keychain::WriteKey;
use crate::keys::KeyId;
use crate::plaintext::Plaintext;
use crate::snapshot::Snapshot;

/// The maximum number of files and records in one batch. Batches save writes of the index.
const FILES_AT_ONCE: usize = 32;

/// A batch that has reached this number of bytes takes no further files.
const BYTES_AT_ONCE: usize = 4 * 1024 * 1024;

/// The progress of rekeying.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct RekeyProgress {
    /// The number of files and records that were re-encrypted.
    pub done: usize,
    /// The total number of files and records to re-encrypt. It can change while the store is in use.
    pub total: usize,
}

/// The result of rekeying.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RekeyReport {
    /// The number of files and records that were re-encrypted.
    pub rewritten: usize,
    /// The damaged files and records, which were left untouched.
    pub damaged: Vec<StorePath>,
    /// The keys other than the primary that were needed before this call and encrypt nothing in this memory now. One of
    /// them may have the same name as the primary, such as the previous passphrase.
    pub no_longer_needed: Vec<KeyId>,
    /// The keys other than the primary that are still needed. One of them may have the same name as the primary, such
    /// as the previous passphrase.
    pub still_needed: Vec<KeyId>,
}

struct RekeyJob<'a> {
    inner: &'a Inner,
    fresh_key: Option<WriteKey>,
    backoff: Backoff,
    rewritten: usize,
    damaged: BTreeSet<Id>,
    /// The times of the ciphertexts, which a new key does not change.
    times: BTreeMap<StorePath, FileTimes>,
}

impl Inner {
    pub(crate) async fn rekey(&self, progress: impl FnMut(RekeyProgress) + Send) -> Result<RekeyReport, Failure> {
        self.refuse_read_only()?;
        let backoff = Backoff::new(self.options.timeout);
        let listed = self.inner_store.list(StorePath::memories()).await?;
        let times = listed.into_iter().map(|file| (file.path.clone(), file.times())).collect();
        let job = RekeyJob { inner: self, fresh_key: None, backoff, rewritten: 0, damaged: BTreeSet::new(), times };
        job.run(progress).await
    }
}

impl RekeyJob<'_> {
    async fn run(mut self, mut progress: impl FnMut(RekeyProgress) + Send) -> Result<RekeyReport, Failure> {
        loop {
            let snapshot = self.inner.snapshot().await?;
            if !snapshot.index.exists() {
                return Ok(RekeyReport::default());
            }
            let key = self.inner.primary_key(&snapshot.index, &mut self.fresh_key).await?;
            let remaining = self.remaining(&snapshot.index, &key);
            progress(RekeyProgress { done: self.rewritten, total: self.rewritten + remaining.len() });
            if !remaining.is_empty() {
                self.rewrite(&snapshot, remaining, &key).await?;
                continue;
            }
            let slots = needed_slots(&snapshot.index, &key);
            let (label, data_key) = (self.inner.label.label.clone(), Some(key.slot.data_key));
            let next = Index { label, data_key, slots, ..snapshot.index.clone() };
            if next == snapshot.index || self.write(&snapshot, Batch::new(), next.clone(), &key).await? {
                return Ok(self.report(&snapshot.index.slots, &next, &key).await);
            }
        }
    }

    /// The files and records that still need re-encryption.
    fn remaining(&self, index: &Index, key: &WriteKey) -> Vec<FileRecord> {
        let needs_rekey = |file: &&FileRecord| file.data_key != key.slot.data_key && !self.damaged.contains(&file.id);
        index.files.files().values().filter(needs_rekey).copied().collect()
    }

    /// Re-encrypts the first files in one batch. Writes nothing if one of them is changed concurrently.
    async fn rewrite(
        &mut self,
        snapshot: &Arc<Snapshot>,
        remaining: Vec<FileRecord>,
        key: &WriteKey,
    ) -> Result<(), Failure> {
        let mut batch = Batch::new();
        let (mut rewritten, mut bytes) = (BTreeMap::new(), 0);
        for file in remaining {
            if rewritten.len() == FILES_AT_ONCE || bytes >= BYTES_AT_ONCE {
                break;
            }
            let path = ObjectName::Content(file.id).path();
            let Some((content, version)) = self.open(snapshot, &file).await? else { continue };
            let size = self.inner.padding.index_size(content.len());
            let stored = self.inner.seal_content(snapshot.index.store, file.id, key, content).await?;
            bytes += stored.len();
            let times = self.times.get(&path).copied().unwrap_or_default();
            batch = batch.require(path.clone(), Precondition::Version(version)).write_with_times(path, stored, times);
            rewritten.insert(file.id, FileRecord { data_key: key.slot.data_key, size, ..file });
        }
        if rewritten.is_empty() {
            return self.backoff.pause().await.map(drop);
        }
        let mut next = snapshot.index.clone();
        for file in next.files.values_mut() {
            *file = rewritten.get(&file.id).copied().unwrap_or(*file);
        }
        if self.write(snapshot, batch, next, key).await? {
            self.rewritten += rewritten.len();
            self.backoff = Backoff::new(self.inner.options.timeout);
        }
        Ok(())
    }

    /// Reads the content of a file and the version of its ciphertext; `None` if it is damaged or was changed.
    async fn open(
        &mut self,
        snapshot: &Arc<Snapshot>,
        file: &FileRecord,
    ) -> Result<Option<(Plaintext, Version)>, Failure> {
        match self.inner.read_plaintext(&snapshot.index, file).await {
            Ok(opened) => Ok(Some(opened)),
            Err(failure) if failure.is_damage() => {
                if Arc::ptr_eq(snapshot, &self.inner.snapshot().await?) {
                    self.damaged.insert(file.id);
                }
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Writes under the precondition that nothing changed. Returns whether the write succeeded.
    async fn write(
        &mut self,
        snapshot: &Snapshot,
        changes: Batch,
        next: Index,
        key: &WriteKey,
    ) -> Result<bool, Failure> {
        let revision = snapshot.index.revision + 1;
        let next = Index { revision, ..next };
        let batch = self.inner.write_index(snapshot.require(changes)?, next, key).await?;
        match self.inner.inner_store.apply(batch).await {
            Ok(()) => {
                self.inner.note_write(snapshot.index.store, revision);
                Ok(true)
            }
            Err(StoreError::VersionMismatch { .. } | StoreError::AlreadyExists { .. }) => {
                self.backoff.pause().await?;
                Ok(false)
            }
            Err(error) => Err(Failure::of_inner(error)),
        }
    }

    async fn report(self, before: &[Slot], after: &Index, key: &WriteKey) -> RekeyReport {
        let keychain = &self.inner.keychain;
        let (needed_before, still_needed) = (keychain.others(before).await, keychain.others(&after.slots).await);
        // Only damaged files still have another data key. Damaged files that were removed or replaced since are not
        // reported.
        let is_damaged = |file: &FileRecord| file.data_key != key.slot.data_key;
        let files = after.files.files().iter();
        RekeyReport {
            rewritten: self.rewritten,
            damaged: files.filter(|(_, file)| is_damaged(file)).map(|(path, _)| path.clone()).collect(),
            no_longer_needed: needed_before.difference(&still_needed).cloned().collect(),
            still_needed: still_needed.into_iter().collect(),
        }
    }
}

/// The slots of all data keys in use, including the one of the primary key.
fn needed_slots(index: &Index, key: &WriteKey) -> Vec<Slot> {
    let mut used: BTreeSet<_> = index.files.files().values().map(|file| file.data_key).collect();
    used.insert(key.slot.data_key);
    let mut slots = index.slots.clone();
    slots.retain(|slot| used.contains(&slot.data_key));
    if index.slot(key.slot.data_key).is_none() {
        slots.push(key.slot.clone());
    }
    slots
}
