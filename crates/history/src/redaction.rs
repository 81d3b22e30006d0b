//! Removes what entries contain.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use memory_tool_core::{Actor, Batch, ErrorKind, ReadOptions, Stat, Store, StorePath};

use crate::entry::{Entry, FileChange, Origin};
use crate::error::HistoryError;
use crate::log::{Log, Tip};
use crate::records::{self, Block, IndexedBlock, PART_BYTES, Stored};
use crate::store::HistoryStore;

/// Removes the changes of these entries, and then adds an entry that lists their numbers.
///
/// The head changes with them, so that no other session puts what it remembers into a block.
pub(crate) async fn redact<S: Store>(
    store: &HistoryStore<S>,
    tip: &Arc<Tip>,
    numbers: &[u64],
    actor: Option<&Actor>,
) -> Result<Entry, HistoryError> {
    let log = store.log();
    let numbers: BTreeSet<_> = numbers.iter().copied().collect();
    check(tip, &numbers)?;
    let mut head = tip.head.clone();
    head.revision += 1;
    let batch = rewrite(store, tip, &numbers).await?.write(records::head(), head.to_bytes()?);
    log.store.apply(tip.require(batch)).await?;
    let batch = actor.into_iter().fold(Batch::new().for_command("redact"), |batch, actor| batch.by(actor.clone()));
    let redacted: Vec<_> = numbers.into_iter().rev().collect();
    Ok(store.commit(batch, &Origin::Redaction(redacted)).await?)
}

/// Removes the path, size and hash of one change, and the contents that other changes keep.
pub(crate) async fn redact_change<S: Store>(
    store: &HistoryStore<S>,
    tip: &Arc<Tip>,
    (number, index): (u64, usize),
    keeping: &[(u64, usize)],
    actor: Option<&Actor>,
) -> Result<Entry, HistoryError> {
    let log = store.log();
    let mut numbers = BTreeSet::from([number]);
    numbers.extend(keeping.iter().map(|(number, _)| *number));
    check(tip, &numbers)?;
    let mut changed = Vec::new();
    for number_of_entry in numbers {
        let stored = log.entry(tip, number_of_entry).await?;
        if number_of_entry == number {
            change_of(&stored.entry, index)?;
        }
        let contents = log.contents(&stored).await?;
        let mut edited = Stored::clone(&stored);
        let mut kept = stored.entry.kept();
        edited.contents.clear();
        for (at, change) in edited.entry.changes.iter_mut().enumerate() {
            let content = match change.before().and_then(|before| before.digest).and_then(|_| kept.next()) {
                Some(kept) => kept.of(&contents).ok_or_else(|| crate::past::differing_contents(number_of_entry))?,
                None => &[],
            };
            if keeping.contains(&(number_of_entry, at)) {
                change.forget_before();
            } else {
                edited.contents.extend_from_slice(content);
            }
            if (number_of_entry, at) == (number, index) {
                *change = FileChange::Redacted { before: change.before().cloned() };
                edited.entry.is_redacted = true;
            }
        }
        changed.push((stored.entry.is_large(), edited));
    }
    let mut head = tip.head.clone();
    head.revision += 1;
    let batch = replace(store, tip, changed).await?.write(records::head(), head.to_bytes()?);
    log.store.apply(tip.require(batch)).await?;
    let batch = actor.into_iter().fold(Batch::new().for_command("redact"), |batch, actor| batch.by(actor.clone()));
    Ok(store.commit(batch, &Origin::Redaction(vec![number])).await?)
}

/// The contents that a change keeps.
pub(crate) async fn kept_contents<S: Store>(
    log: &Log<S>,
    tip: &Arc<Tip>,
    (number, index): (u64, usize),
) -> Result<Vec<u8>, HistoryError> {
    check(tip, &BTreeSet::from([number]))?;
    let stored = log.entry(tip, number).await?;
    let has_kept = |change: &FileChange| change.before().is_some_and(|before| before.digest.is_some());
    let (change, changes) = (change_of(&stored.entry, index)?, &stored.entry.changes);
    if !has_kept(change) {
        let path = change.path().cloned().unwrap_or_else(StorePath::memories);
        return Err(HistoryError::NotKept { path, number });
    }
    let position = changes[..index].iter().filter(|change| has_kept(change)).count();
    let contents = log.contents(&stored).await?;
    let content = stored.entry.kept().nth(position).and_then(|kept| kept.of(&contents).map(<[u8]>::to_vec));
    content.ok_or_else(|| crate::past::differing_contents(number).into())
}

fn change_of(entry: &Entry, index: usize) -> Result<&FileChange, HistoryError> {
    entry.changes.get(index).ok_or(HistoryError::NoChange { number: entry.number, index })
}

/// Replaces entries by edited ones with all their contents. Each comes with whether the stored contents are large.
async fn replace<S: Store>(
    store: &HistoryStore<S>,
    tip: &Arc<Tip>,
    changed: Vec<(bool, Stored)>,
) -> Result<Batch, HistoryError> {
    let log = store.log();
    let (mut batch, mut in_blocks) = (Batch::new(), BTreeMap::new());
    for (was_large, mut edited) in changed {
        let number = edited.entry.number;
        let parts: Vec<_> = edited.contents.chunks(PART_BYTES).map(records::deflate).collect::<Result<_, _>>()?;
        if edited.entry.is_large() {
            let old = log.store.read_opts(&records::large(number), ReadOptions::new()).await?.into_listing();
            let old = old.files.into_iter().map(|file| file.path).collect::<BTreeSet<_>>();
            let new: BTreeSet<_> = (0..parts.len()).map(|part| records::large_part(number, part)).collect();
            batch = old.difference(&new).fold(batch, |batch, part| batch.remove(part));
            for (path, part) in new.into_iter().zip(parts) {
                batch = batch.write(path, part);
            }
            edited.contents.clear();
        } else if was_large {
            batch = batch.remove(records::large(number));
        }
        if number < tip.head.blocks_end {
            in_blocks.insert(number, edited);
        } else {
            batch = batch.write(records::single(number), edited.to_bytes()?);
        }
    }
    if in_blocks.is_empty() {
        return Ok(batch);
    }
    let firsts: BTreeSet<_> = in_blocks.keys().map(|number| tip.head.block_of(*number)).collect();
    let mut index = log.index(tip).await?;
    for block in index.iter_mut().filter(|block| firsts.contains(&block.first)) {
        let stored = log.block(tip, block.first).await?.into_stored()?.into_iter();
        let edited = |stored: Stored| Arc::new(in_blocks.remove(&stored.entry.number).unwrap_or(stored));
        let entries: Vec<_> = stored.map(edited).collect();
        let bytes = Block::to_bytes(&entries)?;
        *block = IndexedBlock::new(bytes.len() as u64, &entries);
        batch = batch.write(records::block(block.first), bytes);
    }
    Ok(batch.write(records::index(), records::index_to_bytes(&index)?))
}

fn check(tip: &Tip, numbers: &BTreeSet<u64>) -> Result<(), HistoryError> {
    let (oldest, newest) = (tip.head.first, tip.newest());
    for number in numbers.iter().copied() {
        if number == 0 || number > newest {
            return Err(HistoryError::NoEntry { number, newest });
        }
        if number < oldest {
            return Err(HistoryError::Forgotten { oldest });
        }
    }
    Ok(())
}

async fn rewrite<S: Store>(
    store: &HistoryStore<S>,
    tip: &Arc<Tip>,
    numbers: &BTreeSet<u64>,
) -> Result<Batch, HistoryError> {
    let log = store.log();
    let mut batch = Batch::new();
    for number in numbers.range(tip.head.blocks_end..) {
        let redacted = match log.entry(tip, *number).await {
            Ok(stored) => {
                batch = remove_large(batch, &stored);
                redacted(&stored)
            }
            // Otherwise it would stop the change that completes its block.
            Err(error) if error.kind() == ErrorKind::Damaged => {
                if log.store.read_opts(&records::large(*number), ReadOptions::new()).await?.stat() != Stat::Absent {
                    batch = batch.remove(records::large(*number));
                }
                let mut unknown = store.new_entry(&Batch::new());
                (unknown.entry.number, unknown.entry.is_redacted) = (*number, true);
                unknown
            }
            Err(error) => return Err(error.into()),
        };
        batch = batch.write(records::single(*number), redacted.to_bytes()?);
    }
    let in_blocks: BTreeSet<_> =
        numbers.range(..tip.head.blocks_end).map(|number| tip.head.block_of(*number)).collect();
    if in_blocks.is_empty() {
        return Ok(batch);
    }
    let mut index = log.index(tip).await?;
    for block in index.iter_mut().filter(|block| in_blocks.contains(&block.first)) {
        let mut entries = Vec::new();
        for stored in log.block(tip, block.first).await?.into_stored()? {
            let is_redacted = numbers.contains(&stored.entry.number);
            if is_redacted {
                batch = remove_large(batch, &stored);
            }
            entries.push(Arc::new(if is_redacted { redacted(&stored) } else { stored }));
        }
        let bytes = Block::to_bytes(&entries)?;
        *block = IndexedBlock::new(bytes.len() as u64, &entries);
        batch = batch.write(records::block(block.first), bytes);
    }
    Ok(batch.write(records::index(), records::index_to_bytes(&index)?))
}

fn remove_large(batch: Batch, stored: &Stored) -> Batch {
    if stored.entry.is_large() { batch.remove(records::large(stored.entry.number)) } else { batch }
}

fn redacted(stored: &Stored) -> Stored {
    let entry = Entry { changes: Vec::new(), is_redacted: true, ..stored.entry.clone() };
    Stored { entry, contents: Vec::new() }
}
