//! [`Appending`]: the batch that adds an entry to the log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use memory_tool_core::{Batch, ErrorKind, Node, Precondition, ReadOptions, Store, StoreError, StorePath};

use crate::entry::Entry;
use crate::hex::Id;
use crate::limits::BLOCK;
use crate::log::Log;
use crate::plan::Edits;
use crate::records::{self, Block, Head, IndexedBlock, PART_BYTES, Stored};
use crate::tip::Tip;
use crate::versions::Versions;

/// A batch that adds an entry, with the head after it.
pub(crate) struct Appending<'a, S> {
    log: &'a Log<S>,
    tip: &'a Tip,
    batch: Batch,
    pub(crate) head: Head,
    /// The index, once it was read.
    index: Option<Vec<IndexedBlock>>,
    /// Whether entries that exist change.
    is_edited: bool,
}

impl<'a, S: Store> Appending<'a, S> {
    pub(crate) fn new(log: &'a Log<S>, tip: &'a Tip, batch: Batch) -> Result<Self, StoreError> {
        let mut head = if tip.has_history() { tip.head.clone() } else { Head::born()? };
        head.limits = log.limits.unwrap_or(head.limits);
        Ok(Self { log, tip, batch: tip.require(batch), head, index: None, is_edited: false })
    }

    /// Adds an entry, and edits others.
    pub(crate) async fn add(mut self, mut new: Stored, edits: Edits) -> Result<(Batch, Head, Arc<Stored>), StoreError> {
        let Edits { mut entries, versions, .. } = edits;
        new.entry.number = self.tip.next;
        new.entry.id = Id::random()?;
        new.entry.after = if self.tip.has_history() { self.tip.last_id() } else { self.head.tail };
        self.write_large(&mut new, false)?;
        let new = Arc::new(new);
        self.is_edited = !entries.is_empty();
        for stored in entries.values_mut() {
            self.replace_large(stored).await?;
        }
        let mut recent = entries.split_off(&self.tip.head.blocks_end);
        self.rewrite_blocks(entries).await?;
        if new.entry.number + 1 - self.head.blocks_end >= BLOCK {
            self.add_block(recent, &new).await?;
        } else {
            recent.insert(new.entry.number, Stored::clone(&new));
            for (number, stored) in &recent {
                self.write(records::single(*number), stored.to_bytes()?);
            }
        }
        let versions = if self.tip.has_history() {
            self.versions_after(&new.entry, versions).await?
        } else {
            // The files of other programs keep the identities that they had without a history.
            Some(self.log.recent_versions(self.tip).await?).filter(|versions| versions.present().next().is_some())
        };
        let (batch, head) = self.finish(versions).await?;
        Ok((batch, head, new))
    }

    /// The files after the new entry, if entries are edited or removed.
    async fn versions_after(&mut self, new: &Entry, known: Option<Versions>) -> Result<Option<Versions>, StoreError> {
        let versions = if self.is_edited {
            if known.is_none() {
                self.remove_births().await?;
            }
            known
        } else if self.head.first != self.tip.head.first {
            Some(self.log.recent_versions(self.tip).await?)
        } else {
            None
        };
        Ok(versions.map(|mut versions| {
            versions.add(new);
            versions
        }))
    }

    /// The record may have paths that are redacted.
    async fn remove_births(&mut self) -> Result<(), StoreError> {
        if records::is_present(&self.log.store, &records::births()).await? {
            self.change(|batch| batch.remove(records::births()));
        }
        Ok(())
    }

    /// The batch with the index and the head, if they have changed, and with the births of files whose entries it
    /// removes or edits.
    pub(crate) async fn finish(mut self, versions: Option<Versions>) -> Result<(Batch, Head), StoreError> {
        let is_changed = self.is_edited || self.index.is_some() || versions.is_some();
        if let Some(index) = self.index.take() {
            self.write(records::index(), records::to_lines(&index)?);
        }
        if let Some(versions) = versions {
            self.write(records::births(), records::to_json(&versions.births(self.head.first))?);
        }
        let is_changed = is_changed || !self.tip.has_history() || self.head != self.tip.head;
        if is_changed {
            self.head.revision = Id::random()?;
        }
        if is_changed || self.tip.claim.is_some() {
            self.write(records::head(), records::to_json(&self.head)?);
        }
        Ok((self.batch, self.head))
    }

    fn change(&mut self, change: impl FnOnce(Batch) -> Batch) {
        self.batch = change(std::mem::take(&mut self.batch));
    }

    fn write(&mut self, path: StorePath, content: Vec<u8>) {
        self.change(|batch| batch.write(path, content));
    }

    /// Moves large contents of an entry to separate records. Returns their number.
    fn write_large(&mut self, stored: &mut Stored, is_forced: bool) -> Result<usize, StoreError> {
        if !stored.entry.is_large() && !is_forced {
            return Ok(0);
        }
        let contents = std::mem::take(&mut stored.contents);
        for (part, contents) in contents.chunks(PART_BYTES).enumerate() {
            self.write(records::large_part(stored.entry.number, part), records::deflate(contents)?);
        }
        Ok(contents.len().div_ceil(PART_BYTES))
    }

    /// Replaces or removes the large contents of an edited entry.
    async fn replace_large(&mut self, edited: &mut Stored) -> Result<(), StoreError> {
        let directory = records::large(edited.entry.number);
        let old = match self.log.store.read_opts(&directory, ReadOptions::new()).await? {
            Node::Directory(listing) => listing.files,
            _ => return Ok(()),
        };
        if !edited.entry.is_large() {
            self.change(|batch| batch.remove(directory));
            return Ok(());
        }
        let parts = self.write_large(edited, true)?;
        let written: BTreeSet<_> = (0..parts).map(|part| records::large_part(edited.entry.number, part)).collect();
        for file in old.into_iter().filter(|file| !written.contains(&file.path)) {
            self.change(|batch| batch.remove(file.path));
        }
        Ok(())
    }

    async fn index(&mut self) -> Result<&mut Vec<IndexedBlock>, StoreError> {
        let index = match self.index.take() {
            Some(index) => index,
            None => match self.log.index(self.tip).await {
                Err(error) if matches!(error.kind(), ErrorKind::Damaged | ErrorKind::NotFound) => {
                    self.log.new_index(self.tip).await?
                }
                index => index?,
            },
        };
        Ok(self.index.insert(index))
    }

    async fn rewrite_blocks(&mut self, mut edited: BTreeMap<u64, Stored>) -> Result<(), StoreError> {
        let firsts: BTreeSet<_> = edited.keys().map(|number| self.tip.head.block_of(*number)).collect();
        for first in firsts {
            let stored = self.log.block(self.tip, first).await?.into_stored()?;
            let entries: Vec<_> = stored
                .into_iter()
                .map(|stored| Arc::new(edited.remove(&stored.entry.number).unwrap_or(stored)))
                .collect();
            let bytes = Block::to_bytes(&entries)?;
            let size = bytes.len() as u64;
            if let Some(block) = self.index().await?.iter_mut().find(|block| block.first == first) {
                *block = IndexedBlock::new(size, &entries);
            }
            self.write(records::block(first), bytes);
        }
        Ok(())
    }

    /// Puts all recent entries and a new one into a block.
    async fn add_block(&mut self, mut edited: BTreeMap<u64, Stored>, new: &Arc<Stored>) -> Result<(), StoreError> {
        let (first, mut entries) = (self.tip.head.blocks_end, Vec::new());
        for number in first..new.entry.number {
            entries.push(match edited.remove(&number) {
                Some(edited) => Arc::new(edited),
                None => self.log.entry(self.tip, number).await?,
            });
        }
        entries.push(Arc::clone(new));
        let block = Block::to_bytes(&entries)?;
        let indexed = IndexedBlock::new(block.len() as u64, &entries);
        self.index().await?.push(indexed);
        (self.head.blocks_end, self.head.tail) = (new.entry.number + 1, new.entry.id);
        if self.tip.newest() >= first {
            self.change(|batch| batch.remove(records::log()));
        }
        self.write(records::block(first), block);
        // A block that is edited cannot be removed in the same batch.
        if self.is_edited { Ok(()) } else { self.remove_exceeding().await }
    }

    /// Removes the blocks that exceed the limits. The newest one stays.
    pub(crate) async fn remove_exceeding(&mut self) -> Result<(), StoreError> {
        let (limits, now) = (self.head.limits, (self.log.clock)());
        let index = self.index().await?;
        let sizes: Vec<_> = index.iter().map(|block| (block.until, block.bytes)).collect();
        let removed: Vec<_> = index.drain(..limits.exceeded(&sizes, now)).collect();
        let first = index.first().map(|block| block.first);
        for block in removed {
            self.change(|batch| {
                let batch = batch.remove(records::block(block.first));
                block.large.into_iter().fold(batch, |batch, number| batch.remove(records::large(number)))
            });
        }
        self.head.first = first.unwrap_or(self.head.first);
        Ok(())
    }
}

impl<S: Store> Log<S> {
    /// Adds an entry to a batch, edits others, and applies all.
    ///
    /// # Errors
    /// The errors of the store. If the log [is outdated](is_outdated), nothing was changed.
    pub(crate) async fn append(
        &self,
        tip: &Arc<Tip>,
        batch: &Batch,
        required: Vec<(StorePath, Precondition)>,
        stored: Stored,
        edits: Edits,
    ) -> Result<Entry, StoreError> {
        let (records, head, stored) = Appending::new(self, tip, Batch::new())?.add(stored, edits).await?;
        // The batch may be large. It is copied when the kept contents are compressed.
        let batch = batch.clone().require_all(required).require_all(records.preconditions().iter().cloned());
        let batch = records.into_changes().into_iter().fold(batch, Batch::change);
        let changes_head = !tip.has_history() || head != tip.head || tip.claim.is_some();
        let applied = self.store.apply(batch).await;
        let next = (applied.is_ok() && !changes_head).then(|| {
            let mut next = Tip { last: None, ..Tip::clone(tip) };
            next.next += 1;
            next.recent.push(Some(Arc::clone(&stored)));
            Arc::new(next)
        });
        // After a failure, the end is unknown. After a change of the head, its version is.
        self.replace_tip(tip, next);
        applied.map(|()| stored.entry.clone())
    }

    /// Removes the blocks that exceed the limits. Returns the number of their entries.
    pub(crate) async fn trim(&self, tip: &Arc<Tip>) -> Result<u64, StoreError> {
        let mut appending = Appending::new(self, tip, Batch::new())?;
        appending.remove_exceeding().await?;
        let removed = appending.head.first - tip.head.first;
        if removed > 0 {
            let versions = self.recent_versions(tip).await?;
            let (batch, _) = appending.finish(Some(versions)).await?;
            let applied = self.store.apply(batch).await;
            self.replace_tip(tip, None);
            applied?;
        }
        Ok(removed)
    }
}
