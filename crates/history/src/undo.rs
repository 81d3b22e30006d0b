//! Takes back entries, and restores files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use memory_tool_core::{Batch, Change, Node, Precondition, Store, StoreError, StorePath, Version};
use serde::Serialize;

use crate::entry::{Digest, Entry, EntryRef, FileChange, Origin};
use crate::error::HistoryError;
use crate::filter::LogFilter;
use crate::log::Log;
use crate::merge::merge;
use crate::past::{Backwards, Files, Past, Reader, Source};
use crate::redaction;
use crate::store::HistoryStore;
use crate::tip::Tip;

/// The goal of an operation.
#[derive(Clone, Debug)]
pub(crate) enum Goal {
    /// Take back this number of the last changes that are not undone.
    Undo(usize),
    /// Take back the last undo.
    Redo,
    /// Take back certain entries.
    Revert(BTreeSet<EntryRef>),
    /// Restore a path to its state after an entry, or a deleted one to its last state.
    Restore(StorePath, Option<EntryRef>),
}

impl Goal {
    /// The command, for logs.
    pub(crate) fn command(&self) -> &'static str {
        match self {
            Self::Undo(_) => "undo",
            Self::Redo => "redo",
            Self::Revert(_) => "revert",
            Self::Restore(..) => "restore",
        }
    }
}

/// The result of taking changes back.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TakenBack {
    /// The new entry.
    #[serde(flatten)]
    pub entry: Entry,
    /// Files that were not changed, because their earlier contents had expired, were unreadable or were redacted.
    pub missing: Vec<StorePath>,
}

/// Whether files that have changed since are replaced.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Force {
    No,
    Yes,
}

/// Plans the batch that reaches a goal. A plan for a later end of the log continues the plan before.
pub(crate) struct Planner<'a, S> {
    store: &'a HistoryStore<S>,
    log: &'a Log<S>,
    goal: Goal,
    force: Force,
    /// The end of the log of the last plan.
    tip: Option<Arc<Tip>>,
    /// The last plan, if it may still be right.
    ready: Option<(Batch, Origin)>,
    /// The entries to take back, newest first, and their origin.
    chosen: Option<(Vec<Entry>, Origin)>,
    past: Past<S>,
    /// Contents that were read, by entry and path.
    contents: BTreeMap<(u64, StorePath), Vec<u8>>,
    /// The versions of present files that were compared, with their digests.
    present: BTreeMap<StorePath, (Digest, Version)>,
    /// The files that are not changed, because their contents are not kept or were redacted.
    missing: BTreeSet<StorePath>,
}

impl<'a, S: Store> Planner<'a, S> {
    pub(crate) fn new(store: &'a HistoryStore<S>, goal: Goal, force: Force) -> Self {
        let number = if let Goal::Restore(_, Some(entry)) = &goal { entry.number } else { 0 };
        Self {
            store,
            log: store.log(),
            goal,
            force,
            tip: None,
            ready: None,
            chosen: None,
            past: Past::new(store.clone(), number),
            contents: BTreeMap::new(),
            present: BTreeMap::new(),
            missing: BTreeSet::new(),
        }
    }

    /// Forgets what was read of a file that another program changed.
    pub(crate) fn forget(&mut self, path: &StorePath) {
        self.present.remove(path);
        self.ready = None;
    }

    /// The result, with the entry of the last plan.
    pub(crate) fn taken_back(self, entry: Entry) -> TakenBack {
        TakenBack { entry, missing: self.missing.into_iter().collect() }
    }

    /// The batch that reaches the goal, if this is still the end of the log.
    pub(crate) async fn plan(&mut self, tip: &Arc<Tip>) -> Result<(Batch, Origin), HistoryError> {
        let new = match self.tip.replace(Arc::clone(tip)) {
            Some(last) => self.log.since(tip, last.end()).await?,
            None => None,
        };
        match new {
            Some(new) => {
                let changed = || new.iter().flat_map(|entry| &entry.changes).flat_map(FileChange::paths);
                changed().for_each(|changed| self.present.retain(|path, _| !path.overlaps(changed)));
                let ready = self.ready.take().filter(|(batch, _)| !changed().any(|path| self.concerns(batch, path)));
                if let Some(ready) = ready {
                    self.ready = Some(ready.clone());
                    return Ok(ready);
                }
            }
            // Entries can have been redacted or restored.
            None => {
                self.chosen = None;
                self.contents.clear();
                self.present.clear();
            }
        }
        self.ready = None;
        self.missing.clear();
        let planned = self.plan_again(tip).await?;
        self.ready = Some(planned.clone());
        Ok(planned)
    }

    /// Whether a change at this path makes a plan wrong.
    fn concerns(&self, batch: &Batch, path: &StorePath) -> bool {
        let is_restored = matches!(&self.goal, Goal::Restore(restored, _) if restored.overlaps(path));
        is_restored || batch.preconditions().iter().any(|(required, _)| required.overlaps(path)) || changes(batch, path)
    }

    async fn plan_again(&mut self, tip: &Arc<Tip>) -> Result<(Batch, Origin), HistoryError> {
        if let Goal::Restore(path, entry) = self.goal.clone() {
            let present = Files::present(self.log, tip).await?;
            match entry {
                Some(entry) if entry.id.is_some() => {
                    redaction::check(self.log, tip, &BTreeSet::from([entry])).await?;
                }
                Some(_) => {}
                None => self.go_to_last(tip, &present, &path).await?,
            }
            return Ok((self.restore(tip, &present, &path).await?, Origin::Restore(self.past.number())));
        }
        let (entries, origin) = match self.chosen.take() {
            Some(chosen) => chosen,
            None => self.choose(tip).await?,
        };
        let batch = self.take_back(tip, &entries).await;
        self.chosen = Some((entries, origin.clone()));
        Ok((batch?, origin))
    }

    async fn choose(&self, tip: &Tip) -> Result<(Vec<Entry>, Origin), HistoryError> {
        let choosing = Choosing { log: self.log, tip };
        let entries = match &self.goal {
            Goal::Redo => vec![choosing.last_undo().await?],
            Goal::Revert(entries) => choosing.entries(entries).await?,
            Goal::Undo(count) => choosing.last_changes(*count).await?,
            Goal::Restore(..) => Vec::new(),
        };
        let mut numbers = entries.iter().map(|entry| entry.number);
        let origin = match &self.goal {
            Goal::Redo => Origin::Redo(numbers.next().unwrap_or_default()),
            Goal::Revert(_) => Origin::Revert(numbers.collect()),
            Goal::Undo(_) => Origin::Undo(numbers.collect()),
            Goal::Restore(..) => Origin::Restore(self.past.number()),
        };
        Ok((entries, origin))
    }

    /// Takes back these entries, newest first.
    async fn take_back(&mut self, tip: &Arc<Tip>, entries: &[Entry]) -> Result<Batch, HistoryError> {
        let present = Files::present(self.log, tip).await?;
        let (mut files, mut batch, mut in_the_way) = (present.clone(), Batch::new(), Vec::new());
        for entry in entries {
            for change in &entry.changes {
                match self.state(tip, &files, change).await? {
                    State::Same(required) => batch = required.into_iter().fold(batch, require),
                    State::Missing => {}
                    State::Changed => in_the_way.extend(change.path().cloned()),
                }
            }
            files.take_back(entry);
        }
        if !in_the_way.is_empty() {
            let oldest = entries.iter().map(|entry| entry.number).min().unwrap_or(0);
            let expired = Choosing { log: self.log, tip }.expired_since(oldest).await?;
            self.missing.extend(in_the_way.extract_if(.., |path| expired.contains(path)));
        }
        if !in_the_way.is_empty() && self.force == Force::No {
            let merged = self.merge(tip, entries).await?;
            return merged.ok_or(HistoryError::Changed { paths: in_the_way });
        }
        if let [entry] = entries
            && in_the_way.is_empty()
            && let Some(batch) = rename_back(entry)
        {
            return Ok(batch);
        }
        self.keep_missing(&present, &mut files);
        let batch = self.change(tip, batch, &present, &files).await?;
        self.check_that_something_is_kept(entries, &batch)?;
        Ok(batch)
    }

    /// Takes back the change of one file by line, if later changes are in other lines.
    async fn merge(&self, tip: &Arc<Tip>, entries: &[Entry]) -> Result<Option<Batch>, HistoryError> {
        let (Goal::Revert(_), [entry]) = (&self.goal, entries) else { return Ok(None) };
        let [FileChange::Write { path, before: Some(_), .. }] = entry.changes.as_slice() else { return Ok(None) };
        // A file that was deleted and made again, or moved here, is another one.
        let later = LogFilter::new().path(path.clone()).entries(self.log, tip, None).await?;
        let later = later.iter().take_while(|later| later.number > entry.number).flat_map(|later| &later.changes);
        let is_edit = |change: &FileChange| matches!(change, FileChange::Write { before: Some(_), .. });
        let mut changes = later.filter(|change| change.paths().any(|changed| changed.overlaps(path)));
        if !changes.all(is_edit) {
            return Ok(None);
        }
        let Node::File(now) = self.log.store.read_opts(path, tip.require_in_read()).await? else { return Ok(None) };
        let mut texts = vec![now.content];
        for number in [entry.number, entry.number - 1] {
            match Past::new(self.store.clone(), number).read(path).await {
                Ok(Node::File(file)) => texts.push(file.content),
                Err(error @ HistoryError::Store(_)) => return Err(error),
                Ok(_) | Err(_) => return Ok(None),
            }
        }
        let texts: Vec<_> = texts.iter().filter_map(|text| str::from_utf8(text).ok()).collect();
        let [now_text, after, before] = texts[..] else { return Ok(None) };
        let merged = merge(after, now_text, before).filter(|merged| merged != now_text);
        let required = |merged| require(Batch::new(), (path.clone(), now.version)).write(path, merged);
        Ok(merged.map(required))
    }

    /// # Errors
    /// [`HistoryError::NotKept`], [`HistoryError::Redacted`] or [`HistoryError::Lost`] if that is why nothing could be
    /// taken back.
    fn check_that_something_is_kept(&self, entries: &[Entry], batch: &Batch) -> Result<(), HistoryError> {
        if !batch.changes_nothing() {
            return Ok(());
        }
        if let Some(lost) = entries.iter().find(|entry| entry.is_redacted && entry.changes.is_empty()) {
            return Err(HistoryError::Lost { number: lost.number });
        }
        if let Some(redacted) = entries.iter().find(|entry| entry.is_redacted) {
            return Err(HistoryError::Redacted { number: redacted.number });
        }
        match (self.missing.first(), entries.first()) {
            (Some(path), Some(entry)) => Err(HistoryError::NotKept { path: path.clone(), number: entry.number }),
            _ => Ok(()),
        }
    }

    /// Leaves files with missing contents unchanged.
    fn keep_missing(&mut self, present: &Files, files: &mut Files) {
        let is_missing = |(path, source): &(&StorePath, &Source)| source.is_missing() || self.missing.contains(path);
        let mut missing: BTreeSet<_> = files.0.iter().filter(is_missing).map(|(path, _)| path.clone()).collect();
        missing.extend(self.missing.iter().cloned());
        for path in &missing {
            match present.0.get(path) {
                Some(source) => _ = files.0.insert(path.clone(), source.clone()),
                None => _ = files.0.remove(path),
            }
        }
        self.missing.append(&mut missing);
    }

    /// Whether files are as a change left them.
    async fn state(&mut self, tip: &Tip, files: &Files, change: &FileChange) -> Result<State, HistoryError> {
        let is_free = |path: &StorePath| {
            files.under(path).next().is_none() && !path.parents().any(|above| files.0.contains_key(&above))
        };
        let is_same = match change {
            FileChange::Redacted { .. } => return Ok(State::Missing),
            _ if change.before().is_some_and(|before| before.digest.is_none()) => return Ok(State::Missing),
            FileChange::Remove { path, .. } => is_free(path),
            FileChange::Rename { from, to } => is_free(from) && files.under(to).next().is_some(),
            FileChange::Write { path, after, .. } => match files.0.get(path) {
                None | Some(Source::Redacted(_)) => false,
                Some(Source::Past(_, kept)) => kept.is_some_and(|kept| kept.digest == *after),
                Some(Source::Present(file)) if file.size != after.size => false,
                Some(Source::Present(file)) => {
                    let (path, (digest, version)) = (file.path.clone(), self.present(tip, &file.path).await?);
                    let is_same = digest == *after;
                    return Ok(if is_same { State::Same(Some((path, version))) } else { State::Changed });
                }
            },
        };
        Ok(if is_same { State::Same(None) } else { State::Changed })
    }

    /// The digest and the version of a present file.
    async fn present(&mut self, tip: &Tip, path: &StorePath) -> Result<(Digest, Version), HistoryError> {
        if let Some(known) = self.present.get(path) {
            return Ok(known.clone());
        }
        match self.log.store.read_opts(path, tip.require_in_read()).await? {
            Node::File(file) => {
                let found = (Digest::of(&file.content), file.version);
                self.present.insert(path.clone(), found.clone());
                Ok(found)
            }
            _ => Err(HistoryError::Changed { paths: vec![path.clone()] }),
        }
    }

    /// Chooses the last state in which a deleted file or directory existed.
    async fn go_to_last(&mut self, tip: &Arc<Tip>, present: &Files, path: &StorePath) -> Result<(), HistoryError> {
        if path.is_root() || present.under(path).next().is_some() {
            return Err(HistoryError::Exists { path: path.clone() });
        }
        let last_change = LogFilter::new().path(path.clone()).limit(1).entries(self.log, tip, None).await?.pop();
        let last_change = last_change.ok_or_else(|| HistoryError::NoChangeOf { path: path.clone() })?;
        // Another program may have deleted the file after this change. Then only the state before it is kept.
        let number = last_change.number - 1;
        if number != self.past.number() {
            self.past = Past::new(self.store.clone(), number);
        }
        Ok(())
    }

    async fn restore(&mut self, tip: &Arc<Tip>, present: &Files, path: &StorePath) -> Result<Batch, HistoryError> {
        let past = self.past.files(tip).await?;
        let past = &past.files;
        let number = self.past.number();
        if !path.is_root() && past.under(path).next().is_none() && present.under(path).next().is_none() {
            return Err(HistoryError::NotAFile { path: path.clone(), number });
        }
        if let Some(source) = past.0.get(path).filter(|source| source.is_missing()) {
            Reader::new(self.log, tip, None).read(path, source).await?;
        }
        let mut wanted = present.clone();
        wanted.0.retain(|file, _| file != path && !file.is_under(path));
        wanted.0.extend(past.under(path).map(|(path, source)| (path.clone(), source.clone())));
        self.keep_missing(present, &mut wanted);
        let batch = self.change(tip, Batch::new(), present, &wanted).await?;
        if batch.changes_nothing() { Err(HistoryError::Unchanged) } else { Ok(batch) }
    }

    /// Adds the changes that turn the present files into the wanted ones.
    async fn change(
        &mut self,
        tip: &Tip,
        mut batch: Batch,
        present: &Files,
        wanted: &Files,
    ) -> Result<Batch, HistoryError> {
        let mut reader = Reader::new(self.log, tip, None);
        let mut removed = present.0.clone();
        removed.retain(|path, _| !wanted.0.contains_key(path));
        for (path, source) in &wanted.0 {
            let now = if let Source::Present(file) = source { Some(&file.path) } else { None };
            if now == Some(path) || self.is_present(tip, present.0.get(path), source).await? {
                continue;
            }
            if let Some(file) = path.parents().find(|above| wanted.0.contains_key(above)) {
                return Err(HistoryError::FileAndDirectory { path: file });
            }
            if let Some(now) = now
                && !present.0.contains_key(path)
                && removed.remove(now).is_some()
            {
                batch = batch.rename(now, path);
                continue;
            }
            if !present.0.contains_key(path) {
                batch = batch.require(path, Precondition::Absent); // saves a read at the commit
            }
            batch = batch.write(path, self.content(&mut reader, path, source).await?);
        }
        let batch = removed.into_keys().fold(batch, Batch::remove);
        batch.validate().map_err(StoreError::from)?;
        Ok(batch)
    }

    /// Whether the present file already has the contents.
    async fn is_present(&mut self, tip: &Tip, now: Option<&Source>, wanted: &Source) -> Result<bool, HistoryError> {
        match (now, wanted) {
            (Some(Source::Present(file)), Source::Past(_, Some(kept))) if file.size == kept.digest.size => {
                Ok(self.present(tip, &file.path).await?.0 == kept.digest)
            }
            _ => Ok(false),
        }
    }

    async fn content(
        &mut self,
        reader: &mut Reader<'_, S>,
        path: &StorePath,
        source: &Source,
    ) -> Result<Vec<u8>, HistoryError> {
        let Source::Past(number, _) = source else { return reader.read(path, source).await };
        let key = (*number, path.clone());
        if let Some(known) = self.contents.get(&key) {
            return Ok(known.clone());
        }
        let content = reader.read(path, source).await?;
        self.contents.insert(key, content.clone());
        Ok(content)
    }
}

/// The state of a file that a change left.
enum State {
    /// It is the same. If it is a present file, it has this version.
    Same(Option<(StorePath, Version)>),
    Changed,
    /// Nothing has the contents before the change.
    Missing,
}

/// Whether a batch changes a path, or anything above or under it.
fn changes(batch: &Batch, path: &StorePath) -> bool {
    batch.changes().iter().flat_map(Change::paths).any(|changed| changed.overlaps(path))
}

fn require(batch: Batch, (path, version): (StorePath, Version)) -> Batch {
    batch.require(path, Precondition::Version(version))
}

/// Takes back an entry that only renames, which keeps directories whole and the times of files.
fn rename_back(entry: &Entry) -> Option<Batch> {
    let renamed = entry.changes.iter().try_fold(Batch::new(), |batch, change| match change {
        FileChange::Rename { from, to } => Some(batch.rename(to, from)),
        FileChange::Write { .. } | FileChange::Remove { .. } | FileChange::Redacted { .. } => None,
    });
    renamed.filter(|_| !entry.changes.is_empty())
}

/// Chooses the entries to take back.
struct Choosing<'a, S> {
    log: &'a Log<S>,
    tip: &'a Tip,
}

impl<S: Store> Choosing<'_, S> {
    /// Certain entries, newest first.
    async fn entries(&self, named: &BTreeSet<EntryRef>) -> Result<Vec<Entry>, HistoryError> {
        redaction::check(self.log, self.tip, named).await?;
        let mut entries = Vec::new();
        for number in named.iter().rev().map(|entry| entry.number) {
            entries.push(self.log.entry(self.tip, number).await?.entry.clone());
        }
        entries.dedup_by_key(|entry| entry.number);
        Ok(entries)
    }

    fn backwards(&self) -> Backwards<'_, S> {
        Backwards::from(self.log, self.tip, self.tip.newest())
    }

    /// The last changes that are not undone, newest first. Changes without anything left to take back are skipped.
    async fn last_changes(&self, count: usize) -> Result<Vec<Entry>, HistoryError> {
        let (mut found, mut undone, mut expired) = (Vec::new(), BTreeSet::new(), Expired::default());
        let mut reader = self.backwards();
        while found.len() < count.max(1) {
            let Some(entry) = reader.next().await? else { return self.nothing_to_undo() };
            let is_left = !undone.contains(&entry.number) && expired.leave(&entry);
            expired.add(&entry);
            match &entry.origin {
                Origin::Undo(numbers) if !undone.contains(&entry.number) => undone.extend(numbers.iter().copied()),
                Origin::Undo(_) | Origin::Redaction(_) => {}
                Origin::Edit | Origin::Redo(_) | Origin::Revert(_) | Origin::Restore(_) if is_left => found.push(entry),
                Origin::Edit | Origin::Redo(_) | Origin::Revert(_) | Origin::Restore(_) => {}
            }
        }
        Ok(found)
    }

    fn nothing_to_undo(&self) -> Result<Vec<Entry>, HistoryError> {
        let oldest = self.tip.head.first;
        Err(if oldest > 1 { HistoryError::Forgotten { oldest } } else { HistoryError::NothingToUndo })
    }

    /// The last undo that is not redone, if nothing else was changed since.
    async fn last_undo(&self) -> Result<Entry, HistoryError> {
        let mut reader = self.backwards();
        while let Some(entry) = reader.next().await? {
            match entry.origin {
                Origin::Undo(_) => return Ok(entry),
                Origin::Redo(undo) => reader.skip_to(undo.saturating_sub(1)),
                Origin::Redaction(_) => {}
                Origin::Edit if is_expiry(&entry) || is_drop(&entry) => {}
                Origin::Edit | Origin::Revert(_) | Origin::Restore(_) => break,
            }
        }
        Err(HistoryError::NothingToRedo)
    }

    /// The files that expired after an entry, and were not made again.
    async fn expired_since(&self, number: u64) -> Result<BTreeSet<StorePath>, HistoryError> {
        let (mut expired, mut reader) = (Expired::default(), self.backwards());
        while let Some(entry) = reader.next().await?.filter(|entry| entry.number > number) {
            expired.add(&entry);
        }
        Ok(expired.files)
    }
}

/// Whether only proposed changes were dropped, which nothing takes back.
fn is_drop(entry: &Entry) -> bool {
    entry.command.as_deref() == Some(Batch::DROP) && entry.changes.is_empty()
}

/// Whether the entry is a removal of expired files, which cannot be taken back.
fn is_expiry(entry: &Entry) -> bool {
    entry.command.as_deref() == Some(Batch::EXPIRE)
}

/// The files whose newest change is their expiry, while a log is read backwards.
#[derive(Default)]
struct Expired {
    files: BTreeSet<StorePath>,
    changed: BTreeSet<StorePath>,
}

impl Expired {
    fn add(&mut self, entry: &Entry) {
        for path in entry.changes.iter().flat_map(FileChange::paths) {
            if self.changed.insert(path.clone()) && is_expiry(entry) {
                self.files.insert(path.clone());
            }
        }
    }

    /// Whether something of a change is left to take back.
    fn leave(&self, entry: &Entry) -> bool {
        let is_without_changes = entry.changes.is_empty() && !entry.is_redacted;
        let is_left = is_without_changes
            || entry.changes.iter().any(|change| match change {
                FileChange::Redacted { .. } => false,
                FileChange::Rename { .. } => true,
                FileChange::Write { path, .. } | FileChange::Remove { path, .. } => !self.files.contains(path),
            });
        is_left && !is_expiry(entry) && !is_drop(entry)
    }
}
