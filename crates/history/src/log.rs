//! [`Log`]: appends entries, and reads them.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use memory_tool_core::{
    ErrorKind, Node, Precondition, ReadOptions, Store, StoreError, StorePath, StoredFile, Version, lock, now,
};
use tokio::sync::Mutex as AsyncMutex;

use crate::attempts::Attempts;
use crate::entry::{Entry, Origin, to_the_millisecond};
use crate::error::HistoryError;
use crate::hex::Id;
use crate::limits::{BLOCK, Limits};
use crate::plan::Plans;
use crate::records::{self, Block, Head, HeadRecord, IndexedBlock, READING, REPAIR_IT, Stored, damaged};
use crate::tip::{Tip, is_chain, is_outdated};

/// The default of [`OpenOptions::timeout`](memory_tool_core::OpenOptions::timeout).
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The log of a store.
///
/// A batch that changes files adds the entry with the next number. It requires that the number is free, and that the
/// head and the entry before have not changed. So the numbers order all batches, and a writer that gets a number knew
/// the whole log before it, even if the store was restored or cleared before.
#[derive(Debug)]
pub(crate) struct Log<S> {
    pub(crate) store: S,
    /// The limits to set. `None` keeps those of the history.
    pub(crate) limits: Option<Limits>,
    pub(crate) clock: fn() -> SystemTime,
    /// How long an operation tries again while others change the memory.
    pub(crate) timeout: Duration,
    /// The last known end of the log.
    tip: Mutex<Option<Arc<Tip>>>,
    /// The turn of a writer of this process that lost a number to another one. Without turns, each of many writers
    /// would make all others try again. The deadlines of the store bound a turn, and only writers that lost wait.
    pub(crate) turn: AsyncMutex<()>,
    /// The last block that was read with its contents, and the head at that time.
    block: Mutex<Option<(Head, Arc<Vec<Stored>>)>>,
    /// The plans of operations of this process, by the names of their marks.
    pub(crate) plans: Plans,
}

/// The entries or files that are read at the same time.
pub(crate) const PARALLEL_READS: usize = 16;

impl<S: Store> Log<S> {
    pub(crate) fn new(store: S, limits: Option<Limits>) -> Self {
        Self {
            store,
            limits,
            clock: now,
            timeout: DEFAULT_TIMEOUT,
            tip: Mutex::default(),
            turn: AsyncMutex::default(),
            block: Mutex::default(),
            plans: Plans::default(),
        }
    }

    pub(crate) fn attempts(&self) -> Attempts {
        Attempts::until(self.timeout)
    }

    /// Reads at the end of the log, and reads again after each change of it that came between.
    pub(crate) async fn retry<T, E, F>(&self, read: impl Fn(Arc<Tip>) -> F) -> Result<T, HistoryError>
    where
        E: Into<HistoryError>,
        F: Future<Output = Result<T, E>>,
    {
        let mut attempts = self.attempts();
        loop {
            let tip = self.load().await?;
            match read(Arc::clone(&tip)).await.map_err(Into::into) {
                Err(HistoryError::Store(error)) => attempts.again(&tip, error)?,
                outcome => return outcome,
            }
        }
    }

    /// An entry of this moment, without its number and changes.
    pub(crate) fn new_entry(&self) -> Entry {
        Entry {
            number: 0,
            id: Id::default(),
            after: Id::default(),
            time: to_the_millisecond((self.clock)()),
            actor: None,
            authors: Vec::new(),
            reason: None,
            command: None,
            origin: Origin::Edit,
            changes: Vec::new(),
            is_redacted: false,
        }
    }

    fn known(&self) -> Option<Arc<Tip>> {
        lock(&self.tip).clone()
    }

    /// The last known end of the log, which may be outdated, with the versions that a batch requires. After a change by
    /// this process, the version of the newest entry has to be read.
    pub(crate) async fn tip(&self) -> Result<Arc<Tip>, StoreError> {
        let Some(tip) = self.known() else { return self.load().await };
        if tip.recent.is_empty() || tip.last.is_some() {
            return Ok(tip);
        }
        let (_, version) = match self.read_versioned(tip.newest(), ReadOptions::new().allow_stale()).await {
            Err(error) if error.kind() == ErrorKind::Damaged => return Ok(tip),
            Ok(Some(found)) if found.0.entry.id == tip.last_id() => found,
            Ok(_) => return self.load().await,
            Err(error) => return Err(error),
        };
        let complete = Arc::new(Tip { last: Some(version), ..Tip::clone(&tip) });
        self.replace_tip(&tip, Some(Arc::clone(&complete)));
        Ok(complete)
    }

    /// The end of the log for another attempt. It is read again if it is the end of the last attempt, which a slow
    /// reader may have stored again.
    pub(crate) async fn tip_after(&self, attempts: &Attempts) -> Result<Arc<Tip>, StoreError> {
        let tip = self.tip().await?;
        if attempts.has_seen(&tip) { self.load().await } else { Ok(tip) }
    }

    /// Replaces the known end of the log if it is still this one.
    pub(crate) fn replace_tip(&self, known: &Tip, tip: Option<Arc<Tip>>) {
        let mut current = lock(&self.tip);
        if current.as_ref().is_none_or(|current| current.is_same(known)) {
            *current = tip;
        }
    }

    /// Forgets what is known about the log, because its records are removed.
    pub(crate) fn forget(&self) {
        *lock(&self.tip) = None;
        *lock(&self.block) = None;
    }

    /// Reads the end of the log.
    pub(crate) async fn load(&self) -> Result<Arc<Tip>, StoreError> {
        let mut attempts = self.attempts();
        loop {
            match self.load_after(self.known().as_deref()).await {
                Err(error) if is_outdated(&error) => attempts.count()?,
                loaded => {
                    let tip = Arc::new(loaded?);
                    *lock(&self.tip) = Some(Arc::clone(&tip));
                    return Ok(tip);
                }
            }
        }
    }

    /// Reads the end of the log, and the entries since another end if the log continues it.
    async fn load_after(&self, known: Option<&Tip>) -> Result<Tip, StoreError> {
        let Some(file) = self.read_opts(&records::head(), ReadOptions::new()).await? else {
            let (head, required) = (Head::absent(), Precondition::Absent);
            return Ok(Tip { head, required, claim: None, next: 1, recent: Vec::new(), last: None });
        };
        let HeadRecord { head, claim } = Head::parse(&file.content)?;
        let required = Precondition::Version(file.version);
        let mut numbers = self.numbers(&required).await?;
        numbers.sort_unstable();
        let next = head.blocks_end + numbers.len() as u64;
        if !numbers.iter().copied().eq(head.blocks_end..next) {
            return Err(damaged(format!("the log lacks an entry; {REPAIR_IT}")));
        }
        let mut tip = Tip { head, required, claim, next, recent: vec![None; numbers.len()], last: None };
        if let Some(newest) = tip.recent.last_mut() {
            match self.read_versioned(next - 1, ReadOptions::new()).await {
                Ok(Some((stored, version))) => (*newest, tip.last) = (Some(Arc::new(stored)), Some(version)),
                Ok(None) => return Err(StoreError::NotFound { path: records::single(next - 1) }),
                // It stops no change of other files.
                Err(error) if error.kind() == ErrorKind::Damaged => {}
                Err(error) => return Err(error),
            }
        }
        if let Some(known) = known.filter(|known| known.head == tip.head && known.next <= tip.next) {
            self.continue_from(known, &mut tip).await?;
        }
        Ok(tip)
    }

    /// Takes the entries over from an end of the log that this one continues.
    async fn continue_from(&self, known: &Tip, tip: &mut Tip) -> Result<(), StoreError> {
        let reads = (known.next..tip.newest()).map(|number| self.read_single(number));
        let new: Vec<_> = stream::iter(reads).buffered(PARALLEL_READS).try_collect().await?;
        let mut new: Vec<_> = new.into_iter().map(Arc::new).collect();
        if known.next < tip.next {
            new.extend(tip.recent.last().cloned().flatten());
        }
        if is_chain(known.last_id(), new.iter().map(|stored| &stored.entry))
            && (known.next < tip.next || known.last_id() == tip.last_id())
        {
            tip.recent = known.recent.iter().cloned().chain(new.into_iter().map(Some)).collect();
        }
        Ok(())
    }

    /// The numbers of the entries that are in no block, if the head has not changed.
    async fn numbers(&self, head: &Precondition) -> Result<Vec<u64>, StoreError> {
        let options = ReadOptions::new().require(records::head(), head.clone());
        let listing = self.store.read_opts(&records::log(), options).await?.into_listing();
        Ok(listing.files.iter().filter_map(|file| records::number(&file.path)).collect())
    }

    /// Reads all blocks in place of a damaged index.
    pub(crate) async fn new_index(&self, tip: &Tip) -> Result<Vec<IndexedBlock>, StoreError> {
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
        let index: Vec<IndexedBlock> = records::parse_lines(&self.require(&records::index()).await?)?;
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
        let known = lock(&self.block).clone();
        if let Some((_, block)) = known.filter(|(head, block)| is_known(head, block)) {
            return Ok(block);
        }
        let block = Arc::new(self.block(tip, first).await?.into_stored()?);
        *lock(&self.block) = Some((tip.head.clone(), Arc::clone(&block)));
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

    pub(crate) async fn read_single(&self, number: u64) -> Result<Stored, StoreError> {
        let found = self.read_versioned(number, ReadOptions::new()).await?;
        found.map(|(stored, _)| stored).ok_or_else(|| StoreError::NotFound { path: records::single(number) })
    }

    /// A recent entry, and the version of its record.
    async fn read_versioned(&self, number: u64, options: ReadOptions) -> Result<Option<(Stored, Version)>, StoreError> {
        let Some(file) = self.read_opts(&records::single(number), options).await? else { return Ok(None) };
        let stored = Stored::parse(file.content)?;
        let is_named = stored.entry.number == number;
        is_named
            .then_some(Some((stored, file.version)))
            .ok_or_else(|| damaged("an entry has the number of another one"))
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
        let file = self.read_opts(path, ReadOptions::new()).await?;
        file.map(|file| file.content).ok_or_else(|| StoreError::NotFound { path: path.clone() })
    }

    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Option<StoredFile>, StoreError> {
        match self.store.read_opts(path, options).await? {
            Node::File(file) => Ok(Some(file)),
            Node::Absent => Ok(None),
            Node::Directory(_) => {
                Err(StoreError::failure(ErrorKind::Damaged, READING, format!("{path} is a directory")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use memory_tool_core::{Batch, InMemoryStore, StoreExt as _};

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
        let mut attempts = late.log().attempts();
        attempts.again(&old, StoreError::AlreadyExists { path: records::single(old.next) }).unwrap();
        *late.log().tip.lock().unwrap() = Some(Arc::clone(&old));
        assert_eq!(late.log().tip_after(&attempts).await.unwrap().next, old.next + 1);
    }

    /// The end of the restored log is the one that the writer knew, and another writer is first again.
    #[tokio::test]
    async fn an_older_state_that_is_restored_between_two_attempts_is_no_damage() {
        let inner = Arc::new(InMemoryStore::new());
        let (late, other) = (HistoryStore::new(Arc::clone(&inner)), HistoryStore::new(Arc::clone(&inner)));
        late.write("/memories/a", "one").await.unwrap();
        let (log, mut attempts) = (late.log(), late.log().attempts());
        let known = log.load().await.unwrap();
        let taken = || StoreError::AlreadyExists { path: records::single(known.next) };
        other.write("/memories/a", "two").await.unwrap();
        attempts.again(&known, taken()).unwrap();
        let restored = Batch::new().remove(records::single(known.next)).write(a(), "one");
        inner.apply(restored).await.unwrap();
        let restored = log.load().await.unwrap();
        assert!(restored.is_same(&known));
        other.write("/memories/a", "three").await.unwrap();
        attempts.again(&restored, taken()).unwrap();
        assert!(attempts.again(&restored, taken()).is_err(), "the end stays the same");
    }

    fn a() -> StorePath {
        "/memories/a".parse().unwrap()
    }
}
