//! [`History`]: what changed, and how to take it back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;

use memory_tool_core::{
    Actor, Batch, ErrorKind, MemoryPath, Moment, Node, PathError, ReadOnlyStore, ReadOptions, Store, StoreError,
    StorePath,
};
use serde::{Deserialize, Deserializer};

use crate::attempts::Attempts;
use crate::check::{self, HistoryReport};
use crate::diff::{self, Differences};
use crate::entry::{Entry, EntryRef, Origin};
use crate::error::HistoryError;
use crate::past::{Backwards, Past};
use crate::plan::{Edits, Plan};
use crate::records::{self, IndexedBlock};
use crate::store::HistoryStore;
use crate::tip::Tip;
use crate::undo::{Force, Goal, Planner, TakenBack};
use crate::version_cache::{LogEnd, VersionCache};
use crate::{redaction, related, repair};

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
    /// [`HistoryError::Store`].
    pub async fn entries(&self, filter: &LogFilter) -> Result<Vec<Entry>, HistoryError> {
        self.store.log().retry(|tip| async move { self.entries_at(&tip, filter).await }).await
    }

    async fn entries_at(&self, tip: &Arc<Tip>, filter: &LogFilter) -> Result<Vec<Entry>, StoreError> {
        let log = self.store.log();
        let mut path = filter.path.clone().transpose()?;
        let newest = filter.before.map_or(tip.newest(), |before| before.saturating_sub(1));
        // The path is the present one, and has to be followed from the end.
        let mut reader = Backwards::from(log, tip, if path.is_some() { tip.newest() } else { newest });
        let mut index = if path.is_some() { log.index(tip).await? } else { Vec::new() };
        let mut entries = Vec::new();
        while filter.limit.is_none_or(|limit| entries.len() < limit) {
            if let Some(path) = &path {
                skip_other_blocks(&mut reader, tip, &mut index, path);
            }
            let Some(entry) = reader.next().await? else { break };
            if filter.since.is_some_and(|since| Moment::from(entry.time) < since) {
                break;
            }
            let follows = path.as_ref().map(|path| entry.follow(path));
            let concerns = !matches!(follows, Some(None));
            if let Some(Some(earlier)) = follows {
                path = Some(earlier);
            }
            if concerns && entry.number <= newest && filter.matches(&entry) {
                entries.push(entry);
            }
        }
        Ok(entries)
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

    /// Takes back certain entries, such as all of an actor, in any order. Files that other
    /// entries changed since are refused.
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
        self.reach(Goal::Restore(path.clone(), entry.into())).await
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
        let planned = self.store.log().plans.add(Plan { tip: Arc::clone(tip), origin, edits })?;
        let batch = self.actor.iter().cloned().fold(planned.mark(batch), Batch::by);
        self.above.apply(batch).await?;
        let missing = || StoreError::failure(ErrorKind::Other, "writing the history", "the batch did not reach it");
        Ok(planned.added().ok_or_else(missing)?)
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
            Redacting::Change { change, keeping } => {
                (vec![change.0.number], redaction::of_change(log, tip, *change, keeping).await?)
            }
        };
        self.apply(tip, Batch::new().for_command("redact"), Origin::Redaction(numbers), edits).await
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

    /// Redacts one change of an entry: its path, size and hash become [`FileChange::Redacted`](crate::FileChange). The
    /// contents that it wrote are kept by later changes of the file: `keeping` names those, which lose what they keep.
    ///
    /// # Errors
    /// [`HistoryError::NoChange`], and the errors of [`entry`](Self::entry).
    pub async fn redact_change(
        &self,
        change: (impl Into<EntryRef> + Send, usize),
        keeping: &[(EntryRef, usize)],
    ) -> Result<Entry, HistoryError> {
        self.redact_contents(Redacting::Change { change: (change.0.into(), change.1), keeping }).await
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
    Change {
        change: (EntryRef, usize),
        keeping: &'a [(EntryRef, usize)],
    },
}

fn refs(entries: impl IntoIterator<Item: Into<EntryRef>>) -> BTreeSet<EntryRef> {
    entries.into_iter().map(Into::into).collect()
}

/// Skips blocks that cannot concern a path. `index` loses the blocks that were passed.
fn skip_other_blocks<S: Store>(
    reader: &mut Backwards<'_, S>,
    tip: &Tip,
    index: &mut Vec<IndexedBlock>,
    path: &StorePath,
) {
    while reader.number() < tip.head.blocks_end {
        let Some(block) = index.last() else { return };
        if reader.number() < block.first {
            index.pop();
        } else if block.may_concern(path) {
            return;
        } else {
            reader.skip_to(block.first - 1);
        }
    }
}

/// Which entries [`History::entries`] lists.
///
/// ```
/// use memory_tool_history::LogFilter;
///
/// let newest = LogFilter::new().path("/memories/a.txt".parse()?).actor("user/42").limit(20);
/// assert_ne!(newest, LogFilter::new());
/// # Ok::<(), memory_tool_core::PathError>(())
/// ```
///
/// In data, the fields have the names of the methods, and times are [moments](Moment). An invalid path is an error of
/// [`History::entries`].
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[must_use]
#[serde(default, deny_unknown_fields)]
pub struct LogFilter {
    #[serde(deserialize_with = "memory_path")]
    path: Option<Result<StorePath, PathError>>,
    actor: Option<String>,
    command: Option<String>,
    since: Option<Moment>,
    until: Option<Moment>,
    before: Option<u64>,
    limit: Option<usize>,
}

impl LogFilter {
    /// All entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only changes of the file or directory that has this path now, or had it last, also before it was renamed.
    pub fn path(mut self, path: StorePath) -> Self {
        self.path = Some(Ok(path));
        self
    }

    /// Only changes by this actor.
    pub fn actor(mut self, actor: impl Into<String>) -> Self {
        self.actor = Some(actor.into());
        self
    }

    /// Only changes by this command.
    pub fn command(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }

    /// Only changes since this time.
    pub fn since(mut self, since: impl Into<Moment>) -> Self {
        self.since = Some(since.into());
        self
    }

    /// Only changes until this time.
    pub fn until(mut self, until: impl Into<Moment>) -> Self {
        self.until = Some(until.into());
        self
    }

    /// Only entries before this number, for the next page.
    pub fn before(mut self, number: u64) -> Self {
        self.before = Some(number);
        self
    }

    /// At most this number of entries.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    fn matches(&self, entry: &Entry) -> bool {
        self.actor.as_ref().is_none_or(|actor| entry.actor.as_ref() == Some(actor))
            && self.command.as_ref().is_none_or(|command| entry.command.as_ref() == Some(command))
            && self.until.is_none_or(|until| Moment::from(entry.time) <= until)
    }
}

fn memory_path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Result<StorePath, PathError>>, D::Error> {
    let path = Option::<String>::deserialize(deserializer)?;
    Ok(path.map(|path| MemoryPath::parse(&path).map(StorePath::from)))
}
