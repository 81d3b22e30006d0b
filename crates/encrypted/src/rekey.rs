//! Rekeying: everything is encrypted anew under the primary of the key ring, a few files at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use memory_tool_core::{Batch, MemoryPath, Precondition, RecordName, StoreError, Version};

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

/// How many files and records are encrypted again in one batch, so that the index is not written for each.
const FILES_AT_ONCE: usize = 32;

/// How many bytes of ciphertexts a batch has before it takes no further file.
const BYTES_AT_ONCE: usize = 4 * 1024 * 1024;

/// How far rekeying has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct RekeyProgress {
    /// How many files and records were encrypted again.
    pub done: usize,
    /// How many there are in all that were or are to be encrypted again. It may change while others use the store.
    pub total: usize,
}

/// What rekeying has done.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct RekeyReport {
    /// How many files and records were encrypted again.
    pub rewritten: usize,
    /// The files that are damaged, and stay as they are.
    pub damaged: Vec<MemoryPath>,
    /// The records that are damaged, and stay as they are.
    pub damaged_records: Vec<RecordName>,
    /// The keys other than the primary that were needed before this call, and are not any more: nothing of this memory is encrypted
    /// under them. One may have the name of the primary, such as the passphrase before this one.
    pub no_longer_needed: Vec<KeyId>,
    /// The keys other than the primary that something is still encrypted under. A passphrase before the primary is among them by
    /// the name that both have.
    pub still_needed: Vec<KeyId>,
}

/// Rekeying under way.
struct Rekeying<'a> {
    inner: &'a Inner,
    fresh_key: Option<WriteKey>,
    backoff: Backoff,
    rewritten: usize,
    damaged: BTreeSet<Id>,
}

/// A file that was read to be encrypted again.
struct OpenedFile {
    content: Plaintext,
    /// Of the ciphertext.
    version: Version,
}

impl Inner {
    pub(crate) async fn rekey(&self, progress: impl FnMut(RekeyProgress) + Send) -> Result<RekeyReport, Failure> {
        self.refuse_read_only()?;
        let backoff = Backoff::within(self.options.timeout);
        let rekeying = Rekeying { inner: self, fresh_key: None, backoff, rewritten: 0, damaged: BTreeSet::new() };
        rekeying.run(progress).await
    }
}

impl Rekeying<'_> {
    async fn run(mut self, mut progress: impl FnMut(RekeyProgress) + Send) -> Result<RekeyReport, Failure> {
        loop {
            let snapshot = self.inner.snapshot().await?;
            if !snapshot.index.exists() {
                return Ok(RekeyReport::default());
            }
            let key = self.inner.primary_key(&snapshot.index, &mut self.fresh_key).await?;
            let left = self.left(&snapshot.index, &key);
            progress(RekeyProgress { done: self.rewritten, total: self.rewritten + left.len() });
            if !left.is_empty() {
                self.rewrite(&snapshot, left, &key).await?;
                continue;
            }
            let slots = needed_slots(&snapshot.index, &key);
            let next = Index { slots, name: self.inner.name.name.clone(), ..snapshot.index.clone() };
            if next == snapshot.index || self.write(&snapshot, Batch::new(), next.clone(), &key).await? {
                return Ok(self.report(&snapshot.index.slots, &next, &key).await);
            }
        }
    }

    /// The files and records that are to be encrypted again.
    fn left(&self, index: &Index, key: &WriteKey) -> Vec<FileRecord> {
        let is_left = |file: &&FileRecord| file.data_key != key.slot.data_key && !self.damaged.contains(&file.id);
        index.files.values().filter(is_left).copied().collect()
    }

    /// Encrypts the first of the files again, unless somebody changes them at the same time: then nothing is done.
    async fn rewrite(
        &mut self,
        snapshot: &Arc<Snapshot>,
        left: Vec<FileRecord>,
        key: &WriteKey,
    ) -> Result<(), Failure> {
        let mut batch = Batch::new();
        let (mut rewritten, mut bytes) = (BTreeMap::new(), 0);
        for file in left {
            if rewritten.len() == FILES_AT_ONCE || bytes >= BYTES_AT_ONCE {
                break;
            }
            let path = ObjectName::Content(file.id).path();
            let Some(OpenedFile { content, version }) = self.open(snapshot, &file).await? else { continue };
            let size = self.inner.padding.noted_size(content.len());
            let stored = self.inner.seal_content(snapshot.index.store, file.id, key, content).await?;
            bytes += stored.len();
            batch = batch.require(path.clone(), Precondition::Version(version)).write(path, stored);
            rewritten.insert(file.id, FileRecord { data_key: key.slot.data_key, size, ..file });
        }
        if rewritten.is_empty() {
            return self.backoff.pause().await;
        }
        let mut next = snapshot.index.clone();
        for file in next.files.values_mut() {
            *file = rewritten.get(&file.id).copied().unwrap_or(*file);
        }
        if self.write(snapshot, batch, next, key).await? {
            self.rewritten += rewritten.len();
            self.backoff = Backoff::within(self.inner.options.timeout);
        }
        Ok(())
    }

    /// The content of a file; `None` where there is none, because it is damaged or was changed.
    async fn open(&mut self, snapshot: &Arc<Snapshot>, file: &FileRecord) -> Result<Option<OpenedFile>, Failure> {
        let opened = match self.inner.fetch_content(file.id).await {
            Ok(stored) => {
                let opening = self.inner.open_content(&snapshot.index, file, stored.content).await;
                opening.map(|content| (content, stored.version))
            }
            Err(failure) => Err(failure),
        };
        match opened {
            Ok((content, version)) => Ok(Some(OpenedFile { content: Plaintext::new(content), version })),
            Err(failure) if failure.is_damage() => {
                if Arc::ptr_eq(snapshot, &self.inner.snapshot().await?) {
                    self.damaged.insert(file.id);
                }
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Writes under the condition that nothing changed, and says whether that was so.
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
        match self.inner.inner.apply(batch).await {
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

    /// What was done, where this is the index after it.
    async fn report(self, before: &[Slot], after: &Index, key: &WriteKey) -> RekeyReport {
        let keychain = &self.inner.keychain;
        let (needed_before, still_needed) = (keychain.others(before).await, keychain.others(&after.slots).await);
        // All else was encrypted again; what others removed or wrote since is not damaged any more.
        let is_damaged = |file: &FileRecord| file.data_key != key.slot.data_key;
        let (files, records) = (after.files.files().iter(), after.files.records().iter());
        RekeyReport {
            rewritten: self.rewritten,
            damaged: files.filter(|(_, file)| is_damaged(file)).map(|(path, _)| path.clone()).collect(),
            damaged_records: records.filter(|(_, record)| is_damaged(record)).map(|(name, _)| name.clone()).collect(),
            no_longer_needed: needed_before.difference(&still_needed).cloned().collect(),
            still_needed: still_needed.into_iter().collect(),
        }
    }
}

/// The slots of the data keys that something is encrypted with, that of the primary among them.
fn needed_slots(index: &Index, key: &WriteKey) -> Vec<Slot> {
    let mut used: BTreeSet<_> = index.files.values().map(|file| file.data_key).collect();
    used.insert(key.slot.data_key);
    let mut slots = index.slots.clone();
    slots.retain(|slot| used.contains(&slot.data_key));
    if index.slot(key.slot.data_key).is_none() {
        slots.push(key.slot.clone());
    }
    slots
}
