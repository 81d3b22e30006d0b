//! [`Log`]: appends entries, and reads them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use memory_tool_core::{Batch, ErrorKind, Node, Precondition, ReadOptions, Store, StoreError, StorePath, StoredFile};
use tokio::sync::Mutex as AsyncMutex;

use crate::entry::Entry;
use crate::limits::{BLOCK, Limits};
use crate::records::{self, Block, Head, IndexedBlock, PART_BYTES, READING, Stored, damaged};

/// The log of a store.
///
/// A batch that changes files adds the entry with the next number, and requires that the number is free and that the
/// head has not changed. So the numbers order all batches, and a writer that gets a
/// number knew the whole log before it.
#[derive(Debug)]
pub(crate) struct Log<S> {
    pub(crate) store: S,
    /// The limits to set. `None` keeps those of the history.
    pub(crate) limits: Option<Limits>,
    pub(crate) clock: fn() -> SystemTime,
    /// The last known end of the log.
    tip: Mutex<Option<Arc<Tip>>>,
    /// The turn of a writer of this process that lost a number to another one. Without turns, each of many writers
    /// would make all others try again. The deadlines of the store bound a turn, and only writers that lost wait.
    pub(crate) turn: AsyncMutex<()>,
    /// The last block that was read with its contents, and the head at that time.
    block: Mutex<Option<(Head, Arc<Vec<Stored>>)>>,
}

/// The end of the log at some moment.
#[derive(Clone, Debug)]
pub(crate) struct Tip {
    pub(crate) head: Head,
    /// The precondition on the stored head.
    required: Precondition,
    /// The next number.
    pub(crate) next: u64,
    /// The entries that are in no block, oldest first. `None` if the entry was not read yet.
    recent: Vec<Option<Arc<Stored>>>,
}

impl Tip {
    /// The number of the newest entry, or of the last one that was removed.
    pub(crate) fn newest(&self) -> u64 {
        self.next - 1
    }

    /// Whether nothing was changed between the two.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (&self.head, self.next) == (&other.head, other.next)
    }

    /// Whether there is a history, perhaps without entries.
    pub(crate) fn has_history(&self) -> bool {
        self.required != Precondition::Absent
    }

    /// Requires that the head has not changed.
    pub(crate) fn require_head(&self, batch: Batch) -> Batch {
        batch.require(records::head(), self.required.clone())
    }

    /// Requires that this is still the end of the log.
    pub(crate) fn require(&self, batch: Batch) -> Batch {
        self.require_head(batch).require(records::single(self.next), Precondition::Absent)
    }

    /// Requires that this is still the end of the log when a read ends.
    pub(crate) fn require_in_read(&self) -> ReadOptions {
        ReadOptions::new()
            .require(records::head(), self.required.clone())
            .require(records::single(self.next), Precondition::Absent)
    }
}

/// Whether others changed the log, so that the caller has to read it again.
pub(crate) fn is_outdated(error: &StoreError) -> bool {
    match error {
        StoreError::VersionMismatch { path } | StoreError::AlreadyExists { path } | StoreError::NotFound { path } => {
            path.is_under(&records::root())
        }
        _ => false,
    }
}

/// Attempts to read the log while others change it. In each attempt, another writer succeeded.
const MAX_ATTEMPTS: usize = 1_000;

/// Attempts of an operation on the log.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    made: usize,
    last: Option<(Head, u64)>,
}

impl Attempts {
    fn has_seen(&self, tip: &Tip) -> bool {
        self.last.as_ref().is_some_and(|(head, next)| *head == tip.head && *next == tip.next)
    }

    /// Whether to try again after an error with this tip.
    ///
    /// # Errors
    /// The error itself, unless the log has changed since the last attempt. If it has not, a missing or unexpected
    /// record is damage. After too many attempts, the store is busy.
    pub(crate) fn again(&mut self, tip: &Tip, error: StoreError) -> Result<(), StoreError> {
        let seen = Some((tip.head.clone(), tip.next));
        if !is_outdated(&error) {
            return Err(error);
        }
        if self.made >= MAX_ATTEMPTS {
            return Err(StoreError::failure(ErrorKind::Busy, READING, "other sessions kept changing the memory"));
        }
        match &error {
            StoreError::NotFound { path } if self.last == seen => return Err(damaged(format!("{path} is missing"))),
            StoreError::AlreadyExists { path } if self.last == seen => {
                return Err(damaged(format!("{path} exists, but the head of the history does not know it")));
            }
            _ => {}
        }
        self.made += 1;
        self.last = seen;
        Ok(())
    }
}

impl<S: Store> Log<S> {
    pub(crate) fn new(store: S, limits: Option<Limits>) -> Self {
        Self {
            store,
            limits,
            clock: SystemTime::now,
            tip: Mutex::default(),
            turn: AsyncMutex::default(),
            block: Mutex::default(),
        }
    }

    /// The last known end of the log, which may be outdated.
    pub(crate) async fn tip(&self) -> Result<Arc<Tip>, StoreError> {
        let known = self.tip.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match known {
            Some(tip) => Ok(tip),
            None => self.load().await,
        }
    }

    /// The end of the log for another attempt. It is read again if it is the end of the last attempt, which a slow
    /// reader may have stored again.
    pub(crate) async fn tip_after(&self, attempts: &Attempts) -> Result<Arc<Tip>, StoreError> {
        let tip = self.tip().await?;
        if attempts.has_seen(&tip) { self.load().await } else { Ok(tip) }
    }

    /// Replaces the known end of the log if it is still this one.
    pub(crate) fn replace_tip(&self, known: &Tip, tip: Option<Arc<Tip>>) {
        let mut current = self.tip.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_none_or(|current| current.is_same(known)) {
            *current = tip;
        }
    }

    /// Forgets what is known about the log, because its records are removed.
    pub(crate) fn forget(&self) {
        *self.tip.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Reads the end of the log.
    pub(crate) async fn load(&self) -> Result<Arc<Tip>, StoreError> {
        loop {
            let (head, required) = match self.read(&records::head()).await? {
                Some(file) => (Head::parse(&file.content)?, Precondition::Version(file.version)),
                None => (Head::default(), Precondition::Absent),
            };
            let numbers = if required == Precondition::Absent { Ok(Vec::new()) } else { self.numbers(&required).await };
            let mut numbers = match numbers {
                Err(error) if is_outdated(&error) => continue,
                numbers => numbers?,
            };
            numbers.sort_unstable();
            let next = head.blocks_end + numbers.len() as u64;
            if !numbers.iter().copied().eq(head.blocks_end..next) {
                return Err(damaged("the log lacks an entry"));
            }
            let tip = Arc::new(Tip { head, required, next, recent: vec![None; numbers.len()] });
            *self.tip.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&tip));
            return Ok(tip);
        }
    }

    /// The numbers of the entries that are in no block, if the head has not changed.
    async fn numbers(&self, head: &Precondition) -> Result<Vec<u64>, StoreError> {
        let options = ReadOptions::new().require(records::head(), head.clone());
        let listing = self.store.read_opts(&records::log(), options).await?.into_listing();
        Ok(listing.files.iter().filter_map(|file| records::number(&file.path)).collect())
    }

    /// Adds an entry to a batch, and applies both.
    ///
    /// # Errors
    /// The errors of the store. If the log [is outdated](is_outdated), nothing was changed.
    pub(crate) async fn append(&self, tip: &Arc<Tip>, batch: Batch, mut stored: Stored) -> Result<Entry, StoreError> {
        let number = tip.next;
        let mut batch = tip.require(batch);
        if stored.entry.is_large() {
            for (part, contents) in std::mem::take(&mut stored.contents).chunks(PART_BYTES).enumerate() {
                batch = batch.write(records::large_part(number, part), records::deflate(contents)?);
            }
        }
        let stored = Arc::new(stored);
        let mut head = Head { limits: self.limits.unwrap_or(tip.head.limits), ..tip.head.clone() };
        if number + 1 - head.blocks_end == BLOCK {
            (batch, head) = self.add_block(tip, head, batch, &stored).await?;
        } else {
            batch = batch.write(records::single(number), stored.to_bytes()?);
        }
        let changes_head = !tip.has_history() || head != tip.head;
        if changes_head {
            batch = batch.write(records::head(), head.to_bytes()?);
        }
        let applied = self.store.apply(batch).await;
        let next = (applied.is_ok() && !changes_head).then(|| {
            let mut next = Tip::clone(tip);
            next.next += 1;
            next.recent.push(Some(Arc::clone(&stored)));
            Arc::new(next)
        });
        // After a failure, the end is unknown. After a change of the head, its version is.
        self.replace_tip(tip, next);
        applied.map(|()| stored.entry.clone())
    }

    /// Puts all recent entries and a new one into a block, and removes blocks that exceed the limits.
    async fn add_block(
        &self,
        tip: &Tip,
        mut head: Head,
        mut batch: Batch,
        new: &Arc<Stored>,
    ) -> Result<(Batch, Head), StoreError> {
        let mut entries = Vec::with_capacity(tip.recent.len() + 1);
        for (number, known) in (tip.head.blocks_end..).zip(&tip.recent) {
            entries.push(match known {
                Some(stored) => Arc::clone(stored),
                None => Arc::new(self.read_single(number).await?),
            });
        }
        entries.push(Arc::clone(new));
        let first = tip.head.blocks_end;
        let block = Block::to_bytes(&entries)?;
        let mut index = match self.index(tip).await {
            Err(error) if matches!(error.kind(), ErrorKind::Damaged | ErrorKind::NotFound) => {
                self.new_index(tip).await?
            }
            index => index?,
        };
        index.push(IndexedBlock::new(block.len() as u64, &entries));
        batch = self.remove_exceeding(batch, &mut head, &mut index);
        head.blocks_end = tip.next + 1;
        let batch = batch.remove(records::log()).write(records::block(first), block);
        Ok((batch.write(records::index(), records::index_to_bytes(&index)?), head))
    }

    /// Removes the blocks that exceed the limits. The newest one stays.
    fn remove_exceeding(&self, mut batch: Batch, head: &mut Head, index: &mut Vec<IndexedBlock>) -> Batch {
        let sizes: Vec<_> = index.iter().map(|block| (block.until, block.bytes)).collect();
        for block in index.drain(..head.limits.exceeded(&sizes, (self.clock)())) {
            batch = batch.remove(records::block(block.first));
            batch = block.large.into_iter().fold(batch, |batch, number| batch.remove(records::large(number)));
        }
        head.first = index.first().map_or(head.first, |block| block.first);
        batch
    }

    /// Removes the blocks that exceed the limits. Returns the number of their entries.
    pub(crate) async fn trim(&self, tip: &Tip) -> Result<u64, StoreError> {
        let mut head = Head { limits: self.limits.unwrap_or(tip.head.limits), ..tip.head.clone() };
        let mut index = self.index(tip).await?;
        let batch = self.remove_exceeding(tip.require(Batch::new()), &mut head, &mut index);
        let removed = head.first - tip.head.first;
        if removed > 0 {
            let batch = batch.write(records::index(), records::index_to_bytes(&index)?);
            let applied = self.store.apply(batch.write(records::head(), head.to_bytes()?)).await;
            self.replace_tip(tip, None);
            applied?;
        }
        Ok(removed)
    }

    /// Reads all blocks in place of a damaged index.
    async fn new_index(&self, tip: &Tip) -> Result<Vec<IndexedBlock>, StoreError> {
        let mut index = Vec::new();
        for first in tip.head.blocks() {
            let bytes = self.require(&records::block(first)).await?;
            let size = bytes.len() as u64;
            let entries: Vec<_> = Block::parse(bytes)?.into_stored()?.into_iter().map(Arc::new).collect();
            index.push(IndexedBlock::new(size, &entries));
        }
        index.reverse();
        Ok(index)
    }

    /// The index of all blocks, oldest first.
    pub(crate) async fn index(&self, tip: &Tip) -> Result<Vec<IndexedBlock>, StoreError> {
        if tip.head.blocks_end == tip.head.first {
            return Ok(Vec::new());
        }
        let index = records::parse_index(&self.require(&records::index()).await?)?;
        let is_whole = index.iter().rev().map(|block| block.first).eq(tip.head.blocks());
        if is_whole { Ok(index) } else { Err(StoreError::NotFound { path: records::index() }) }
    }

    /// The entry with this number, which is in the log.
    pub(crate) async fn entry(&self, tip: &Tip, number: u64) -> Result<Arc<Stored>, StoreError> {
        if let Some(position) = number.checked_sub(tip.head.blocks_end) {
            let known = usize::try_from(position).ok().and_then(|position| tip.recent.get(position)?.clone());
            return match known {
                Some(stored) => Ok(stored),
                None => Ok(Arc::new(self.read_single(number).await?)),
            };
        }
        let block = self.stored_block(tip, tip.head.block_of(number)).await?;
        let found = block.iter().find(|stored| stored.entry.number == number);
        found.cloned().map(Arc::new).ok_or_else(|| damaged("a block lacks an entry"))
    }

    /// The block that begins with this entry, with its contents.
    async fn stored_block(&self, tip: &Tip, first: u64) -> Result<Arc<Vec<Stored>>, StoreError> {
        let is_known = |head: &Head, block: &[Stored]| {
            *head == tip.head && block.first().is_some_and(|stored| stored.entry.number == first)
        };
        let known = self.block.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, block)) = known.filter(|(head, block)| is_known(head, block)) {
            return Ok(block);
        }
        let block = Arc::new(self.block(tip, first).await?.into_stored()?);
        *self.block.lock().unwrap_or_else(PoisonError::into_inner) = Some((tip.head.clone(), Arc::clone(&block)));
        Ok(block)
    }

    /// The block that begins with this entry.
    pub(crate) async fn block(&self, tip: &Tip, first: u64) -> Result<Block, StoreError> {
        let block = Block::parse(self.require(&records::block(first)).await?)?;
        let numbers = block.entries.iter().map(|entry| entry.number);
        if numbers.eq(first..(first + BLOCK).min(tip.head.blocks_end)) {
            Ok(block)
        } else {
            Err(damaged("a block has entries of another one"))
        }
    }

    async fn read_single(&self, number: u64) -> Result<Stored, StoreError> {
        let stored = Stored::parse(self.require(&records::single(number)).await?)?;
        if stored.entry.number == number { Ok(stored) } else { Err(damaged("an entry has the number of another one")) }
    }

    /// All contents of an entry, one after another.
    pub(crate) async fn contents(&self, stored: &Stored) -> Result<Vec<u8>, StoreError> {
        let entry = &stored.entry;
        if !entry.is_large() {
            return Ok(stored.contents.clone());
        }
        let (kept_bytes, mut contents) = (entry.kept_bytes(), Vec::new());
        for part in 0.. {
            if contents.len() as u64 >= kept_bytes {
                break;
            }
            let compressed = self.require(&records::large_part(entry.number, part)).await?;
            contents.append(&mut records::inflate(&compressed)?);
        }
        Ok(contents)
    }

    async fn require(&self, path: &StorePath) -> Result<Vec<u8>, StoreError> {
        let file = self.read(path).await?;
        file.map(|file| file.content).ok_or_else(|| StoreError::NotFound { path: path.clone() })
    }

    async fn read(&self, path: &StorePath) -> Result<Option<StoredFile>, StoreError> {
        match self.store.read_opts(path, ReadOptions::new()).await? {
            Node::File(file) => Ok(Some(file)),
            Node::Absent => Ok(None),
            Node::Directory(_) => {
                Err(StoreError::failure(ErrorKind::Damaged, READING, format!("{path} is a directory")))
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use memory_tool_core::{InMemoryStore, StoreExt as _};

    use super::*;
    use crate::store::HistoryStore;

    /// Otherwise the writer would meet the same end twice, and take it for damage.
    #[tokio::test]
    async fn an_end_that_a_slow_reader_stores_again_is_read_again() {
        let inner = Arc::new(InMemoryStore::new());
        let (late, other) = (HistoryStore::new(Arc::clone(&inner)), HistoryStore::new(inner));
        late.write("/memories/a", "one").await.unwrap();
        let old = late.log().load().await.unwrap();
        other.write("/memories/a", "two").await.unwrap();
        let mut attempts = Attempts::default();
        attempts.again(&old, StoreError::AlreadyExists { path: records::single(old.next) }).unwrap();
        *late.log().tip.lock().unwrap() = Some(Arc::clone(&old));
        assert_eq!(late.log().tip_after(&attempts).await.unwrap().next, old.next + 1);
    }
}
