//! [`TextRedaction`]: erases given text from the files and from the history.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use memchr::memmem;
use memory_tool_core::{Batch, ErrorKind, Precondition, ReadOptions, Store, StoreError, StorePath, StoredFile};
use serde::Serialize;

use crate::entry::{Digest, Entry, FileChange};
use crate::error::HistoryError;
use crate::hex::Hash;
use crate::log::{Log, PARALLEL_READS};
use crate::past::{Files, Source};
use crate::redaction::{Removal, Removals};
use crate::tip::Tip;

/// The replacement of erased text.
pub(crate) const MARK: &str = "[redacted]";

/// The places of given text. They are erased unless [`entry`](Self::entry) is `None`.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TextRedaction {
    /// The present files in which the text was replaced, and how often.
    pub files: Vec<(StorePath, usize)>,
    /// The present files whose names contain the text. They stay: rename them, and redact the text again.
    pub names: Vec<StorePath>,
    /// The present files that cannot be read, and so may contain the text.
    pub unreadable: Vec<StorePath>,
    /// The numbers of the entries that had the text in the contents or names of files, or in their reason.
    pub entries: Vec<u64>,
    /// The new entry.
    pub entry: Option<Entry>,
}

impl TextRedaction {
    /// Whether the text was not found.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.names.is_empty() && self.entries.is_empty()
    }
}

/// The text to erase, and its replacement in the present files. Without one, the text is only found.
#[derive(Clone, Copy)]
pub(crate) struct Erased<'a> {
    text: &'a str,
    mark: &'a str,
}

/// The places of given text at an end of the log, and their erasure.
pub(crate) struct Places {
    pub(crate) found: TextRedaction,
    /// The changes of the present files.
    pub(crate) batch: Batch,
    pub(crate) removals: Removals,
}

impl<'a> Erased<'a> {
    /// # Errors
    /// [`HistoryError::InvalidText`].
    pub(crate) fn new(text: &'a str, mark: &'a str) -> Result<Self, HistoryError> {
        let invalid = |reason| Err(HistoryError::InvalidText { reason });
        match () {
            () if text.is_empty() => invalid("the text is empty"),
            () if mark.contains(text) => invalid("the mark contains the text"),
            () => Ok(Self { text, mark }),
        }
    }

    pub(crate) async fn find<S: Store>(self, log: &Log<S>, tip: &Arc<Tip>) -> Result<Places, HistoryError> {
        let mut places = Places { found: TextRedaction::default(), batch: Batch::new(), removals: Removals::new() };
        let mut digests = BTreeSet::new();
        self.find_in_files(log, tip, &mut places, &mut digests).await?;
        let entries = tip.head.first..tip.next;
        for number in entries.clone() {
            let stored = log.entry(tip, number).await?;
            if stored.entry.kept_bytes() > 0 {
                let contents = log.contents(&stored).await?;
                let kept = stored.entry.kept().filter_map(|kept| kept.of(&contents));
                digests.extend(kept.filter(|content| self.is_in(content)).map(|content| Digest::of(content).sha256));
            }
        }
        for number in entries {
            self.find_in_entry(&log.entry(tip, number).await?.entry, &digests, &mut places.removals);
        }
        places.found.entries = places.removals.keys().copied().collect();
        Ok(places)
    }

    async fn find_in_files<S: Store>(
        self,
        log: &Log<S>,
        tip: &Tip,
        places: &mut Places,
        digests: &mut BTreeSet<Hash>,
    ) -> Result<(), HistoryError> {
        let present = Files::present(log, tip).await?;
        let is_present = |(path, source)| matches!(source, Source::Present(_)).then_some(path);
        let paths = present.0.into_iter().filter_map(is_present);
        let reads = stream::iter(paths.map(|path| read(log, path))).buffered(PARALLEL_READS);
        let mut reads = pin!(reads.try_filter_map(async |found| Ok(found)));
        while let Some((path, file)) = reads.try_next().await? {
            if self.is_in_name(&path) {
                places.found.names.push(path.clone());
            }
            let Some(StoredFile { content, version, .. }) = file else {
                places.found.unreadable.push(path);
                continue;
            };
            let (replaced, count) = self.replaced_in(&content);
            if count > 0 {
                digests.insert(Digest::of(&content).sha256);
                if !self.mark.is_empty() {
                    let batch = std::mem::take(&mut places.batch).require(path.clone(), Precondition::Version(version));
                    places.batch = batch.write(path.clone(), replaced);
                }
                places.found.files.push((path, count));
            }
        }
        Ok(())
    }

    /// Finds the changes of an entry that have the text in names, or contents with the text, and its reason.
    fn find_in_entry(self, entry: &Entry, digests: &BTreeSet<Hash>, removals: &mut Removals) {
        let (mut changes, mut contents) = (BTreeSet::new(), BTreeSet::new());
        for (index, change) in entry.changes.iter().enumerate() {
            let is_named = change.paths().any(|path| self.is_in_name(path));
            let is_written = matches!(change, FileChange::Write { after, .. } if digests.contains(&after.sha256));
            if is_named || is_written {
                changes.insert(index);
            }
            if change.before().and_then(|kept| kept.digest).is_some_and(|digest| digests.contains(&digest.sha256)) {
                contents.insert(index);
            }
        }
        if entry.moved_from().is_some() && !changes.is_empty() {
            changes.extend(0..entry.changes.len()); // both are one change of the file
        }
        let reason = entry.reason.as_ref().is_some_and(|reason| self.is_in(reason.as_bytes()));
        if reason || !changes.is_empty() || !contents.is_empty() {
            removals.insert(entry.number, Removal { changes, contents, reason });
        }
    }

    fn is_in_name(self, path: &StorePath) -> bool {
        let below_memories = path.as_str().strip_prefix(StorePath::memories().as_str()).unwrap_or_default();
        self.is_in(below_memories.as_bytes())
    }

    fn is_in(self, content: &[u8]) -> bool {
        memmem::find(content, self.text.as_bytes()).is_some()
    }

    /// The content with marks, and their number.
    fn replaced_in(self, content: &[u8]) -> (Vec<u8>, usize) {
        let (mut replaced, mut end, mut count) = (Vec::new(), 0, 0);
        for start in memmem::find_iter(content, self.text.as_bytes()) {
            replaced.extend_from_slice(&content[end..start]);
            replaced.extend_from_slice(self.mark.as_bytes());
            (end, count) = (start + self.text.len(), count + 1);
        }
        replaced.extend_from_slice(&content[end..]);
        (replaced, count)
    }
}

/// A file that still exists. It is without contents if it cannot be read.
async fn read<S: Store>(log: &Log<S>, path: StorePath) -> Result<Option<(StorePath, Option<StoredFile>)>, StoreError> {
    match log.store.read_opts(&path, ReadOptions::new()).await {
        Ok(node) => Ok(node.into_file().map(|file| (path, Some(file)))),
        Err(error) if matches!(error.kind(), ErrorKind::Damaged | ErrorKind::AccessDenied) => Ok(Some((path, None))),
        Err(error) => Err(error),
    }
}
