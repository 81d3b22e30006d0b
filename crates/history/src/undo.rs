//! Takes back entries, and restores files.

use std::sync::Arc;

use memory_tool_core::{Batch, Node, Precondition, Store, StoreError, StorePath, Version};

use crate::entry::{Digest, Entry, FileChange, Origin};
use crate::error::HistoryError;
use crate::log::{Log, Tip};
use crate::past::{Files, Reader, Source, files_after};

/// The goal of an operation.
#[derive(Clone, Debug)]
pub(crate) enum Goal {
    /// Take back this number of the last changes that are not undone.
    Undo(usize),
    /// Take back the last undo.
    Redo,
    /// Take back certain entries.
    Revert(Vec<u64>),
    /// Restore a path to its state after an entry.
    Restore(StorePath, u64),
}

/// Whether files that have changed since are replaced.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Force {
    No,
    Yes,
}

/// The batch that reaches a goal, if this is still the end of the log.
pub(crate) async fn plan<S: Store>(
    log: &Log<S>,
    tip: &Arc<Tip>,
    goal: &Goal,
    force: Force,
) -> Result<(Batch, Origin), HistoryError> {
    let planning = Planning { log, tip };
    match goal {
        Goal::Undo(count) => {
            let undone = planning.last_changes(*count).await?;
            let origin = Origin::Undo(undone.iter().map(|entry| entry.number).collect());
            Ok((planning.take_back(&undone, force).await?, origin))
        }
        Goal::Redo => {
            let redone = planning.last_undo().await?;
            let origin = Origin::Redo(redone.number);
            Ok((planning.take_back(&[redone], force).await?, origin))
        }
        Goal::Revert(numbers) => {
            let mut numbers = numbers.clone();
            numbers.sort_unstable_by(|left, right| right.cmp(left));
            numbers.dedup();
            let mut reverted = Vec::new();
            for number in &numbers {
                reverted.push(planning.entry(*number).await?);
            }
            Ok((planning.take_back(&reverted, force).await?, Origin::Revert(numbers)))
        }
        Goal::Restore(path, number) => {
            let batch = planning.restore(path, *number).await?;
            if batch.changes_nothing() { Err(HistoryError::Unchanged) } else { Ok((batch, Origin::Restore(*number))) }
        }
    }
}

struct Planning<'a, S> {
    log: &'a Log<S>,
    tip: &'a Arc<Tip>,
}

impl<S: Store> Planning<'_, S> {
    async fn entry(&self, number: u64) -> Result<Entry, HistoryError> {
        let (oldest, newest) = (self.tip.head.first, self.tip.newest());
        if number == 0 || number > newest {
            return Err(HistoryError::NoEntry { number, newest });
        }
        if number < oldest {
            return Err(HistoryError::Forgotten { oldest });
        }
        Ok(self.log.entry(self.tip, number).await?.entry.clone())
    }

    /// The last changes that are not undone, newest first.
    async fn last_changes(&self, count: usize) -> Result<Vec<Entry>, HistoryError> {
        let (mut found, mut number) = (Vec::new(), self.tip.newest());
        while found.len() < count.max(1) {
            if number == 0 {
                return Err(HistoryError::NothingToUndo);
            }
            let entry = self.entry(number).await?;
            number = match &entry.origin {
                // Before the oldest change that it undid.
                Origin::Undo(undone) => undone.last().copied().unwrap_or(number),
                Origin::Redaction(_) => number,
                Origin::Edit | Origin::Redo(_) | Origin::Revert(_) | Origin::Restore(_) => {
                    found.push(entry);
                    number
                }
            }
            .saturating_sub(1);
        }
        Ok(found)
    }

    /// The last undo that is not redone, if nothing else was changed since.
    async fn last_undo(&self) -> Result<Entry, HistoryError> {
        let mut number = self.tip.newest();
        while number > 0 {
            let entry = self.entry(number).await?;
            number = match entry.origin {
                Origin::Undo(_) => return Ok(entry),
                Origin::Redo(undo) => undo,
                Origin::Redaction(_) => number,
                Origin::Edit | Origin::Revert(_) | Origin::Restore(_) => break,
            }
            .saturating_sub(1);
        }
        Err(HistoryError::NothingToRedo)
    }

    /// Takes back these entries, newest first.
    async fn take_back(&self, entries: &[Entry], force: Force) -> Result<Batch, HistoryError> {
        if let Some(redacted) = entries.iter().find(|entry| entry.is_redacted) {
            return Err(HistoryError::Redacted { number: redacted.number });
        }
        let present = Files::present(self.log, self.tip).await?;
        let (mut files, mut batch, mut in_the_way) = (present.clone(), Batch::new(), Vec::new());
        for entry in entries {
            for change in &entry.changes {
                match self.state(&files, change).await? {
                    State::Same(required) => batch = required.into_iter().fold(batch, require),
                    State::Changed if force == Force::Yes => {}
                    State::Changed => in_the_way.extend(change.path().cloned()),
                }
            }
            files.take_back(entry);
        }
        if !in_the_way.is_empty() {
            return Err(HistoryError::Changed { paths: in_the_way });
        }
        match entries {
            [entry] if force == Force::No && only_renames(entry) => Ok(rename_back(entry)),
            _ => self.change(batch, &present, &files).await,
        }
    }

    /// Whether files are as a change left them.
    async fn state(&self, files: &Files, change: &FileChange) -> Result<State, HistoryError> {
        let is_free = |path: &StorePath| {
            files.under(path).next().is_none() && !path.parents().any(|above| files.0.contains_key(&above))
        };
        let is_same = match change {
            FileChange::Remove { path, .. } => is_free(path),
            FileChange::Redacted { .. } => false,
            FileChange::Rename { from, to } => is_free(from) && files.under(to).next().is_some(),
            FileChange::Write { path, after, .. } => match files.0.get(path) {
                None => false,
                Some(Source::Past(_, kept)) => kept.is_some_and(|kept| kept.digest == *after),
                Some(Source::Present(file)) if file.size != after.size => false,
                Some(Source::Present(file)) => return self.present_state(&file.path, after).await,
            },
        };
        Ok(if is_same { State::Same(None) } else { State::Changed })
    }

    async fn present_state(&self, path: &StorePath, after: &Digest) -> Result<State, HistoryError> {
        let node = self.log.store.read_opts(path, self.tip.require_in_read()).await?;
        Ok(match node {
            Node::File(file) if Digest::of(&file.content) == *after => State::Same(Some((path.clone(), file.version))),
            _ => State::Changed,
        })
    }

    async fn restore(&self, path: &StorePath, number: u64) -> Result<Batch, HistoryError> {
        let present = Files::present(self.log, self.tip).await?;
        let past = files_after(self.log, self.tip, number).await?;
        if !path.is_root() && past.under(path).next().is_none() && present.under(path).next().is_none() {
            return Err(HistoryError::NotAFile { path: path.clone(), number });
        }
        let mut wanted = present.clone();
        wanted.0.retain(|file, _| file != path && !file.is_under(path));
        wanted.0.extend(past.under(path).map(|(path, source)| (path.clone(), source.clone())));
        self.change(Batch::new(), &present, &wanted).await
    }

    /// Adds the changes that turn the present files into the wanted ones.
    async fn change(&self, mut batch: Batch, present: &Files, wanted: &Files) -> Result<Batch, HistoryError> {
        let mut reader = Reader::new(self.log, self.tip);
        let mut removed = present.0.clone();
        removed.retain(|path, _| !wanted.0.contains_key(path));
        for (path, source) in &wanted.0 {
            let now = source.present();
            if now == Some(path) {
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
            batch = batch.write(path, reader.read(path, source).await?);
        }
        let batch = removed.into_keys().fold(batch, Batch::remove);
        batch.validate().map_err(StoreError::from)?;
        Ok(batch)
    }
}

/// The state of a file that a change left.
enum State {
    /// It is the same. If it is a present file, it has this version.
    Same(Option<(StorePath, Version)>),
    Changed,
}

fn require(batch: Batch, (path, version): (StorePath, Version)) -> Batch {
    batch.require(path, Precondition::Version(version))
}

fn only_renames(entry: &Entry) -> bool {
    entry.changes.iter().all(|change| matches!(change, FileChange::Rename { .. }))
}

/// Takes back the renames of an entry, which keeps directories whole and the times of files.
fn rename_back(entry: &Entry) -> Batch {
    entry.changes.iter().fold(Batch::new(), |batch, change| match change {
        FileChange::Rename { from, to } => batch.rename(to, from),
        FileChange::Write { .. } | FileChange::Remove { .. } | FileChange::Redacted { .. } => batch,
    })
}
