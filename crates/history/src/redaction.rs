//! Removes what entries contain.

use std::collections::BTreeSet;
use std::sync::Arc;

use memory_tool_core::{Actor, Batch, ErrorKind, ReadOptions, Stat, Store};

use crate::entry::{Entry, Origin};
use crate::error::HistoryError;
use crate::log::Tip;
use crate::records::{self, Block, IndexedBlock, Stored};
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
    let (oldest, newest) = (tip.head.first, tip.newest());
    let numbers: BTreeSet<_> = numbers.iter().copied().collect();
    for number in numbers.iter().copied() {
        if number == 0 || number > newest {
            return Err(HistoryError::NoEntry { number, newest });
        }
        if number < oldest {
            return Err(HistoryError::Forgotten { oldest });
        }
    }
    let mut head = tip.head.clone();
    head.revision += 1;
    let batch = rewrite(store, tip, &numbers).await?.write(records::head(), head.to_bytes()?);
    log.store.apply(tip.require(batch)).await?;
    let batch = actor.into_iter().fold(Batch::new().for_command("redact"), |batch, actor| batch.by(actor.clone()));
    let redacted: Vec<_> = numbers.into_iter().rev().collect();
    Ok(store.commit(batch, &Origin::Redaction(redacted)).await?)
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
