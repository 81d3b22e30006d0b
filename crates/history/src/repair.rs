//! Mends a damaged log, and keeps what is sound.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use memory_tool_core::{Batch, ErrorKind, Node, Precondition, ReadOptions, Store, StoreError, StorePath, Version};

use crate::entry::Entry;
use crate::hex::Id;
use crate::limits::BLOCK;
use crate::log::Log;
use crate::records::{self, Block, Head, IndexedBlock, Stored};
use crate::tip::is_outdated;

/// Replaces lost recent entries, and removes unreadable blocks with all older ones. Returns the repairs, in words.
pub(crate) async fn repair<S: Store>(log: &Log<S>) -> Result<Vec<String>, StoreError> {
    let mut attempts = log.attempts();
    loop {
        match Repair::of(log).await?.apply(log).await {
            Err(error) if is_outdated(&error) => attempts.count()?,
            done => return done,
        }
    }
}

/// The stored log, and its repairs.
struct Repair {
    batch: Batch,
    head: Head,
    /// The readable recent entries.
    recent: BTreeMap<u64, Stored>,
    /// The numbers of all recent records.
    numbers: Vec<u64>,
    done: Vec<String>,
}

impl Repair {
    async fn of<S: Store>(log: &Log<S>) -> Result<Self, StoreError> {
        let (bytes, version) = read(log, &records::head()).await?.unzip();
        let head = bytes.map(|bytes| Head::parse(&bytes).map(|record| record.head));
        let required = version.map_or(Precondition::Absent, Precondition::Version);
        let batch = Batch::new().require(records::head(), required);
        let (recent, numbers, done) = (BTreeMap::new(), Vec::new(), Vec::new());
        let mut repair = Self { batch, head: Head::born()?, recent, numbers, done };
        repair.read_recent(log).await?;
        match head {
            None if !records::is_present(&log.store, &records::root()).await? => return Ok(repair),
            Some(Ok(head)) => repair.head = head,
            Some(Err(error)) if error.kind() != ErrorKind::Damaged => return Err(error),
            None | Some(Err(_)) => repair.find_head(log).await?,
        }
        repair.remove_strays();
        repair.cut_blocks(log).await?;
        repair.fill_gaps(log).await?;
        repair.remove_damaged_births(log).await?;
        Ok(repair)
    }

    /// Makes a head for the blocks, or for the recent entries.
    async fn find_head<S: Store>(&mut self, log: &Log<S>) -> Result<(), StoreError> {
        let listing = log.store.read_opts(&records::blocks(), ReadOptions::new()).await?.into_listing();
        let blocks: BTreeSet<_> = listing.files.iter().filter_map(|file| records::number(&file.path)).collect();
        let is_whole = |(first, last): (&u64, &u64)| *first > 0 && (last - first).is_multiple_of(BLOCK);
        let range = blocks.first().zip(blocks.last()).filter(|range| is_whole(*range));
        (self.head.first, self.head.blocks_end) = match range {
            Some((first, last)) => (*first, last + BLOCK),
            None => self.numbers.first().map_or((1, 1), |first| (*first, *first)),
        };
        if let Some((_, last)) = range
            && let Some((entries, _)) = block(log, *last).await?
        {
            self.head.tail = entries.last().map_or(self.head.id, |stored| stored.entry.id);
        } else if let Some(first) = self.recent.get(&self.head.blocks_end) {
            self.head.tail = first.entry.after;
        }
        self.done.push("wrote the head again".to_owned());
        Ok(())
    }

    /// Removes recent records of entries that are in a block.
    fn remove_strays(&mut self) {
        let end = self.head.blocks_end;
        for number in self.numbers.extract_if(.., |number| *number < end) {
            self.batch = std::mem::take(&mut self.batch).remove(records::single(number));
            self.done.push(format!("removed a second record of entry {number}"));
        }
    }

    async fn remove_damaged_births<S: Store>(&mut self, log: &Log<S>) -> Result<(), StoreError> {
        match log.births(ReadOptions::new()).await {
            Err(error) if error.kind() == ErrorKind::Damaged => {
                self.batch = std::mem::take(&mut self.batch).remove(records::births());
                self.done.push("removed the identities of the files, which cannot be read".to_owned());
                Ok(())
            }
            births => births.map(drop),
        }
    }

    async fn read_recent<S: Store>(&mut self, log: &Log<S>) -> Result<(), StoreError> {
        let listing = log.store.read_opts(&records::log(), ReadOptions::new()).await?.into_listing();
        self.numbers = listing.files.iter().filter_map(|file| records::number(&file.path)).collect();
        self.numbers.sort_unstable();
        for number in self.numbers.clone() {
            let Some((bytes, version)) = read(log, &records::single(number)).await? else { continue };
            let required = Precondition::Version(version);
            self.batch = std::mem::take(&mut self.batch).require(records::single(number), required);
            let stored = Stored::parse(bytes).ok().filter(|stored| stored.entry.number == number);
            self.recent.extend(stored.map(|stored| (number, stored)));
        }
        Ok(())
    }

    /// Puts entries without changes in the places of lost ones.
    async fn fill_gaps<S: Store>(&mut self, log: &Log<S>) -> Result<(), StoreError> {
        let Some(newest) = self.numbers.last().copied() else { return Ok(()) };
        if newest + 1 - self.head.blocks_end >= BLOCK {
            return self.cut_before_last_gap(log).await;
        }
        for number in self.head.blocks_end..=newest {
            if !self.recent.contains_key(&number) {
                let entry = Entry { number, id: Id::random()?, is_redacted: true, ..log.new_entry() };
                let bytes = Stored { entry, contents: Vec::new() }.to_bytes()?;
                self.batch = std::mem::take(&mut self.batch).write(records::single(number), bytes);
                self.done.push(format!("replaced the lost entry {number} with an entry without changes"));
            }
        }
        Ok(())
    }

    /// Lets the log begin after its last gap.
    async fn cut_before_last_gap<S: Store>(&mut self, log: &Log<S>) -> Result<(), StoreError> {
        let newest = self.numbers.last().copied().unwrap_or(0);
        let mut first = newest + 1;
        while self.recent.contains_key(&(first - 1)) && newest + 2 - first < BLOCK {
            first -= 1;
        }
        let mut batch = std::mem::take(&mut self.batch);
        for directory in [records::blocks(), records::index()] {
            if records::is_present(&log.store, &directory).await? {
                batch = batch.remove(directory);
            }
        }
        let removed = self.numbers.iter().filter(|number| **number < first);
        self.batch = removed.fold(batch, |batch, number| batch.remove(records::single(*number)));
        let tail = self.recent.get(&first).map_or(self.head.id, |stored| stored.entry.after);
        (self.head.first, self.head.blocks_end, self.head.tail) = (first, first, tail);
        self.done.push(format!("removed the history before entry {first}, which cannot be read"));
        Ok(())
    }

    /// Removes the blocks up to the newest one that cannot be read, and writes the index of the others.
    async fn cut_blocks<S: Store>(&mut self, log: &Log<S>) -> Result<(), StoreError> {
        let (mut index, mut lost) = (Vec::new(), None);
        for first in self.head.blocks() {
            match block(log, first).await? {
                Some((block, size)) if lost.is_none() => index.push(IndexedBlock::new(size, &block)),
                _ => lost = lost.or(Some(first)),
            }
        }
        index.reverse();
        let written = records::to_lines(&index)?;
        let stored = read(log, &records::index()).await?;
        let is_indexed = stored.as_ref().map_or(index.is_empty(), |(bytes, _)| *bytes == written);
        if let Some(lost) = lost {
            for first in self.head.blocks().filter(|first| *first <= lost) {
                if records::is_present(&log.store, &records::block(first)).await? {
                    self.batch = std::mem::take(&mut self.batch).remove(records::block(first));
                }
            }
            self.head.first = lost + BLOCK;
            self.done.push(format!("removed the history before entry {}, which cannot be read", self.head.first));
        }
        if !is_indexed {
            self.batch = std::mem::take(&mut self.batch).write(records::index(), written);
            self.done.push("wrote the index again".to_owned());
        }
        Ok(())
    }

    /// Removes the large contents of entries before the log.
    async fn remove_old_large<S: Store>(&mut self, log: &Log<S>) -> Result<(), StoreError> {
        let listing = log.store.read_opts(&records::all_large(), ReadOptions::new()).await?.into_listing();
        let directories: BTreeSet<_> = listing.files.iter().filter_map(|file| file.path.parents().next()).collect();
        for directory in directories {
            if records::number(&directory).is_some_and(|number| number < self.head.first) {
                self.batch = std::mem::take(&mut self.batch).remove(directory);
            }
        }
        Ok(())
    }

    async fn apply<S: Store>(mut self, log: &Log<S>) -> Result<Vec<String>, StoreError> {
        if self.done.is_empty() {
            return Ok(self.done);
        }
        self.remove_old_large(log).await?;
        self.head.revision = Id::random()?;
        let head = records::to_json(&self.head)?;
        let applied = log.store.apply(self.batch.write(records::head(), head)).await;
        log.forget();
        applied.map(|()| self.done)
    }
}

/// A readable record and its version.
async fn read<S: Store>(log: &Log<S>, path: &StorePath) -> Result<Option<(Vec<u8>, Version)>, StoreError> {
    match log.store.read_opts(path, ReadOptions::new()).await {
        Ok(Node::File(file)) => Ok(Some((file.content, file.version))),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == ErrorKind::Damaged => Ok(None),
        Err(error) => Err(error),
    }
}

/// A whole block and its size.
async fn block<S: Store>(log: &Log<S>, first: u64) -> Result<Option<(Vec<Arc<Stored>>, u64)>, StoreError> {
    let Some((bytes, _)) = read(log, &records::block(first)).await? else { return Ok(None) };
    let size = bytes.len() as u64;
    let stored = Block::parse(bytes).and_then(Block::into_stored);
    let is_whole = |stored: &Vec<Stored>| stored.iter().map(|stored| stored.entry.number).eq(first..first + BLOCK);
    Ok(stored.ok().filter(is_whole).map(|stored| (stored.into_iter().map(Arc::new).collect(), size)))
}
