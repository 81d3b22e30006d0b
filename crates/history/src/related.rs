//! The entries that changed a file, or the files of an entry, under all their names.

use std::collections::BTreeSet;

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

    /// Whether a change is of nothing but one of the files.
    fn cover(&self, change: &FileChange) -> bool {
        change.paths().any(|path| self.0.contains(path) || path.parents().any(|above| self.0.contains(&above)))
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

/// The entries that changed a file or directory, newest first, with the indexes of these changes.
pub(crate) async fn to_path<S: Store>(
    log: &Log<S>,
    tip: &Tip,
    path: &StorePath,
) -> Result<Vec<(Entry, Vec<usize>)>, HistoryError> {
    let (mut reader, mut related) = (Backwards::from(log, tip, tip.newest()), Vec::new());
    let mut names = Names(BTreeSet::from([path.clone()]));
    while let Some(entry) = reader.next().await? {
        let after = names.clone();
        for (from, to) in moves(&entry) {
            names.rename(to, from);
        }
        let changes = entry.changes.iter().enumerate();
        let of_path = changes.filter(|(_, change)| after.cover(change) || names.cover(change));
        let indexes: Vec<_> = of_path.map(|(index, _)| index).collect();
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
