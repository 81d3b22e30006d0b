//! [`FileDiff`]: how a file differs between two entries or two stores.

use std::collections::BTreeSet;
use std::sync::Arc;

use memory_tool_core::{Node, ReadOptions, Store, StoreError, StorePath};
use similar::TextDiff;

use crate::error::HistoryError;
use crate::log::{Log, Tip};
use crate::past::{Files, files_after, read_source};

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

/// The files at or under a path.
async fn listed(store: &(impl Store + ?Sized), path: &StorePath) -> Result<BTreeSet<StorePath>, StoreError> {
    Ok(match store.read_opts(path, ReadOptions::new()).await? {
        Node::File(_) => BTreeSet::from([path.clone()]),
        Node::Directory(listing) => listing.files.into_iter().map(|file| file.path).collect(),
        Node::Absent => BTreeSet::new(),
    })
}

async fn file(store: &(impl Store + ?Sized), path: &StorePath) -> Result<Option<Vec<u8>>, StoreError> {
    Ok(store.read_opts(path, ReadOptions::new()).await?.into_file().map(|file| file.content))
}

/// The differences of the files at or under a path between two entries.
pub(crate) async fn between<S: Store>(
    log: &Log<S>,
    tip: &Arc<Tip>,
    (from, to): (u64, u64),
    path: &StorePath,
) -> Result<Vec<FileDiff>, HistoryError> {
    let (before, after) = (files_after(log, tip, from).await?, files_after(log, tip, to).await?);
    let paths: BTreeSet<_> = before.under(path).chain(after.under(path)).map(|(path, _)| path.clone()).collect();
    let mut differences = Vec::new();
    for path in paths {
        if before.0.get(&path) == after.0.get(&path) {
            continue;
        }
        let difference = FileDiff {
            before: content(log, tip, &before, &path).await?,
            after: content(log, tip, &after, &path).await?,
            path,
        };
        if difference.before != difference.after {
            differences.push(difference);
        }
    }
    Ok(differences)
}

async fn content<S: Store>(
    log: &Log<S>,
    tip: &Arc<Tip>,
    files: &Files,
    path: &StorePath,
) -> Result<Option<Vec<u8>>, HistoryError> {
    match files.0.get(path) {
        Some(source) => read_source(log, tip, path, source).await.map(Some),
        None => Ok(None),
    }
}
