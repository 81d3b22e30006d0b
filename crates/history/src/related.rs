//! The entries that changed a file, or the files of an entry, under all their names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use memory_tool_core::{Store, StorePath};

use crate::entry::{Entry, FileChange};
use crate::error::HistoryError;
use crate::log::Log;
use crate::past::Backwards;
use crate::tip::Tip;

/// The names of files and directories at a moment.
#[derive(Clone)]
struct Names(BTreeSet<StorePath>);

impl Names {
    fn of(entry: &Entry) -> Self {
        let after = if entry.moved_from().is_some() { 1 } else { entry.changes.len() };
        Self(entry.changes.iter().take(after).filter_map(FileChange::path).cloned().collect())
    }

    fn have(&self, path: &StorePath) -> bool {
        self.under(path).next().is_some() || path.parents().any(|above| self.0.contains(&above))
    }

    /// The names at or under a path.
    fn under<'a>(&'a self, path: &'a StorePath) -> impl Iterator<Item = &'a StorePath> {
        self.0.range(path..).take_while(move |name| *name == path || name.is_under(path))
    }

    /// Whether an entry changes one of the files.
    fn are_changed_by(&self, entry: &Entry) -> bool {
        entry.changes.iter().flat_map(FileChange::paths).any(|path| self.have(path))
    }

    fn rename(&mut self, from: &StorePath, to: &StorePath) {
        let moved: Vec<_> = self.under(from).cloned().collect();
        if moved.is_empty() && self.have(from) {
            self.0.insert(to.clone()); // a part of a directory
        }
        for name in moved {
            self.0.remove(&name);
            self.0.extend(name.replace_prefix(from, to));
        }
    }
}

/// The old and new names of the files and directories that an entry renamed, or moved with new contents.
fn moves(entry: &Entry) -> impl Iterator<Item = (&StorePath, &StorePath)> {
    let moved = entry.moved_from().and_then(|from| Some((from, entry.changes.first()?.path()?)));
    let renamed = entry.changes.iter().filter_map(|change| match change {
        FileChange::Rename { from, to } => Some((from, to)),
        _ => None,
    });
    moved.into_iter().chain(renamed)
}

/// The entries that keep something of the [past](Versions::past_of) of a path, newest first, with the indexes of these
/// changes.
pub(crate) async fn to_path<S: Store>(
    log: &Log<S>,
    tip: &Arc<Tip>,
    path: &StorePath,
) -> Result<Vec<(Entry, Vec<usize>)>, HistoryError> {
    let mut changes: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
    for (number, index) in log.versions(tip).await?.past_of(path) {
        changes.entry(number).or_default().insert(index);
    }
    let mut related = Vec::new();
    for (number, indexes) in changes.range(tip.head.first..).rev() {
        let entry = log.entry(tip, *number).await?.entry.clone();
        let is_move = entry.is_part_of_move(1); // both are one change of the file
        let each = (0..entry.changes.len()).filter(|index| is_move || indexes.contains(index));
        let indexes: Vec<_> = each.filter(|index| entry.changes[*index].keeps_something()).collect();
        related.extend((!indexes.is_empty()).then_some((entry, indexes)));
    }
    Ok(related)
}

/// The entry and all others of its files, newest first.
pub(crate) async fn to_entry<S: Store>(log: &Log<S>, tip: &Tip, number: u64) -> Result<Vec<Entry>, HistoryError> {
    let (mut reader, mut later) = (Backwards::from(log, tip, tip.newest()), Vec::new());
    let entry = loop {
        match reader.next().await? {
            Some(entry) if entry.number == number => break entry,
            Some(entry) => later.push(entry),
            None => return Err(HistoryError::NoEntry { number, newest: tip.newest() }),
        }
    };
    let mut names = Names::of(&entry);
    let mut related = Vec::new();
    for entry in later.into_iter().rev() {
        let is_related = names.are_changed_by(&entry);
        for (from, to) in moves(&entry) {
            names.rename(from, to);
        }
        related.extend(is_related.then_some(entry));
    }
    related.reverse();
    let mut names = Names::of(&entry);
    let mut next = Some(entry);
    while let Some(entry) = next {
        let is_related = entry.number == number || names.are_changed_by(&entry);
        for (from, to) in moves(&entry) {
            names.rename(to, from);
        }
        related.extend(is_related.then_some(entry));
        next = reader.next().await?;
    }
    Ok(related)
}
