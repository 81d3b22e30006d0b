//! [`Past`]: the files of a memory after an earlier entry.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use memory_tool_core::{
    Batch, FileEntry, Listing, Node, ReadOptions, Stat, Store, StoreError, StorePath, StoredFile, Version, lock,
};

use crate::entry::{Digest, Entry, FileChange, KeptContents, Operation};
use crate::error::HistoryError;
use crate::hex::Id;
use crate::log::Log;
use crate::records::{Head, damaged};
use crate::store::HistoryStore;
use crate::tip::{Tip, is_outdated};
use crate::versions::Versions;

/// The location of the contents of an earlier file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Source {
    /// They are the present contents of a file with this path.
    Present(FileEntry),
    /// An entry keeps them, or `None` if they are not kept.
    Past(u64, Option<KeptContents>),
    /// An entry changed the file, but was redacted.
    Redacted(u64),
}

impl Source {
    /// Whether nothing has the contents.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Past(_, None) | Self::Redacted(_))
    }

    fn listed(&self, path: &StorePath) -> FileEntry {
        match self {
            Self::Present(file) => {
                let mut file = file.clone();
                file.path = path.clone();
                file
            }
            Self::Past(_, Some(kept)) => FileEntry::new(path.clone(), kept.digest.size),
            Self::Past(_, None) | Self::Redacted(_) => FileEntry::damaged(path.clone(), 0),
        }
    }
}

/// The files of a memory at some moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files(pub(crate) BTreeMap<StorePath, Source>);

impl Files {
    /// The files at the end of the log.
    pub(crate) async fn present<S: Store>(log: &Log<S>, tip: &Tip) -> Result<Self, StoreError> {
        match Self::list(log, tip.require_in_read()).await {
            Err(error) if is_outdated(&error) => {
                let mut files = Self::list(log, ReadOptions::new()).await?;
                if files.take_back_since(log, tip).await? { Ok(files) } else { Err(error) }
            }
            files => files,
        }
    }

    async fn list<S: Store>(log: &Log<S>, options: ReadOptions) -> Result<Self, StoreError> {
        let listing = log.store.read_opts(&StorePath::memories(), options).await?.into_listing();
        Ok(Self(listing.files.into_iter().map(|file| (file.path.clone(), Source::Present(file))).collect()))
    }

    /// Takes back the entries after an end of the log. These files are the result of all or some of them, so readers
    /// need no pause of the writers. Returns `false` if one of them is a rename, which does not have the state before
    /// it.
    async fn take_back_since<S: Store>(&mut self, log: &Log<S>, tip: &Tip) -> Result<bool, StoreError> {
        let now = log.load().await?;
        let Some(new) = log.since(&now, tip.end()).await? else { return Ok(false) };
        let tells_all = |change: &FileChange| matches!(change, FileChange::Write { .. } | FileChange::Remove { .. });
        let is_possible = new.iter().flat_map(|entry| &entry.changes).all(tells_all);
        if is_possible {
            new.iter().rev().for_each(|entry| self.take_back(entry));
        }
        Ok(is_possible)
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
                FileChange::Rename { from, to } => rename(&mut self.0, to, from),
                FileChange::Redacted { before, .. } => {
                    _ = before.as_ref().and_then(|it| it.digest).and_then(|_| kept.next());
                }
            }
        }
    }

    /// The files at or under a path.
    pub(crate) fn under<'a>(&'a self, path: &'a StorePath) -> impl Iterator<Item = (&'a StorePath, &'a Source)> {
        self.0.range(path..).take_while(move |(file, _)| *file == path || file.is_under(path))
    }
}

fn rename<T>(files: &mut BTreeMap<StorePath, T>, from: &StorePath, to: &StorePath) {
    let below = files.range(from..).take_while(|(path, _)| *path == from || path.is_under(from));
    let moved: Vec<_> = below.map(|(path, _)| path.clone()).collect();
    for path in moved {
        if let (Ok(moved), Some(value)) = (path.replace_prefix(from, to), files.remove(&path)) {
            files.insert(moved, value);
        }
    }
}

/// The identities of the files while a log is read backwards, for entries that have lost their paths.
struct Identities {
    versions: Versions,
    paths: BTreeMap<StorePath, Id>,
}

impl Identities {
    /// Takes an entry back, also in `files`, which were taken back already.
    fn take_back(&mut self, entry: &Entry, files: &mut Files) {
        let mut kept = entry.kept();
        if let (Some(from), Some(to)) = (entry.moved_from(), entry.changes.first().and_then(FileChange::path)) {
            return rename(&mut self.paths, to, from);
        }
        for (index, change) in entry.changes.iter().enumerate() {
            let kept = change.before().and_then(|before| before.digest).and_then(|_| kept.next());
            if let FileChange::Write { path, .. } | FileChange::Remove { path, .. } = change {
                self.forget_other_paths(entry.number, index, path, files);
            }
            match change {
                FileChange::Write { path, before: None, .. } => _ = self.paths.remove(path),
                FileChange::Write { .. } => {}
                FileChange::Remove { path, .. } => {
                    let removed = self.versions.of_change(entry.number, index).next();
                    self.paths.extend(removed.map(|(_, version)| (path.clone(), version.file)));
                }
                FileChange::Rename { from, to } => rename(&mut self.paths, to, from),
                FileChange::Redacted { files: changed, operation: Operation::Created, .. } => {
                    for path in self.paths_of(changed) {
                        self.paths.remove(&path);
                        files.0.remove(&path);
                    }
                }
                FileChange::Redacted { files: changed, .. } => {
                    let source = match kept {
                        Some(kept) => Source::Past(entry.number, Some(kept)),
                        None => Source::Redacted(entry.number),
                    };
                    files.0.extend(self.paths_of(changed).into_iter().map(|path| (path, source.clone())));
                }
            }
        }
    }

    /// A redacted rename leaves a file at its later path, until an entry names an earlier one.
    fn forget_other_paths(&mut self, number: u64, index: usize, path: &StorePath, files: &mut Files) {
        let file: Vec<_> = self.versions.of_change(number, index).map(|(_, version)| version.file).collect();
        for other in self.paths_of(&file).into_iter().filter(|other| other != path) {
            self.paths.remove(&other);
            files.0.remove(&other);
        }
    }

    fn paths_of(&self, files: &[Id]) -> Vec<StorePath> {
        let is_of = |(_, id): &(&StorePath, &Id)| files.contains(id);
        self.paths.iter().filter(is_of).map(|(path, _)| path.clone()).collect()
    }
}

/// The files after an entry, as seen from an end of the log.
#[derive(Clone, Debug)]
pub(crate) struct PastFiles {
    tip: Arc<Tip>,
    number: u64,
    pub(crate) files: Files,
}

impl PastFiles {
    /// # Errors
    /// [`HistoryError::NoEntry`], [`HistoryError::Forgotten`] and [`HistoryError::Lost`].
    pub(crate) async fn new<S: Store>(log: &Log<S>, tip: &Arc<Tip>, number: u64) -> Result<Self, HistoryError> {
        let (oldest, newest) = (tip.head.first, tip.newest());
        if number > newest {
            return Err(HistoryError::NoEntry { number, newest });
        }
        if number + 1 < oldest {
            return Err(HistoryError::Forgotten { oldest });
        }
        let files = match Self::walk(log, tip, number, None).await? {
            Some(files) => files,
            None => {
                let versions = log.versions(tip).await?;
                let paths = versions.present().map(|(path, id)| (path.clone(), id)).collect();
                Self::walk(log, tip, number, Some(Identities { versions, paths })).await?.unwrap_or_default()
            }
        };
        Ok(Self { tip: Arc::clone(tip), number, files })
    }

    /// Takes back all entries after one. `None` if that needs identities.
    async fn walk<S: Store>(
        log: &Log<S>,
        tip: &Arc<Tip>,
        number: u64,
        mut identities: Option<Identities>,
    ) -> Result<Option<Files>, HistoryError> {
        let mut files = Files::present(log, tip).await?;
        let mut reader = Backwards::from(log, tip, tip.newest());
        while let Some(entry) = reader.next().await?.filter(|entry| entry.number > number) {
            if entry.is_redacted && entry.changes.is_empty() {
                return Err(HistoryError::Lost { number: entry.number });
            }
            if entry.is_redacted && identities.is_none() {
                return Ok(None);
            }
            files.take_back(&entry);
            if let Some(identities) = &mut identities {
                identities.take_back(&entry, &mut files);
            }
        }
        Ok(Some(files))
    }

    /// The same files as seen from a later end of the log. Only what was added is read, if the log is continued.
    async fn seen_from<S: Store>(&self, log: &Log<S>, tip: &Arc<Tip>) -> Result<Self, HistoryError> {
        let Some(new) = log.since(tip, self.tip.end()).await? else { return Self::new(log, tip, self.number).await };
        let mut then = Files::present(log, tip).await?;
        new.iter().rev().for_each(|entry| then.take_back(entry));
        let seen = |(path, source): (&StorePath, &Source)| match source {
            Source::Present(file) => then.0.get(&file.path).map(|source| (path.clone(), source.clone())),
            source => Some((path.clone(), source.clone())),
        };
        let files = Files(self.files.0.iter().filter_map(seen).collect());
        Ok(Self { tip: Arc::clone(tip), number: self.number, files })
    }
}

/// The memory after an earlier entry.
///
/// Changes by other programs count as if they had been made right after the entry before them.
#[derive(Debug)]
pub struct Past<S> {
    store: HistoryStore<S>,
    number: u64,
    /// The files as last seen.
    files: Mutex<Option<Arc<PastFiles>>>,
    /// The contents of the last entry that was read.
    last: Mutex<Option<Contents>>,
}

impl<S: Store> Past<S> {
    pub(crate) fn new(store: HistoryStore<S>, number: u64) -> Self {
        Self { store, number, files: Mutex::default(), last: Mutex::default() }
    }

    /// The entry after which the memory was like this.
    pub fn number(&self) -> u64 {
        self.number
    }

    fn known(&self) -> Option<Arc<PastFiles>> {
        lock(&self.files).clone()
    }

    /// The files, as seen from this end of the log.
    pub(crate) async fn files(&self, tip: &Arc<Tip>) -> Result<Arc<PastFiles>, HistoryError> {
        let log = self.store.log();
        let files = match self.known() {
            Some(known) if known.tip.is_same(tip) => return Ok(known),
            Some(known) => known.seen_from(log, tip).await?,
            None => PastFiles::new(log, tip, self.number).await?,
        };
        let files = Arc::new(files);
        *lock(&self.files) = Some(Arc::clone(&files));
        Ok(files)
    }

    /// The files, as seen from this end of the log or an earlier one, if an entry keeps the file at the path.
    async fn files_for(&self, tip: &Arc<Tip>, path: &StorePath) -> Result<Arc<PastFiles>, HistoryError> {
        // An unchanged head proves that no entry was redacted since.
        let is_kept = |known: &Arc<PastFiles>| {
            known.tip.head == tip.head && matches!(known.files.0.get(path), Some(Source::Past(..)))
        };
        match self.known().filter(is_kept) {
            Some(known) => Ok(known),
            None => self.files(tip).await,
        }
    }

    pub(crate) async fn read(&self, path: &StorePath) -> Result<Node, HistoryError> {
        let log = self.store.log();
        let mut attempts = log.attempts();
        loop {
            let tip = log.tip_after(&attempts).await?;
            match self.read_at(&tip, path).await {
                Err(HistoryError::Store(error)) => attempts.again(&tip, error)?,
                outcome => return outcome,
            }
            log.replace_tip(&tip, None);
        }
    }

    pub(crate) async fn read_at(&self, tip: &Arc<Tip>, path: &StorePath) -> Result<Node, HistoryError> {
        let seen = self.files_for(tip, path).await?;
        let files = &seen.files;
        if let Some(source) = files.0.get(path) {
            let last = lock(&self.last).take();
            let mut reader = Reader::new(self.store.log(), &seen.tip, last);
            let content = reader.read(path, source).await?;
            *lock(&self.last) = reader.last;
            let version = Version::new(*Digest::of(&content).sha256.as_bytes());
            return Ok(Node::File(StoredFile::new(content, version)));
        }
        let listed: Vec<_> = files.under(path).map(|(path, source)| source.listed(path)).collect();
        let is_directory = path.is_root() || !listed.is_empty();
        Ok(if is_directory { Node::Directory(Listing::from(listed)) } else { Node::Absent })
    }
}

/// All contents of an entry, and the head of the log that has them.
#[derive(Debug)]
pub(crate) struct Contents {
    head: Head,
    number: u64,
    bytes: Vec<u8>,
}

/// Reads the contents of earlier files. It keeps the contents of the last entry, because these can be of many files.
pub(crate) struct Reader<'a, S> {
    log: &'a Log<S>,
    tip: &'a Tip,
    last: Option<Contents>,
}

impl<'a, S: Store> Reader<'a, S> {
    pub(crate) fn new(log: &'a Log<S>, tip: &'a Tip, last: Option<Contents>) -> Self {
        Self { log, tip, last }
    }

    pub(crate) async fn read(&mut self, path: &StorePath, source: &Source) -> Result<Vec<u8>, HistoryError> {
        match source {
            Source::Present(file) => match self.log.store.read_opts(&file.path, self.tip.require_in_read()).await {
                Ok(Node::File(file)) => Ok(file.content),
                Ok(_) => Err(HistoryError::Changed { paths: vec![file.path.clone()] }),
                Err(error) if is_outdated(&error) => self.read_changed(file, error).await,
                Err(error) => Err(error.into()),
            },
            Source::Redacted(number) => Err(HistoryError::Redacted { number: *number }),
            Source::Past(number, kept) => self.read_kept(path, *number, *kept).await,
        }
    }

    /// The contents of one of these files. `None` if it does not exist.
    pub(crate) async fn read_from(&mut self, files: &Files, path: &StorePath) -> Result<Option<Vec<u8>>, HistoryError> {
        match files.0.get(path) {
            Some(source) => self.read(path, source).await.map(Some),
            None => Ok(None),
        }
    }

    /// Reads a file that was present at the end of the log, to which others have added entries since.
    async fn read_changed(&mut self, file: &FileEntry, error: StoreError) -> Result<Vec<u8>, HistoryError> {
        let node = self.log.store.read_opts(&file.path, ReadOptions::new()).await?;
        let mut then = Files(BTreeMap::from([(file.path.clone(), Source::Present(file.clone()))]));
        let is_known = then.take_back_since(self.log, self.tip).await?;
        match (then.0.get(&file.path).filter(|_| is_known), node) {
            (Some(Source::Present(_)), Node::File(file)) => Ok(file.content),
            (Some(Source::Past(number, kept)), _) => self.read_kept(&file.path, *number, *kept).await,
            _ => Err(error.into()),
        }
    }

    async fn read_kept(
        &mut self,
        path: &StorePath,
        number: u64,
        kept: Option<KeptContents>,
    ) -> Result<Vec<u8>, HistoryError> {
        let kept = kept.ok_or_else(|| HistoryError::NotKept { path: path.clone(), number })?;
        let content = kept.of(self.contents(number).await?).ok_or_else(|| differing_contents(number))?;
        Ok(content.to_vec())
    }

    async fn contents(&mut self, number: u64) -> Result<&[u8], HistoryError> {
        let head = &self.tip.head;
        let last = self.last.take().filter(|last| last.number == number && last.head == *head);
        let contents = match last {
            Some(last) => last,
            None => {
                let bytes = self.log.contents(&*self.log.entry(self.tip, number).await?).await?;
                Contents { head: head.clone(), number, bytes }
            }
        };
        Ok(&self.last.insert(contents).bytes)
    }
}

pub(crate) fn differing_contents(number: u64) -> StoreError {
    damaged(format!("entry {number}: the SHA-256 of kept contents differs"))
}

/// Reads entries from one to the oldest.
pub(crate) struct Backwards<'a, S> {
    log: &'a Log<S>,
    tip: &'a Tip,
    /// The number of the next entry.
    next: u64,
    /// Entries of a block up to `next`.
    block: Vec<Entry>,
}

impl<'a, S: Store> Backwards<'a, S> {
    pub(crate) fn from(log: &'a Log<S>, tip: &'a Tip, newest: u64) -> Self {
        Self { log, tip, next: newest.min(tip.newest()), block: Vec::new() }
    }

    /// The entries after this one, oldest first.
    pub(crate) async fn since(log: &'a Log<S>, tip: &'a Tip, number: u64) -> Result<Vec<Entry>, StoreError> {
        let (mut reader, mut entries) = (Self::from(log, tip, tip.newest()), Vec::new());
        while let Some(entry) = reader.next().await?.filter(|entry| entry.number > number) {
            entries.push(entry);
        }
        entries.reverse();
        Ok(entries)
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
