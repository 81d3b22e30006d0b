//! [`Past`]: the files of a memory after an earlier entry.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use memory_tool_core::{
    Batch, FileEntry, Listing, Node, ReadOptions, Stat, Store, StoreError, StorePath, StoredFile, Version,
};

use crate::entry::{Digest, Entry, FileChange, KeptContents};
use crate::error::HistoryError;
use crate::log::{Attempts, Log, Tip};
use crate::records::damaged;
use crate::store::HistoryStore;

/// The location of the contents of an earlier file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Source {
    /// They are the present contents of a file with this path.
    Present(FileEntry),
    /// An entry keeps them, or `None` if they are not kept.
    Past(u64, Option<KeptContents>),
}

impl Source {
    /// The present path of the file. `None` if only the history has its contents.
    pub(crate) fn present(&self) -> Option<&StorePath> {
        match self {
            Self::Present(file) => Some(&file.path),
            Self::Past(..) => None,
        }
    }

    fn listed(&self, path: &StorePath) -> FileEntry {
        match self {
            Self::Present(file) => {
                let mut file = file.clone();
                file.path = path.clone();
                file
            }
            Self::Past(_, Some(kept)) => FileEntry::new(path.clone(), kept.digest.size),
            Self::Past(_, None) => FileEntry::damaged(path.clone(), 0),
        }
    }
}

/// The files of a memory at some moment.
#[derive(Clone, Debug)]
pub(crate) struct Files(pub(crate) BTreeMap<StorePath, Source>);

impl Files {
    /// The present files, if this is still the end of the log.
    pub(crate) async fn present<S: Store>(log: &Log<S>, tip: &Tip) -> Result<Self, StoreError> {
        let listing = log.store.read_opts(&StorePath::memories(), tip.require_in_read()).await?.into_listing();
        Ok(Self(listing.files.into_iter().map(|file| (file.path.clone(), Source::Present(file))).collect()))
    }

    /// The files before an entry, if these are the files after it.
    pub(crate) fn take_back(&mut self, entry: &Entry) {
        let mut kept = entry.kept();
        for change in &entry.changes {
            match change {
                FileChange::Write { path, before: Some(before), .. } | FileChange::Remove { path, before } => {
                    let kept = before.digest.and_then(|_| kept.next());
                    self.0.insert(path.clone(), Source::Past(entry.number, kept));
                }
                FileChange::Write { path, before: None, .. } => _ = self.0.remove(path),
                FileChange::Rename { from, to } => self.rename(to, from),
                FileChange::Redacted { before } => {
                    _ = before.as_ref().and_then(|it| it.digest).and_then(|_| kept.next());
                }
            }
        }
    }

    fn rename(&mut self, from: &StorePath, to: &StorePath) {
        let moved: Vec<_> = self.under(from).map(|(path, _)| path.clone()).collect();
        for path in moved {
            if let (Ok(moved), Some(source)) = (path.replace_prefix(from, to), self.0.remove(&path)) {
                self.0.insert(moved, source);
            }
        }
    }

    /// The files at or under a path.
    pub(crate) fn under<'a>(&'a self, path: &'a StorePath) -> impl Iterator<Item = (&'a StorePath, &'a Source)> {
        self.0.range(path..).take_while(move |(file, _)| *file == path || file.is_under(path))
    }
}

/// The memory after an earlier entry.
///
/// Changes by other programs count as if they had been made right after the entry before them.
#[derive(Debug)]
pub struct Past<S> {
    store: HistoryStore<S>,
    number: u64,
    /// The files, as computed from this end of the log.
    files: Mutex<Option<(Arc<Tip>, Arc<Files>)>>,
}

impl<S: Store> Past<S> {
    pub(crate) fn new(store: HistoryStore<S>, number: u64) -> Self {
        Self { store, number, files: Mutex::default() }
    }

    /// The entry after which the memory was like this.
    pub fn number(&self) -> u64 {
        self.number
    }

    pub(crate) async fn read(&self, path: &StorePath) -> Result<Node, HistoryError> {
        let (log, mut attempts) = (self.store.log(), Attempts::default());
        loop {
            let tip = log.tip_after(&attempts).await?;
            match self.read_at(&tip, path).await {
                Err(HistoryError::Store(error)) => attempts.again(&tip, error)?,
                outcome => return outcome,
            }
            log.replace_tip(&tip, None);
        }
    }

    async fn files(&self, tip: &Arc<Tip>) -> Result<Arc<Files>, HistoryError> {
        let known = self.files.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, files)) = known.filter(|(known, _)| known.is_same(tip)) {
            return Ok(files);
        }
        let files = Arc::new(files_after(self.store.log(), tip, self.number).await?);
        let known = Some((Arc::clone(tip), Arc::clone(&files)));
        *self.files.lock().unwrap_or_else(PoisonError::into_inner) = known;
        Ok(files)
    }

    async fn read_at(&self, tip: &Arc<Tip>, path: &StorePath) -> Result<Node, HistoryError> {
        let files = self.files(tip).await?;
        if let Some(source) = files.0.get(path) {
            let content = Reader::new(self.store.log(), tip).read(path, source).await?;
            let version = Version::new(*Digest::of(&content).sha256.as_bytes());
            return Ok(Node::File(StoredFile::new(content, version)));
        }
        let listed: Vec<_> = files.under(path).map(|(path, source)| source.listed(path)).collect();
        let is_directory = path.is_root() || !listed.is_empty();
        Ok(if is_directory { Node::Directory(Listing::from(listed)) } else { Node::Absent })
    }
}

/// The files after an entry.
///
/// # Errors
/// [`HistoryError::NoEntry`], [`HistoryError::Forgotten`] and [`HistoryError::Redacted`].
pub(crate) async fn files_after<S: Store>(log: &Log<S>, tip: &Arc<Tip>, number: u64) -> Result<Files, HistoryError> {
    let (oldest, newest) = (tip.head.first, tip.newest());
    if number > newest {
        return Err(HistoryError::NoEntry { number, newest });
    }
    if number + 1 < oldest {
        return Err(HistoryError::Forgotten { oldest });
    }
    let mut files = Files::present(log, tip).await?;
    let mut reader = Backwards::from(log, tip, newest);
    while let Some(entry) = reader.next().await? {
        if entry.number == number {
            break;
        }
        if entry.is_redacted {
            return Err(HistoryError::Redacted { number: entry.number });
        }
        files.take_back(&entry);
    }
    Ok(files)
}

/// Reads the contents of earlier files. It keeps the contents of the last entry, because these can be of many files.
pub(crate) struct Reader<'a, S> {
    log: &'a Log<S>,
    tip: &'a Arc<Tip>,
    last: Option<(u64, Vec<u8>)>,
}

impl<'a, S: Store> Reader<'a, S> {
    pub(crate) fn new(log: &'a Log<S>, tip: &'a Arc<Tip>) -> Self {
        Self { log, tip, last: None }
    }

    pub(crate) async fn read(&mut self, path: &StorePath, source: &Source) -> Result<Vec<u8>, HistoryError> {
        match source {
            Source::Present(file) => match self.log.store.read_opts(&file.path, self.tip.require_in_read()).await? {
                Node::File(file) => Ok(file.content),
                _ => Err(HistoryError::Changed { paths: vec![file.path.clone()] }),
            },
            Source::Past(number, kept) => {
                let kept = kept.ok_or_else(|| HistoryError::NotKept { path: path.clone(), number: *number })?;
                let content = kept.of(self.contents(*number).await?).ok_or_else(|| differing_contents(*number))?;
                Ok(content.to_vec())
            }
        }
    }

    async fn contents(&mut self, number: u64) -> Result<&[u8], HistoryError> {
        let contents = match self.last.take().filter(|(last, _)| *last == number) {
            Some((_, contents)) => contents,
            None => self.log.contents(&*self.log.entry(self.tip, number).await?).await?,
        };
        Ok(&self.last.insert((number, contents)).1)
    }
}

pub(crate) fn differing_contents(number: u64) -> StoreError {
    damaged(format!("entry {number}: the SHA-256 of kept contents differs"))
}

/// Reads entries from one to the oldest.
pub(crate) struct Backwards<'a, S> {
    log: &'a Log<S>,
    tip: &'a Arc<Tip>,
    /// The number of the next entry.
    next: u64,
    /// Entries of a block up to `next`.
    block: Vec<Entry>,
}

impl<'a, S: Store> Backwards<'a, S> {
    pub(crate) fn from(log: &'a Log<S>, tip: &'a Arc<Tip>, newest: u64) -> Self {
        Self { log, tip, next: newest.min(tip.newest()), block: Vec::new() }
    }

    /// Skips all entries after this one.
    pub(crate) fn skip_to(&mut self, number: u64) {
        self.next = self.next.min(number);
        self.block.clear();
    }

    /// The number of the entry that [`next`](Self::next) returns.
    pub(crate) fn number(&self) -> u64 {
        self.next
    }

    pub(crate) async fn next(&mut self) -> Result<Option<Entry>, StoreError> {
        let number = self.next;
        if number < self.tip.head.first || number == 0 {
            return Ok(None);
        }
        self.next -= 1;
        if number >= self.tip.head.blocks_end {
            return Ok(Some(self.log.entry(self.tip, number).await?.entry.clone()));
        }
        if self.block.is_empty() {
            self.block = self.log.block(self.tip, self.tip.head.block_of(number)).await?.entries;
            self.block.retain(|entry| entry.number <= number);
        }
        self.block.pop().map(Some).ok_or_else(|| damaged("a block lacks an entry"))
    }
}

#[async_trait]
impl<S: Store> Store for Past<S> {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        let node = if path.is_record() {
            // The past has no records.
            if path.is_root() { Node::Directory(Listing::default()) } else { Node::Absent }
        } else {
            self.read(path).await.map_err(HistoryError::into_store_error)?
        };
        // Never changes, so that each precondition holds at every moment.
        for (required, precondition) in options.preconditions() {
            let found = if required == path {
                node.stat()
            } else if required.is_record() {
                Stat::Absent
            } else {
                self.read(required).await.map_err(HistoryError::into_store_error)?.stat()
            };
            precondition.check(required, &found)?;
        }
        Ok(node)
    }

    /// The past is shared only as a read-only store.
    async fn apply(&self, _batch: Batch) -> Result<(), StoreError> {
        Err(StoreError::refused(&StorePath::memories(), "history", "The past cannot be changed."))
    }
}
