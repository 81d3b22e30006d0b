//! [`History`]: what changed, and how to take it back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;

use memory_tool_core::{Actor, Batch, ErrorKind, Node, ReadOnlyStore, ReadOptions, Store, StoreError, StorePath};

use crate::attempts::Attempts;
use crate::check::{self, HistoryReport};
use crate::copy::{self, Copied};
use crate::diff::{self, Differences};
use crate::entry::{Entry, EntryRef, Origin};
use crate::error::HistoryError;
use crate::filter::LogFilter;
use crate::past::Past;
use crate::plan::{Edits, Plan};
use crate::records;
use crate::store::HistoryStore;
use crate::text_redaction::{Erased, MARK, Places, TextRedaction};
use crate::tip::Tip;
use crate::undo::{Force, Goal, Planner, TakenBack};
use crate::version_cache::{LogEnd, VersionCache};
use crate::{blame, redaction, related, repair};

/// The history of a memory, from [`HistoryStore::history`].
///
/// An entry is named by its number; 0 is the beginning of the memory. Each operation that changes files is one atomic
/// batch that adds an entry, so it can be undone too.
#[derive(Debug)]
pub struct History<S> {
    store: HistoryStore<S>,
    /// The store that gets the batches.
    above: Arc<dyn Store>,
    actor: Option<Actor>,
    force: Force,
}

impl<S: Store> HistoryStore<S> {
    /// The history.
    pub fn history(&self) -> History<S> {
        History::new(self.clone())
    }
}

impl<S> Clone for History<S> {
    fn clone(&self) -> Self {
        Self { actor: self.actor.clone(), above: Arc::clone(&self.above), force: self.force, store: self.store.clone() }
    }
}

impl<S: Store> History<S> {
    pub(crate) fn new(store: HistoryStore<S>) -> Self {
        let above = Arc::new(store.clone());
        Self { store, above, actor: None, force: Force::No }
    }

    /// Applies all changes through a store over this one, so that its policies check and record them.
    pub fn through(mut self, above: Arc<dyn Store>) -> Self {
        self.above = above;
        self
    }

    /// Sets the actor of the entries that this handle adds.
    pub fn by(mut self, actor: Actor) -> Self {
        self.actor = Some(actor);
        self
    }

    /// Makes operations replace and remove files that have [changed](HistoryError::Changed) since. The new entry
    /// keeps them.
    pub fn forced(mut self) -> Self {
        self.force = Force::Yes;
        self
    }

    /// Whether there is a history, perhaps without entries.
    ///
    /// # Errors
    /// [`HistoryError::Store`].
    pub async fn is_started(&self) -> Result<bool, HistoryError> {
        let head = self.store.inner().read_opts(&records::head(), ReadOptions::new()).await?;
        Ok(!matches!(head, Node::Absent))
    }

    /// Lists entries, newest first.
    ///
    /// # Errors
    /// [`HistoryError::Store`], and [`HistoryError::InvalidText`] for a filter by text.
    pub async fn entries(&self, filter: &LogFilter) -> Result<Vec<Entry>, HistoryError> {
        let log = self.store.log();
        let with_text = match &filter.text {
            Some(text) => Some(self.find_text(text).await?.entries.into_iter().collect()),
            None => None,
        };
        let with_text = with_text.as_ref();
        log.retry(|tip| async move { filter.entries(log, &tip, with_text).await }).await
    }

    /// The entry with this number.
    ///
    /// # Errors
    /// [`HistoryError::NoEntry`], [`HistoryError::Forgotten`] and [`HistoryError::Store`].
    pub async fn entry(&self, number: u64) -> Result<Entry, HistoryError> {
        let filter = LogFilter::new().before(number.saturating_add(1)).limit(1);
        let found = self.entries(&filter).await?.pop();
        if let Some(entry) = found.filter(|entry| entry.number == number) {
            return Ok(entry);
        }
        let tip = self.store.log().load().await?;
        let (oldest, newest) = (tip.head.first, tip.newest());
        let is_forgotten = (1..oldest).contains(&number);
        Err(if is_forgotten { HistoryError::Forgotten { oldest } } else { HistoryError::NoEntry { number, newest } })
    }

    /// The number of the newest entry, or 0.
    ///
    /// # Errors
    /// [`HistoryError::Store`].
    pub async fn newest(&self) -> Result<u64, HistoryError> {
        Ok(self.store.log().load().await?.newest())
    }

    /// The number of the newest entry that is not after `time`, or 0.
    ///
    /// # Errors
    /// [`HistoryError::Store`].
    pub async fn newest_at(&self, time: SystemTime) -> Result<u64, HistoryError> {
        let filter = LogFilter::new().until(time).limit(1);
        Ok(self.entries(&filter).await?.first().map_or(0, |entry| entry.number))
    }

    /// Opens the whole memory after an entry, as a read-only store.
    ///
    /// # Errors
    /// [`HistoryError::NoEntry`], [`HistoryError::Forgotten`], [`HistoryError::Redacted`] and [`HistoryError::Store`].
    pub async fn at(&self, number: u64) -> Result<ReadOnlyStore<Past<S>>, HistoryError> {
        let past = Past::new(self.store.clone(), number);
        past.read(&StorePath::memories()).await?;
        Ok(ReadOnlyStore::new(past))
    }

    /// Reads a file in its state after an entry.
    ///
    /// # Errors
    /// [`HistoryError::NotAFile`], [`HistoryError::NotKept`] and the errors of [`at`](Self::at).
    pub async fn read(&self, path: &StorePath, number: u64) -> Result<Vec<u8>, HistoryError> {
        match Past::new(self.store.clone(), number).read(path).await? {
            Node::File(file) => Ok(file.content),
            _ => Err(HistoryError::NotAFile { path: path.clone(), number }),
        }
    }

    /// The differences of the files at or under a path between two entries, for at most `limit` files.
    ///
    /// # Errors
    /// The errors of [`at`](Self::at).
    pub async fn diff(&self, from: u64, to: u64, path: &StorePath, limit: usize) -> Result<Differences, HistoryError> {
        diff::between(&self.store, (from, to), path, limit).await
    }

    /// How an entry changed files, for at most `limit` of them. The redaction of later entries hides only the contents
    /// of their files.
    ///
    /// # Errors
    /// The errors of [`entry`](Self::entry).
    pub async fn entry_diff(&self, number: u64, limit: usize) -> Result<Differences, HistoryError> {
        self.entry(number).await?;
        let log = self.store.log();
        log.retry(|tip| async move { diff::of_entry(log, &tip, number, limit).await }).await
    }

    /// Takes back the last `count` changes that are not taken back yet. Repeated calls walk back to the beginning.
    ///
    /// # Errors
    /// [`HistoryError::NothingToUndo`] if there are fewer changes, [`HistoryError::Changed`], and the errors of
    /// [`at`](Self::at).
    pub async fn undo(&self, count: usize) -> Result<TakenBack, HistoryError> {
        self.reach(Goal::Undo(count)).await
    }

    /// Takes back the last [`undo`](Self::undo). A new change ends the line of undos.
    ///
    /// # Errors
    /// [`HistoryError::NothingToRedo`], [`HistoryError::Changed`], and the errors of [`at`](Self::at).
    pub async fn redo(&self) -> Result<TakenBack, HistoryError> {
        self.reach(Goal::Redo).await
    }

    /// Takes back certain entries, such as all of an actor, in any order. Files that other entries changed since are
    /// refused. A single change of one file is taken back by line, as by [`merge`](crate::merge), if later changes are
    /// in other lines.
    ///
    /// # Errors
    /// [`HistoryError::Changed`], and the errors of [`entry`](Self::entry) and [`at`](Self::at).
    pub async fn revert(
        &self,
        entries: impl IntoIterator<Item: Into<EntryRef>> + Send,
    ) -> Result<TakenBack, HistoryError> {
        self.reach(Goal::Revert(refs(entries))).await
    }

    /// Checks whether [`revert`](Self::revert) of these entries would succeed now.
    ///
    /// # Errors
    /// The errors of [`revert`](Self::revert).
    pub async fn check_revert(
        &self,
        entries: impl IntoIterator<Item: Into<EntryRef>> + Send,
    ) -> Result<(), HistoryError> {
        let goal = Goal::Revert(refs(entries));
        let plan = |tip| {
            let mut planner = Planner::new(&self.store, goal.clone(), self.force);
            async move { planner.plan(&tip).await.map(drop) }
        };
        self.store.log().retry(plan).await
    }

    /// Restores a file or directory to its state after an entry. `/memories` restores everything.
    ///
    /// # Errors
    /// [`HistoryError::Unchanged`] if nothing differs, and the errors of [`at`](Self::at).
    pub async fn restore(
        &self,
        path: &StorePath,
        entry: impl Into<EntryRef> + Send,
    ) -> Result<TakenBack, HistoryError> {
        self.reach(Goal::Restore(path.clone(), Some(entry.into()))).await
    }

    /// Restores the last state of a file or directory that was deleted.
    ///
    /// # Errors
    /// [`HistoryError::Exists`] if it was made again, [`HistoryError::NoChangeOf`] if it never existed or its last
    /// change was forgotten or redacted, and the errors of [`at`](Self::at).
    pub async fn restore_deleted(&self, path: &StorePath) -> Result<TakenBack, HistoryError> {
        self.reach(Goal::Restore(path.clone(), None)).await
    }

    async fn reach(&self, goal: Goal) -> Result<TakenBack, HistoryError> {
        let mut attempts = self.store.log().attempts();
        let reached = self.try_to_reach(goal, &mut attempts).await;
        self.store.log().unclaim(&attempts).await;
        reached
    }

    async fn try_to_reach(&self, goal: Goal, attempts: &mut Attempts) -> Result<TakenBack, HistoryError> {
        let command = goal.command();
        let mut planner = Planner::new(&self.store, goal, self.force);
        loop {
            let tip = self.store.log().turn(attempts).await?;
            let outcome = match planner.plan(&tip).await {
                Ok((batch, origin)) => self.apply(&tip, batch.for_command(command), origin, Edits::default()).await,
                Err(error) => Err(error),
            };
            match outcome {
                // Another program changed or created a file after it was read or listed.
                Err(HistoryError::Store(StoreError::VersionMismatch { path } | StoreError::AlreadyExists { path }))
                    if !path.is_record() =>
                {
                    attempts.count()?;
                    planner.forget(&path);
                }
                Err(HistoryError::Store(error)) => attempts.again(&tip, error)?,
                outcome => return outcome.map(|entry| planner.taken_back(entry)),
            }
        }
    }

    /// Applies a batch with its entry through the policies, if this is still the end of the log.
    async fn apply(&self, tip: &Arc<Tip>, batch: Batch, origin: Origin, edits: Edits) -> Result<Entry, HistoryError> {
        Ok(self.try_apply(tip, batch, origin, edits).await?.ok_or_else(missing_entry)?)
    }

    /// The same. Without a history, perhaps no entry is added.
    async fn try_apply(
        &self,
        tip: &Arc<Tip>,
        batch: Batch,
        origin: Origin,
        edits: Edits,
    ) -> Result<Option<Entry>, HistoryError> {
        let planned = self.store.log().plans.add(Plan { tip: Arc::clone(tip), origin, edits })?;
        let batch = self.actor.iter().cloned().fold(planned.mark(batch), Batch::by);
        self.above.apply(batch).await?;
        Ok(planned.added())
    }

    /// Removes the contents, paths, sizes and hashes of entries from the history. Times, actors and commands stay, and
    /// the random identities of the files. It replaces a damaged entry that is in no block yet.
    ///
    /// The present files are not history: correct them first. The page of the crate explains when the storage no longer
    /// has the bytes.
    ///
    /// # Errors
    /// The errors of [`entry`](Self::entry).
    pub async fn redact(&self, entries: impl IntoIterator<Item: Into<EntryRef>> + Send) -> Result<Entry, HistoryError> {
        self.redact_contents(Redacting::Entries(refs(entries))).await
    }

    async fn redact_contents(&self, redacting: Redacting<'_>) -> Result<Entry, HistoryError> {
        let mut attempts = self.store.log().attempts();
        let redacted = self.try_to_redact(&redacting, &mut attempts).await;
        self.store.log().unclaim(&attempts).await;
        redacted
    }

    async fn try_to_redact(&self, redacting: &Redacting<'_>, attempts: &mut Attempts) -> Result<Entry, HistoryError> {
        loop {
            let tip = self.store.log().turn(attempts).await?;
            match self.redact_at(&tip, redacting).await {
                Err(HistoryError::Store(error)) => attempts.again(&tip, error)?,
                outcome => return outcome,
            }
        }
    }

    async fn redact_at(&self, tip: &Arc<Tip>, redacting: &Redacting<'_>) -> Result<Entry, HistoryError> {
        let log = self.store.log();
        let (numbers, edits) = match redacting {
            Redacting::Entries(entries) => {
                let numbers: BTreeSet<_> = entries.iter().map(|entry| entry.number).collect();
                (numbers.into_iter().rev().collect(), redaction::of_entries(log, tip, entries).await?)
            }
            Redacting::Version { change, keeping } => {
                (vec![change.0.number], redaction::of_change(log, tip, *change, keeping).await?)
            }
            Redacting::Changes(changes) => (numbers_of(changes), redaction::of_parts(log, tip, changes).await?),
            Redacting::Path(path) => {
                let found = related::to_path(log, tip, path).await?;
                let refs = found.iter().map(|(entry, indexes)| (EntryRef::from(entry), indexes));
                let each = refs.flat_map(|(entry, indexes)| indexes.iter().map(move |index| (entry, *index)));
                let changes: Vec<_> = each.collect();
                if changes.is_empty() {
                    return Err(HistoryError::NoChangeOf { path: (*path).clone() });
                }
                (numbers_of(&changes), redaction::of_parts(log, tip, &changes).await?)
            }
        };
        self.apply(tip, Batch::new().for_command("redact"), Origin::Redaction(numbers), edits).await
    }

    /// Finds given text in the present files, in the history and in all names of files. Case and encoding have to be
    /// the same.
    ///
    /// # Errors
    /// [`HistoryError::InvalidText`] and [`HistoryError::Store`].
    pub async fn find_text(&self, text: &str) -> Result<TextRedaction, HistoryError> {
        let (log, erased) = (self.store.log(), Erased::new(text, "")?);
        log.retry(|tip| async move { Ok::<_, HistoryError>(erased.find(log, &tip).await?.found) }).await
    }

    /// Erases the text that [`find_text`](Self::find_text) finds: replaces it in the present files by `[redacted]`, and
    /// removes the earlier texts and the names that contain it from the history, in one step. Other texts of the same
    /// files and entries stay. If it was not found, nothing changes.
    ///
    /// Present names stay, and so do copies, such as backups, audit logs and texts of other encodings.
    ///
    /// # Errors
    /// [`HistoryError::InvalidText`] and [`HistoryError::Store`].
    pub async fn redact_text(&self, text: &str) -> Result<TextRedaction, HistoryError> {
        let (erased, mut attempts) = (Erased::new(text, MARK)?, self.store.log().attempts());
        let redacted = self.try_to_erase(erased, &mut attempts).await;
        self.store.log().unclaim(&attempts).await;
        redacted
    }

    async fn try_to_erase(&self, erased: Erased<'_>, attempts: &mut Attempts) -> Result<TextRedaction, HistoryError> {
        loop {
            let tip = self.store.log().turn(attempts).await?;
            match self.redact_text_at(&tip, erased).await {
                // Another program changed a file after it was read.
                Err(HistoryError::Store(StoreError::VersionMismatch { path })) if !path.is_record() => {
                    attempts.count()?;
                }
                Err(HistoryError::Store(error)) => attempts.again(&tip, error)?,
                outcome => return outcome,
            }
        }
    }

    async fn redact_text_at(&self, tip: &Arc<Tip>, erased: Erased<'_>) -> Result<TextRedaction, HistoryError> {
        let log = self.store.log();
        let Places { mut found, batch, removals } = erased.find(log, tip).await?;
        if batch.changes_nothing() && removals.is_empty() {
            return Ok(found);
        }
        let is_kept = tip.has_history();
        let mut edits = if is_kept { redaction::of_changes(log, tip, &removals).await? } else { Edits::default() };
        edits.forgets_replaced = true;
        let origin = Origin::Redaction(found.entries.iter().rev().copied().collect());
        found.entry = self.try_apply(tip, batch.for_command("redact"), origin, edits).await?;
        if is_kept && found.entry.is_none() { Err(missing_entry().into()) } else { Ok(found) }
    }

    /// The entry and all others that changed its files, under all their names, newest first. The contents of a file can
    /// be in each of them. Changes that were redacted alone have no name, and are not found.
    ///
    /// # Errors
    /// The errors of [`entry`](Self::entry).
    pub async fn related(&self, number: u64) -> Result<Vec<Entry>, HistoryError> {
        self.entry(number).await?;
        let log = self.store.log();
        log.retry(|tip| async move { related::to_entry(log, &tip, number).await }).await
    }

    /// Reads the contents that a change of an entry, named by its number and index, replaced or removed.
    ///
    /// # Errors
    /// [`HistoryError::NoChange`], [`HistoryError::NotKept`] if the change keeps no contents, and the errors of
    /// [`entry`](Self::entry).
    pub async fn replaced_by(&self, entry: impl Into<EntryRef> + Send, index: usize) -> Result<Vec<u8>, HistoryError> {
        let (log, entry) = (self.store.log(), entry.into());
        log.retry(|tip| async move { redaction::kept_contents(log, &tip, (entry, index)).await }).await
    }

    /// The entries that keep something of the past of a file or directory under all its names, newest first, with the
    /// indexes of these changes: of the files that are there now, or were when they were removed. Renames of a
    /// directory above are not among them.
    ///
    /// # Errors
    /// [`HistoryError::Store`].
    pub async fn changes_of(&self, path: &StorePath) -> Result<Vec<(Entry, Vec<usize>)>, HistoryError> {
        let log = self.store.log();
        log.retry(|tip| async move { related::to_path(log, &tip, path).await }).await
    }

    /// The entry that wrote each line of the present text of a file. `None` if that is not known, or was
    /// more than 50 changes ago.
    ///
    /// # Errors
    /// [`HistoryError::Store`].
    pub async fn blame(&self, path: &StorePath, text: &str) -> Result<Vec<Option<Arc<Entry>>>, HistoryError> {
        blame::of_lines(self, path, text).await
    }

    /// [`redact_changes`](Self::redact_changes) for the [past](Self::changes_of) of a file or directory.
    ///
    /// # Errors
    /// [`HistoryError::NoChangeOf`] and [`HistoryError::Store`].
    pub async fn redact_path(&self, path: &StorePath) -> Result<Entry, HistoryError> {
        self.redact_contents(Redacting::Path(path)).await
    }

    /// Redacts single changes of entries, and no others of the same entries: their paths, sizes and hashes become
    /// [`FileChange::Redacted`](crate::FileChange). The history loses the contents before and after them, which later
    /// changes may keep.
    ///
    /// # Errors
    /// [`HistoryError::NoChange`], and the errors of [`entry`](Self::entry).
    pub async fn redact_changes(&self, changes: &[(EntryRef, usize)]) -> Result<Entry, HistoryError> {
        self.redact_contents(Redacting::Changes(changes)).await
    }

    /// Redacts one version: the path, size and hash of a change. Later changes of the file keep the contents that it
    /// wrote: `keeping` names those, which lose them.
    ///
    /// # Errors
    /// [`HistoryError::NoChange`], and the errors of [`entry`](Self::entry).
    pub async fn redact_version(
        &self,
        change: (impl Into<EntryRef> + Send, usize),
        keeping: &[(EntryRef, usize)],
    ) -> Result<Entry, HistoryError> {
        self.redact_contents(Redacting::Version { change: (change.0.into(), change.1), keeping }).await
    }

    /// Removes the entries that exceed the [limits](crate::Limits), as each 64th change does. Returns their number.
    ///
    /// # Errors
    /// [`HistoryError::Store`].
    pub async fn trim(&self) -> Result<u64, HistoryError> {
        let (log, mut attempts) = (self.store.log(), self.store.log().attempts());
        loop {
            let tip = log.turn(&mut attempts).await?;
            match log.trim(&tip).await {
                Err(error) => attempts.again(&tip, error)?,
                Ok(removed) => return Ok(removed),
            }
        }
    }

    /// Removes the whole history, even if it is damaged. The next change starts a new one, if the store does.
    ///
    /// # Errors
    /// [`HistoryError::Store`].
    pub async fn clear(&self) -> Result<(), HistoryError> {
        let batch = Batch::new().remove(records::root()).for_command("redact");
        match self.above.apply(self.actor.iter().cloned().fold(batch, Batch::by)).await {
            Err(StoreError::NotFound { .. }) => Ok(()),
            cleared => Ok(cleared?),
        }
    }

    /// Copies all files and the whole history to a memory that has neither, in one batch. Entries keep their numbers,
    /// identities, times and actors, and files their identities. Both are in RAM until then. The layers over the
    /// destination do not see the changes.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`] for a destination with files or a history, and [`HistoryError::Store`].
    pub async fn copy_to<D: Store>(&self, destination: &HistoryStore<D>) -> Result<Copied, HistoryError> {
        copy::refuse_files(destination.inner()).await?;
        let log = self.store.log();
        let (batch, copied) = log.retry(|tip| async move { copy::whole(log, &tip).await }).await?;
        destination.inner().apply(batch).await?;
        Ok(copied)
    }

    /// Checks all entries and contents, and compares the newest ones with the files.
    ///
    /// # Errors
    /// [`HistoryError::Store`] if the store cannot be read. Damage is in the report.
    pub async fn verify(&self) -> Result<HistoryReport, HistoryError> {
        Ok(check::verify(self.store.log()).await?)
    }

    /// Replaces damaged and missing entries by redacted ones, whose changes are not known, and removes the oldest
    /// entries up to a block that cannot be read. Returns what it did, in words.
    ///
    /// # Errors
    /// [`HistoryError::Store`].
    pub async fn repair(&self) -> Result<Vec<String>, HistoryError> {
        Ok(repair::repair(self.store.log()).await?)
    }

    /// Brings the [versions](crate::Versions) of all files in the log up to date, and returns the end of the log.
    ///
    /// # Errors
    /// [`HistoryError::Store`].
    pub async fn refresh(&self, versions: &VersionCache) -> Result<LogEnd, HistoryError> {
        Ok(versions.refresh(self.store.log(), false).await?)
    }

    /// [`refresh`](Self::refresh), and adds the files that only other programs wrote. It lists all files.
    ///
    /// # Errors
    /// [`HistoryError::Store`].
    pub async fn observe(&self, versions: &VersionCache) -> Result<LogEnd, HistoryError> {
        Ok(versions.refresh(self.store.log(), true).await?)
    }
}

/// What to redact.
enum Redacting<'a> {
    Entries(BTreeSet<EntryRef>),
    /// A change of an entry, without the contents that other changes keep.
    Version {
        change: (EntryRef, usize),
        keeping: &'a [(EntryRef, usize)],
    },
    Changes(&'a [(EntryRef, usize)]),
    Path(&'a StorePath),
}

/// The numbers of the entries, newest first.
fn numbers_of(changes: &[(EntryRef, usize)]) -> Vec<u64> {
    let numbers: BTreeSet<_> = changes.iter().map(|(entry, _)| entry.number).collect();
    numbers.into_iter().rev().collect()
}

fn missing_entry() -> StoreError {
    StoreError::failure(ErrorKind::Other, "writing the history", "the batch did not reach it")
}

fn refs(entries: impl IntoIterator<Item: Into<EntryRef>>) -> BTreeSet<EntryRef> {
    entries.into_iter().map(Into::into).collect()
}
