//! Removes what entries contain.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use memory_tool_core::{ErrorKind, Store, StorePath};

use crate::entry::{Entry, EntryRef, FileChange, Kept, Operation};
use crate::error::HistoryError;
use crate::hex::Id;
use crate::log::Log;
use crate::plan::Edits;
use crate::records::Stored;
use crate::tip::Tip;
use crate::versions::Versions;

/// Removes the paths, sizes, hashes and contents of all changes of entries.
pub(crate) async fn of_entries<S: Store>(
    log: &Log<S>,
    tip: &Arc<Tip>,
    entries: &BTreeSet<EntryRef>,
) -> Result<Edits, HistoryError> {
    check(log, tip, entries).await?;
    let versions = match log.versions(tip).await {
        Err(error) if error.kind() == ErrorKind::Damaged => None,
        versions => Some(versions?),
    };
    let is_named = |number: u64| entries.iter().any(|entry| entry.number == number);
    let hidden = versions.map(|mut versions| versions.hide_paths(is_named).map(|()| versions));
    let versions = hidden.transpose()?;
    let mut edits = Edits::default();
    for number in entries.iter().map(|entry| entry.number) {
        let redacted = match log.entry(tip, number).await {
            Ok(stored) => redacted(&stored.entry, versions.as_ref(), tip.next),
            // Otherwise it would stop the change that completes its block.
            Err(error) if error.kind() == ErrorKind::Damaged && number >= tip.head.blocks_end => {
                Entry { number, id: Id::random()?, is_redacted: true, ..log.new_entry() }
            }
            Err(error) => return Err(error.into()),
        };
        edits.entries.insert(number, Stored { entry: redacted, contents: Vec::new() });
    }
    edits.versions = versions;
    Ok(edits)
}

/// An entry without what it changed. Without the files, nothing about its changes is kept.
fn redacted(entry: &Entry, versions: Option<&Versions>, by: u64) -> Entry {
    if entry.changes.is_empty() {
        return Entry { reason: None, ..entry.clone() };
    }
    let changes = versions.map(|versions| {
        (0..entry.changes.len()).map(|index| redacted_change(entry, index, None, versions, by)).collect()
    });
    Entry { changes: changes.unwrap_or_default(), is_redacted: true, reason: None, ..entry.clone() }
}

/// The change without its path, size and hash, which keeps only the contents `before` it.
fn redacted_change(entry: &Entry, index: usize, before: Option<Kept>, versions: &Versions, by: u64) -> FileChange {
    let change = &entry.changes[index];
    if let FileChange::Redacted { files, operation, is_rename, by, .. } = change.clone() {
        return FileChange::Redacted { files, operation, is_rename, by, before };
    }
    let of_change = || versions.of_change(entry.number, index).map(|(_, version)| version);
    let is_rename = matches!(change, FileChange::Rename { .. }) || entry.moved_from().is_some();
    let operation = match change {
        FileChange::Remove { .. } => Operation::Deleted,
        _ => of_change().next().map_or(Operation::Modified, |version| version.operation),
    };
    let files: Vec<Id> = of_change().map(|version| version.file).collect();
    FileChange::Redacted { files, operation, is_rename, by, before }
}

/// Removes the path, size and hash of one change, and the contents that other changes keep.
pub(crate) async fn of_change<S: Store>(
    log: &Log<S>,
    tip: &Arc<Tip>,
    (entry, index): (EntryRef, usize),
    keeping: &[(EntryRef, usize)],
) -> Result<Edits, HistoryError> {
    let mut entries = BTreeSet::from([entry]);
    entries.extend(keeping.iter().map(|(entry, _)| *entry));
    check(log, tip, &entries).await?;
    let mut removals = Removals::new();
    removals.entry(entry.number).or_default().changes.insert(index);
    for (entry, index) in keeping {
        removals.entry(entry.number).or_default().contents.insert(*index);
    }
    of_changes(log, tip, &removals).await
}

/// Removes the paths, sizes and hashes of changes, and the contents before and after them.
pub(crate) async fn of_parts<S: Store>(
    log: &Log<S>,
    tip: &Arc<Tip>,
    parts: &[(EntryRef, usize)],
) -> Result<Edits, HistoryError> {
    check(log, tip, &parts.iter().map(|(entry, _)| *entry).collect()).await?;
    let (versions, mut removals) = (log.versions(tip).await?, Removals::new());
    for (entry, index) in parts {
        let removal = removals.entry(entry.number).or_default();
        removal.changes.insert(*index);
        removal.contents.insert(*index);
        for (keeper, index) in versions.of_change(entry.number, *index).filter_map(|(id, _)| versions.keeper(id)) {
            removals.entry(keeper.number).or_default().contents.insert(index);
        }
    }
    of_changes(log, tip, &removals).await
}

/// What to remove from entries, by their numbers.
pub(crate) type Removals = BTreeMap<u64, Removal>;

/// What to remove from an entry.
#[derive(Debug, Default)]
pub(crate) struct Removal {
    /// The indexes of the changes that lose their path, size and hash.
    pub(crate) changes: BTreeSet<usize>,
    /// The indexes of the changes that lose the contents that they keep.
    pub(crate) contents: BTreeSet<usize>,
    /// Whether the entry loses its reason, as it does with a change.
    pub(crate) reason: bool,
}

/// Removes parts of entries.
pub(crate) async fn of_changes<S: Store>(log: &Log<S>, tip: &Tip, removals: &Removals) -> Result<Edits, HistoryError> {
    let (mut versions, mut edits) = (log.versions(tip).await?, Edits::default());
    versions.hide_paths(|number| removals.get(&number).is_some_and(|removal| !removal.changes.is_empty()))?;
    for (number, removal) in removals {
        let stored = log.entry(tip, *number).await?;
        let mut edited = without_contents(&stored, &log.contents(&stored).await?, &removal.contents)?;
        if removal.reason || !removal.changes.is_empty() {
            edited.entry.reason = None;
        }
        for index in removal.changes.iter().copied() {
            let before = change_of(&edited.entry, index)?.before().cloned();
            edited.entry.changes[index] = redacted_change(&stored.entry, index, before, &versions, tip.next);
            edited.entry.is_redacted = true;
        }
        edits.entries.insert(*number, edited);
    }
    edits.versions = Some(versions);
    Ok(edits)
}

/// An entry with its contents, but without those of certain changes.
fn without_contents(stored: &Stored, contents: &[u8], forgotten: &BTreeSet<usize>) -> Result<Stored, HistoryError> {
    let (mut edited, mut kept) = (Stored::clone(stored), stored.entry.kept());
    edited.contents.clear();
    for (at, change) in edited.entry.changes.iter_mut().enumerate() {
        let Some(kept) = change.before().and_then(|before| before.digest).and_then(|_| kept.next()) else { continue };
        if forgotten.contains(&at) {
            change.forget_before();
        } else {
            let content = kept.of(contents).ok_or_else(|| crate::past::differing_contents(stored.entry.number))?;
            edited.contents.extend_from_slice(content);
        }
    }
    Ok(edited)
}

/// The contents that a change keeps.
pub(crate) async fn kept_contents<S: Store>(
    log: &Log<S>,
    tip: &Arc<Tip>,
    (entry, index): (EntryRef, usize),
) -> Result<Vec<u8>, HistoryError> {
    check(log, tip, &BTreeSet::from([entry])).await?;
    let number = entry.number;
    let stored = log.entry(tip, number).await?;
    let has_kept = |change: &FileChange| change.before().is_some_and(|before| before.digest.is_some());
    let (change, changes) = (change_of(&stored.entry, index)?, &stored.entry.changes);
    if !has_kept(change) {
        let path = change.path().cloned().unwrap_or_else(StorePath::memories);
        return Err(HistoryError::NotKept { path, number });
    }
    let position = changes[..index].iter().filter(|change| has_kept(change)).count();
    let contents = log.contents(&stored).await?;
    let content = stored.entry.kept().nth(position).and_then(|kept| kept.of(&contents).map(<[u8]>::to_vec));
    content.ok_or_else(|| crate::past::differing_contents(number).into())
}

fn change_of(entry: &Entry, index: usize) -> Result<&FileChange, HistoryError> {
    entry.changes.get(index).ok_or(HistoryError::NoChange { number: entry.number, index })
}

/// Checks that the log has these entries.
pub(crate) async fn check<S: Store>(log: &Log<S>, tip: &Tip, entries: &BTreeSet<EntryRef>) -> Result<(), HistoryError> {
    let (oldest, newest) = (tip.head.first, tip.newest());
    for EntryRef { number, id } in entries.iter().copied() {
        if number == 0 || number > newest {
            return Err(HistoryError::NoEntry { number, newest });
        }
        if number < oldest {
            return Err(HistoryError::Forgotten { oldest });
        }
        if let Some(id) = id
            && log.entry(tip, number).await?.entry.id != id
        {
            return Err(HistoryError::OtherEntry { number });
        }
    }
    Ok(())
}
