//! [`Side`] and [`View`]: one of two memories, with a listing of its files.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::pin::pin;
use std::sync::Arc;

use futures::stream::StreamExt as _;
use memory_tool_core::{
    Actor, Batch, Change, ErrorKind, FileEntry, Node, Precondition, ReadOptions, Store, StoreError, StorePath,
    StoredFile, UnlistedItem, UnlistedReason,
};
use memory_tool_history::{Digest, Entry, FileChange, History, HistoryError, Id, LogFilter};
use memory_tool_policies::{Screen, Verdict};
use tokio::sync::OnceCell;

use crate::memory::Memory;
use crate::transfer::error::TransferError;
use crate::transfer::source::{ReadOutcome, Source, reading_failed};
use crate::transfer::sync::report::COMMAND;
use crate::transfer::sync::table::{self, Key, Noted, NotedFile, State, Table, deleted, key_of};
use crate::transfer::sync::texts::{Texts, records_of};

/// The contents that are kept from one step to the next, to read them once.
const MAX_CACHED_BYTES: usize = 32 * 1024 * 1024;

/// The texts that are kept until they are written.
const MAX_TEXT_BYTES: usize = 8 * 1024 * 1024;

/// The number of files that a memory can lose at once, all of them, without a question.
const MAX_LOST: usize = 10;

/// The entries of the history that are searched for renames and authors.
const MAX_ENTRIES: usize = 500;

/// One of the two memories.
pub(super) struct Side {
    pub(super) store: Arc<dyn Store>,
    pub(super) history: Option<History<Arc<dyn Store>>>,
    /// Whether the history has earlier texts. Only a change needs it.
    keeps_history: OnceCell<bool>,
    screen: Option<Arc<dyn Screen>>,
    pub(super) actor: Option<Actor>,
    pub(super) name: String,
}

/// The listed files of a memory, with their known states.
pub(super) struct View {
    pub(super) files: BTreeMap<StorePath, FileEntry>,
    pub(super) table: Table,
    /// The files that cannot be read, or change.
    pub(super) unreadable: BTreeMap<StorePath, String>,
    /// The items that another program made, and that cannot be listed.
    pub(super) unlisted: Vec<UnlistedItem>,
    /// Whether not all files can be listed, so that a missing file is perhaps not deleted.
    pub(super) is_partial: bool,
    /// The actors of the last changes.
    pub(super) authors: HashMap<StorePath, BTreeSet<String>>,
    /// The state of the record of the table, and the records of texts that it refers to.
    stored: Precondition,
    stored_texts: Option<BTreeSet<Id>>,
    /// The record that was written last.
    written: Vec<u8>,
    contents: HashMap<StorePath, StoredFile>,
    cached_bytes: usize,
    pub(super) is_changed: bool,
}

impl Side {
    pub(super) fn of(memory: &Memory, name: &str) -> Self {
        Self {
            store: memory.store(),
            history: memory.history(),
            keeps_history: OnceCell::new(),
            screen: memory.inner.layers.transfer.screen.clone(),
            actor: memory.actor.clone(),
            name: name.to_owned(),
        }
    }

    /// The history, if it has earlier texts.
    pub(super) async fn kept_history(&self) -> Result<Option<&History<Arc<dyn Store>>>, StoreError> {
        let Some(history) = &self.history else { return Ok(None) };
        let is_started = async || history.is_started().await.map_err(HistoryError::into_store_error);
        Ok(self.keeps_history.get_or_try_init(is_started).await?.then_some(history))
    }

    /// Reads the table, lists the files, and notes what changed since.
    ///
    /// # Errors
    /// [`TransferError::Emptied`] and [`TransferError::Syncing`].
    pub(super) async fn view(&self, allows_empty: bool) -> Result<View, TransferError> {
        let mut view = self.load().await.map_err(|error| self.failed(error))?;
        let files = view.table.files.values().filter(|noted| noted.file().is_some()).count();
        if !allows_empty && view.files.is_empty() && !view.is_partial && files > MAX_LOST {
            return Err(TransferError::Emptied { side: self.name.clone(), files });
        }
        self.note(&mut view).await.map_err(|error| self.failed(error))?;
        Ok(view)
    }

    pub(super) fn failed(&self, source: StoreError) -> TransferError {
        TransferError::Syncing { side: self.name.clone(), source }
    }

    /// Lists the files, and reads the table, which is as new as the listing.
    async fn load(&self) -> Result<View, StoreError> {
        let listing = self.store.read_opts(&StorePath::memories(), ReadOptions::new()).await?.into_listing();
        let (table, stored) = match self.store.read_opts(&table::record(), as_known()).await? {
            Node::File(file) => (Table::parse(&file.content), Precondition::Version(file.version)),
            _ => (Ok(Table::default()), Precondition::Absent),
        };
        let mut unreadable = BTreeMap::new();
        let table = match table {
            // Without it, both memories keep all files.
            Err(error) if error.kind() == ErrorKind::Damaged => {
                unreadable.insert(table::record(), "it was damaged, and is written again".to_owned());
                Table::default()
            }
            table => table?,
        };
        let damaged = listing.files.iter().filter(|file| file.is_damaged);
        unreadable.extend(damaged.map(|file| (file.path.clone(), "it is damaged".to_owned())));
        Ok(View {
            files: listing.files.into_iter().map(|file| (file.path.clone(), file)).collect(),
            is_partial: listing.unlisted.iter().any(|item| item.reason == UnlistedReason::Unreadable),
            unlisted: listing.unlisted,
            table,
            unreadable,
            stored,
            stored_texts: None,
            written: Vec::new(),
            authors: HashMap::new(),
            contents: HashMap::new(),
            cached_bytes: 0,
            is_changed: false,
        })
    }

    /// The records of texts that exist.
    async fn stored_texts(&self) -> Result<BTreeSet<Id>, StoreError> {
        let listed = self.store.read_opts(&table::root_of_texts(), ReadOptions::new()).await?.into_listing().files;
        let id = |file: FileEntry| Id::try_from(file.path.file_name()?.to_owned()).ok();
        Ok(listed.into_iter().filter_map(id).collect())
    }

    /// Notes what changed in this memory since the last synchronization.
    async fn note(&self, view: &mut View) -> Result<(), StoreError> {
        let (mut gone, changed) = view.differences();
        if changed.is_empty() && gone.is_empty() {
            return Ok(());
        }
        let entries = self.entries_since(view).await?;
        let (mut texts, keeps_texts) = (Texts::new()?, self.kept_history().await?.is_none());
        let source = Source { store: Arc::clone(&self.store), options: as_known() };
        let mut reads = pin!(source.read_all(&changed));
        for entry in &changed {
            let Some(read) = reads.next().await else { break };
            let reason = match read.map_err(reading_failed)? {
                ReadOutcome::File(file) => {
                    let mut noted = NotedFile::new(Digest::of(&file.content), entry.modified);
                    if keeps_texts {
                        let kept = view.kept_texts(&entry.path, noted.digest);
                        noted.texts = kept.or_else(|| texts.add(noted.digest, &file.content));
                    }
                    view.note_read(entry, noted, &mut gone, &entries)?;
                    view.keep(&entry.path, file);
                    if texts.bytes > MAX_TEXT_BYTES {
                        let kept = std::mem::replace(&mut texts, Texts::new()?);
                        self.save(view, &kept).await?;
                    }
                    continue;
                }
                ReadOutcome::Removed => "it was removed during the synchronization".to_owned(),
                ReadOutcome::Unreadable { reason } => reason,
            };
            view.unreadable.insert(entry.path.clone(), reason);
        }
        for key in gone {
            let noted = view.table.files[&key].changed(deleted(None))?;
            view.note(key, noted);
        }
        self.save(view, &texts).await
    }

    /// The entries of the history since the table was written, oldest first, and their authors.
    async fn entries_since(&self, view: &mut View) -> Result<Vec<Entry>, StoreError> {
        let Some(history) = self.kept_history().await? else { return Ok(Vec::new()) };
        let entries = history.entries(&LogFilter::new().limit(MAX_ENTRIES)).await;
        let mut entries = entries.map_err(HistoryError::into_store_error)?;
        let newest = entries.first().map(|entry| (entry.number, entry.id));
        // In a memory that was restored, another entry can have the number, and not the identity.
        if let Some((number, id)) = view.table.entry {
            let is_known = entries.iter().any(|entry| entry.number == number && entry.id == id);
            entries.retain(|entry| is_known && entry.number > number);
        }
        entries.reverse();
        for entry in &entries {
            let authors = if entry.authors.is_empty() { entry.actor.as_slice() } else { &entry.authors };
            for path in entry.changes.iter().filter_map(FileChange::path) {
                view.authors.entry(path.clone()).or_default().extend(authors.iter().cloned());
            }
        }
        view.table.entry = newest;
        Ok(entries)
    }

    /// Writes the table with texts, if it changed.
    ///
    /// # Errors
    /// [`StoreError::VersionMismatch`] of the record if another synchronization wrote it, and the errors of a batch.
    pub(super) async fn save(&self, view: &mut View, texts: &Texts) -> Result<(), StoreError> {
        if !view.is_changed {
            return Ok(());
        }
        let mut table = view.table.clone();
        let batch = self.batch_with(&mut table, view, texts, Batch::new()).await?;
        self.store.apply(batch).await?;
        self.saved(view, table, texts).await
    }

    /// Adds the table to a batch.
    pub(super) async fn batch_with(
        &self,
        table: &mut Table,
        view: &mut View,
        texts: &Texts,
        batch: Batch,
    ) -> Result<Batch, StoreError> {
        let record = table.next_record()?;
        let mut batch = batch.for_command(COMMAND).require(table::record(), view.stored.clone());
        view.written.clone_from(&record);
        batch = batch.write(table::record(), record);
        if let Some((path, record)) = texts.to_record()? {
            batch = batch.write(path, record);
        }
        let used = records_of(table);
        let stored = match view.stored_texts.take() {
            Some(stored) => stored,
            None => self.stored_texts().await?,
        };
        let unused = view.stored_texts.insert(stored).iter().filter(|record| !used.contains_key(record));
        Ok(unused.fold(batch, |batch, record| batch.remove(table::record_of_texts(*record))))
    }

    /// The table was written.
    pub(super) async fn saved(&self, view: &mut View, table: Table, texts: &Texts) -> Result<(), StoreError> {
        view.stored = match self.store.read_opts(&table::record(), as_known()).await? {
            // Another synchronization can have written it since.
            Node::File(file) if file.content == view.written => Precondition::Version(file.version),
            _ => return Err(StoreError::VersionMismatch { path: table::record() }),
        };
        // Only they are removed later: another program can have removed others.
        if let Some(stored) = &mut view.stored_texts {
            let used = records_of(&table);
            stored.retain(|record| used.contains_key(record));
            stored.extend(texts.record());
        }
        (view.table, view.is_changed) = (table, false);
        Ok(())
    }

    /// Reads a file that is about to be replaced or copied. `None` if it is not as noted.
    pub(super) async fn read_noted(&self, view: &mut View, path: &StorePath) -> Result<Option<StoredFile>, StoreError> {
        let file = match view.contents.remove(path) {
            Some(file) => {
                view.cached_bytes = view.cached_bytes.saturating_sub(file.content.len());
                Some(file)
            }
            None => self.store.read_opts(path, as_known()).await?.into_file(),
        };
        let noted = view.table.files.get(&key_of(path)).and_then(Noted::file).map(|noted| noted.digest);
        Ok(file.filter(|file| Some(Digest::of(&file.content)) == noted))
    }

    /// The contents as this memory would store them, if its screen redacts them.
    pub(super) fn redacted(&self, content: &[u8]) -> Option<Vec<u8>> {
        match self.screen.as_ref()?.screen_text(std::str::from_utf8(content).ok()?, "") {
            Verdict::Redact { text } => Some(text.into_bytes()),
            _ => None, // the store applies the screen
        }
    }
}

/// The options of reads after the listing. A batch requires the versions, so a stale file is noticed.
pub(super) fn as_known() -> ReadOptions {
    ReadOptions::new().allow_stale()
}

impl View {
    /// The noted files that are missing, and the changed files.
    fn differences(&self) -> (HashSet<Key>, Vec<FileEntry>) {
        let present: HashSet<_> = self.files.keys().map(key_of).collect();
        let is_gone = |(key, noted): &(&Key, &Noted)| noted.file().is_some() && !present.contains(*key);
        let mut gone: HashSet<_> = self.table.files.iter().filter(is_gone).map(|(key, _)| *key).collect();
        if self.is_partial {
            gone.clear();
        }
        // Files of the same size and time can have changed their names.
        let mut alike = HashMap::<_, usize>::new();
        self.files.values().for_each(|file| *alike.entry((file.size, file.modified)).or_default() += 1);
        let lost: Vec<_> = gone.iter().filter_map(|key| self.noted(key)?.file()).collect();
        let is_unchanged = |file: &FileEntry| {
            let noted = self.noted(&key_of(&file.path)).and_then(Noted::file);
            let is_unique = alike.get(&(file.size, file.modified)) == Some(&1);
            let is_same = noted.is_some_and(|noted| noted.is_unchanged(file) && !noted.is_erased());
            is_same && is_unique && !lost.iter().any(|lost| lost.is_unchanged(file))
        };
        let changed: Vec<_> = self.files.values().filter(|file| !is_unchanged(file)).cloned().collect();
        (gone, changed)
    }

    /// The place of the kept text of a file that was noted with this digest.
    fn kept_texts(&self, path: &StorePath, digest: Digest) -> Option<Id> {
        self.noted(&key_of(path)).and_then(Noted::file).filter(|file| file.digest == digest)?.texts
    }

    /// Notes the state of a file that was read. Perhaps it has a new name, and is one of the missing files.
    fn note_read(
        &mut self,
        entry: &FileEntry,
        file: NotedFile,
        gone: &mut HashSet<Key>,
        entries: &[Entry],
    ) -> Result<(), StoreError> {
        let (key, digest) = (key_of(&entry.path), file.digest);
        let before = self.noted(&key).cloned();
        let noted = match before {
            Some(noted) if noted.file().is_some_and(|before| before.has_same_contents(digest, entry)) => {
                Noted { state: State::File(file), ..noted }
            }
            Some(noted) if noted.file().is_some() => noted.changed(State::File(file))?,
            before => {
                let origin = origin_of(&entry.path, entries).map(|path| key_of(&path));
                let old = origin.filter(|key| gone.contains(key)).or_else(|| self.same_text(gone, digest));
                match old.and_then(|old| Some((old, self.noted(&old).cloned()?))) {
                    Some((old, noted)) => {
                        gone.remove(&old);
                        self.note(old, noted.changed(deleted(Some(key)))?);
                        noted.changed(State::File(file))?.with_known(&before)
                    }
                    None => before.map_or_else(
                        || Noted::new(State::File(file.clone())),
                        |before| before.changed(State::File(file.clone())),
                    )?,
                }
            }
        };
        self.note(key, noted);
        Ok(())
    }

    pub(super) fn note(&mut self, key: Key, noted: Noted) {
        if self.noted(&key) != Some(&noted) {
            self.is_changed = true;
            self.table.files.insert(key, noted);
        }
    }

    pub(super) fn noted(&self, key: &Key) -> Option<&Noted> {
        self.table.files.get(key)
    }

    /// Keeps the contents for the next step, if there is room.
    pub(super) fn keep(&mut self, path: &StorePath, file: StoredFile) {
        if self.cached_bytes + file.content.len() <= MAX_CACHED_BYTES {
            self.cached_bytes += file.content.len();
            self.contents.insert(path.clone(), file);
        }
    }

    /// Makes the next round read a file, which has changed though its size and time are the same.
    pub(super) fn read_again(&mut self, path: &StorePath) {
        let noted = self.table.files.get_mut(&key_of(path));
        if let Some(State::File(file)) = noted.map(|noted| &mut noted.state) {
            file.unsettle();
            self.is_changed = true;
        }
    }

    /// Applies changes that the memory has applied.
    pub(super) fn apply(&mut self, batch: &Batch) {
        for change in batch.changes() {
            match change {
                Change::Write { path, content, times } => {
                    let entry = FileEntry::new(path.clone(), content.len() as u64);
                    self.files.insert(path.clone(), entry.with_created(times.created).with_modified(times.modified));
                }
                Change::Remove { path } => _ = self.files.remove(path),
                Change::Rename { from, to } => {
                    if let Some(mut file) = self.files.remove(from) {
                        file.path = to.clone();
                        self.files.insert(to.clone(), file);
                    }
                }
            }
        }
    }

    /// The only one of these files that had the same text. Empty files are alike.
    fn same_text(&self, gone: &HashSet<Key>, digest: Digest) -> Option<Key> {
        let is_same = |key: &&Key| self.noted(key).and_then(Noted::file).is_some_and(|file| file.digest == digest);
        let mut same = gone.iter().filter(is_same);
        let found = same.next().filter(|_| digest.size > 0)?;
        same.next().is_none().then_some(*found)
    }
}

/// The path that a file had before these entries renamed it.
fn origin_of(path: &StorePath, entries: &[Entry]) -> Option<StorePath> {
    let mut origin = path.clone();
    for change in entries.iter().rev().flat_map(|entry| &entry.changes) {
        match change {
            FileChange::Rename { from, to, .. } if *to == origin || origin.is_under(to) => {
                origin = origin.replace_prefix(to, from).ok()?;
            }
            // It is a new file.
            FileChange::Write { path, before: None, .. } if *path == origin => return None,
            _ => {}
        }
    }
    (origin != *path).then_some(origin)
}
