//! [`FileDiff`]: how a file differs between two entries or two stores.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use memory_tool_core::{Node, ReadOptions, Store, StoreError, StorePath};
use similar::TextDiff;

use crate::entry::{Digest, FileChange};
use crate::error::HistoryError;
use crate::log::Log;
use crate::past::{Backwards, Files, Past, Reader, Source};
use crate::store::HistoryStore;
use crate::tip::Tip;

/// How a file differs between two entries or two stores.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct FileDiff {
    /// The path. A renamed file differs under both paths.
    pub path: StorePath,
    /// The bytes after the first entry, or in the first store. `None` if the file did not exist.
    pub before: Option<Vec<u8>>,
    /// The bytes after the second entry, or in the second store. `None` if the file did not exist.
    pub after: Option<Vec<u8>>,
}

impl FileDiff {
    /// Compares the files at or under a path in two stores, and calls `found` with each that differs, in the order of
    /// their paths. Returns the number of compared files. It may miss changes during the comparison.
    ///
    /// ```
    /// use memory_tool_core::{InMemoryStore, StoreExt, StorePath};
    /// use memory_tool_history::FileDiff;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let (old, new) = (InMemoryStore::new(), InMemoryStore::new());
    /// old.write("/memories/a.txt", "one\n").await?;
    /// new.write("/memories/a.txt", "two\n").await?;
    /// let mut differences = Vec::new();
    /// FileDiff::between(&old, &new, &StorePath::memories(), |difference| differences.push(difference)).await?;
    /// assert!(differences[0].unified().ends_with("-one\n+two\n"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Store::read_opts`], also for a file that cannot be read.
    pub async fn between(
        first: &(impl Store + ?Sized),
        second: &(impl Store + ?Sized),
        path: &StorePath,
        mut found: impl FnMut(Self) + Send,
    ) -> Result<u64, StoreError> {
        let mut paths = listed(first, path).await?;
        paths.append(&mut listed(second, path).await?);
        let compared = paths.len() as u64;
        for path in paths {
            let (before, after) = futures::try_join!(file(first, &path), file(second, &path))?;
            if before != after {
                found(Self { path, before, after });
            }
        }
        Ok(compared)
    }

    /// Creates the difference between two contents of a file.
    pub fn new(path: impl Into<StorePath>, before: Option<Vec<u8>>, after: Option<Vec<u8>>) -> Self {
        Self { path: path.into(), before, after }
    }

    /// The difference in the unified format, with three lines of context.
    pub fn unified(&self) -> String {
        let name = |side: char, content: &Option<Vec<u8>>| match content {
            Some(_) => format!("{side}{}", self.path),
            None => "/dev/null".to_owned(),
        };
        let (from, to) = (name('a', &self.before), name('b', &self.after));
        let text = |content: &Option<Vec<u8>>| String::from_utf8(content.clone().unwrap_or_default());
        match (text(&self.before), text(&self.after)) {
            (Ok(before), Ok(after)) => {
                TextDiff::from_lines(&before, &after).unified_diff().header(&from, &to).to_string()
            }
            _ => format!("Binary files {from} and {to} differ\n"),
        }
    }
}

/// How files differ between two entries, or before and after one. Renames of files, which do not change them, are only
/// in the [entry](crate::Entry).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Differences {
    /// The files that differ, in the order of the entry or of their paths.
    pub files: Vec<FileDiff>,
    /// Files that may differ, because their contents on one side are not kept or were redacted.
    pub unknown: Vec<StorePath>,
    /// The number of files that may differ beyond the limit.
    pub more: usize,
}

/// The files at or under a path.
pub(crate) async fn listed(store: &(impl Store + ?Sized), path: &StorePath) -> Result<BTreeSet<StorePath>, StoreError> {
    Ok(match store.read_opts(path, ReadOptions::new()).await? {
        Node::File(_) => BTreeSet::from([path.clone()]),
        Node::Directory(listing) => listing.files.into_iter().map(|file| file.path).collect(),
        Node::Absent => BTreeSet::new(),
    })
}

async fn file(store: &(impl Store + ?Sized), path: &StorePath) -> Result<Option<Vec<u8>>, StoreError> {
    Ok(store.read_opts(path, ReadOptions::new()).await?.into_file().map(|file| file.content))
}

/// The differences of at most `limit` files at or under a path between two entries.
pub(crate) async fn between<S: Store>(
    store: &HistoryStore<S>,
    (from, to): (u64, u64),
    path: &StorePath,
    limit: usize,
) -> Result<Differences, HistoryError> {
    let (before, after) = (Past::new(store.clone(), from), Past::new(store.clone(), to));
    let mut found = Differences::default();
    let paths = differing(store, (&before, &after), path).await?;
    for path in paths {
        if found.files.len() + found.unknown.len() == limit {
            found.more += 1;
            continue;
        }
        match (past_content(&before, &path).await, past_content(&after, &path).await) {
            (Err(HistoryError::NotKept { .. } | HistoryError::Redacted { .. }), _)
            | (_, Err(HistoryError::NotKept { .. } | HistoryError::Redacted { .. })) => found.unknown.push(path),
            (before, after) => {
                let (before, after) = (before?, after?);
                if before != after {
                    found.files.push(FileDiff { path, before, after });
                }
            }
        }
    }
    Ok(found)
}

/// The files at or under a path whose contents come from different places.
async fn differing<S: Store>(
    store: &HistoryStore<S>,
    (before, after): (&Past<S>, &Past<S>),
    path: &StorePath,
) -> Result<BTreeSet<StorePath>, HistoryError> {
    let files = |tip| async move { Ok::<_, HistoryError>((before.files(&tip).await?, after.files(&tip).await?)) };
    let (before, after) = store.log().retry(files).await?;
    let (before, after) = (&before.files, &after.files);
    let paths: BTreeSet<_> = before.under(path).chain(after.under(path)).map(|(path, _)| path).collect();
    let differ = |path: &&StorePath| before.0.get(*path) != after.0.get(*path);
    Ok(paths.into_iter().filter(differ).cloned().collect())
}

async fn past_content<S: Store>(past: &Past<S>, path: &StorePath) -> Result<Option<Vec<u8>>, HistoryError> {
    Ok(past.read(path).await?.into_file().map(|file| file.content))
}

/// How an entry changed files. It has the hashes of the contents that it wrote, which find them in later entries or in
/// present files, also if entries between are redacted.
pub(crate) async fn of_entry<S: Store>(
    log: &Log<S>,
    tip: &Arc<Tip>,
    number: u64,
    limit: usize,
) -> Result<Differences, HistoryError> {
    let (mut files, mut kept_later) = (Files::present(log, tip).await?, BTreeMap::new());
    let mut later = Backwards::from(log, tip, tip.newest());
    let entry = loop {
        match later.next().await? {
            Some(entry) if entry.number == number => break entry,
            Some(entry) => {
                kept_later.extend(entry.kept().map(|kept| (*kept.digest.sha256.as_bytes(), (entry.number, kept))));
                files.take_back(&entry);
            }
            None => return Err(HistoryError::NoEntry { number, newest: tip.newest() }),
        }
    };
    let mut before = files.clone();
    before.take_back(&entry);
    let (mut old_reader, mut new_reader) = (Reader::new(log, tip, None), Reader::new(log, tip, None));
    let mut found = Differences::default();
    for change in &entry.changes {
        let (path, hash) = match change {
            FileChange::Write { path, after, .. } => (path, Some(after)),
            FileChange::Remove { path, .. } => (path, None),
            FileChange::Rename { .. } | FileChange::Redacted { .. } => continue,
        };
        if found.files.len() + found.unknown.len() == limit {
            found.more += 1;
            continue;
        }
        if let Some((number, kept)) = hash.and_then(|hash| kept_later.get(hash.sha256.as_bytes())) {
            files.0.insert(path.clone(), Source::Past(*number, Some(*kept)));
        }
        let old = if change.before().is_some() { old_reader.read_from(&before, path).await } else { Ok(None) };
        let new = if hash.is_some() { new_reader.read_from(&files, path).await } else { Ok(None) };
        match (old, new) {
            (Err(error @ HistoryError::Store(_)), _) | (_, Err(error @ HistoryError::Store(_))) => return Err(error),
            (Ok(old), Ok(new)) if new.as_deref().map(Digest::of) == hash.copied() => {
                found.files.push(FileDiff::new(path.clone(), old, new));
            }
            _ => found.unknown.push(path.clone()),
        }
    }
    Ok(found)
}
