//! Copy of the files of one memory to another.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::pin::pin;
use std::sync::Arc;

use futures::stream::StreamExt as _;
use memory_tool_core::{FileEntry, StoreError, StorePath, Version};

use crate::memory::Memory;
use crate::transfer::destination::Destination;
use crate::transfer::error::TransferError;
use crate::transfer::existing::Existing;
use crate::transfer::progress::TransferProgress;
use crate::transfer::report::{CopyReport, FileProblem, WriteReport, add};
use crate::transfer::source::{ReadOutcome, Source};

/// Attempts to read the source while it changes.
pub(super) const ROUNDS: usize = 5;

/// Options of [`Memory::copy_to`](crate::Memory::copy_to).
///
/// ```
/// let options = memory_tool::transfer::CopyOptions::new().overwrite();
/// # let _ = options;
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[must_use]
pub struct CopyOptions {
    pub(super) existing: Existing,
    pub(super) with_history: bool,
}

impl CopyOptions {
    /// Creates options that do not overwrite files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Overwrites files in the destination that have other contents.
    pub fn overwrite(mut self) -> Self {
        self.existing = Existing::Replace;
        self
    }

    /// Also copies the [history](Memory::history), to a memory without files: see
    /// [`History::copy_to`](memory_tool_history::History::copy_to).
    pub fn with_history(mut self) -> Self {
        self.with_history = true;
        self
    }
}

/// A running copy.
pub(super) struct CopyJob<P> {
    source: Arc<Source>,
    destination: Destination,
    progress: P,
    /// The last version of each file of the source. `None` is a file that could not be read.
    seen: HashMap<StorePath, Option<Version>>,
    unreadable: BTreeMap<StorePath, String>,
}

impl<P: FnMut(TransferProgress) + Send> CopyJob<P> {
    pub(super) fn new(source: Source, destination: Destination, progress: P) -> Self {
        Self { source: Arc::new(source), destination, progress, seen: HashMap::new(), unreadable: BTreeMap::new() }
    }

    /// Copies the source again until it has not changed since the previous attempt.
    pub(super) async fn run(mut self, rounds: usize) -> Result<CopyReport, TransferError> {
        let (mut listed, mut unlisted) = (Vec::new(), Vec::new());
        let mut source_still_changing = false;
        for round in 0..rounds {
            (listed, unlisted) = self.source.list().await?;
            let is_new = self.copy_files(&listed).await?;
            source_still_changing = is_new && round > 0;
            if !is_new {
                break;
            }
        }
        let listed: HashSet<_> = listed.into_iter().map(|file| file.path).collect();
        let is_source_empty = listed.is_empty() && self.seen.is_empty() && unlisted.is_empty();
        let mut report = CopyReport { source_still_changing, is_source_empty, ..CopyReport::default() };
        for path in self.destination.stored_paths().filter(|path| !listed.contains(path)) {
            add(path.clone(), &mut report.removed, &mut report.more_removed);
        }
        let unreadable = self.unreadable.into_iter().filter(|(path, _)| listed.contains(path));
        let unreadable = unreadable.map(|(path, reason)| FileProblem::new(path, reason));
        for problem in unreadable.chain(unlisted.iter().map(FileProblem::of_unlisted)) {
            add(problem, &mut report.unreadable, &mut report.more_unreadable);
        }
        report.written = self.destination.report(|path| listed.contains(path)).await?;
        Ok(report)
    }

    /// Copies the files that have changed. Returns whether there were any.
    async fn copy_files(&mut self, listed: &[FileEntry]) -> Result<bool, TransferError> {
        let of = listed.len() as u64;
        let mut is_new = false;
        let source = Arc::clone(&self.source);
        let mut reads = pin!(source.read_all(listed));
        for (file, files) in listed.iter().zip(1..) {
            let Some(read) = reads.next().await else { break };
            is_new |= self.copy_file(file, read?).await?;
            (self.progress)(TransferProgress::new(files, of));
        }
        self.destination.finish().await?;
        Ok(is_new)
    }

    /// Copies a file if it has changed. Returns whether it has.
    async fn copy_file(&mut self, entry: &FileEntry, read: ReadOutcome) -> Result<bool, TransferError> {
        let path = &entry.path;
        let state = match read {
            ReadOutcome::File(file) => {
                self.unreadable.remove(path);
                if self.seen.get(path) != Some(&Some(file.version.clone())) {
                    self.destination.put(path, file.content, entry.times()).await?;
                }
                Some(file.version)
            }
            ReadOutcome::Removed => return Ok(true),
            ReadOutcome::Unreadable { reason } => {
                self.unreadable.insert(path.clone(), reason);
                None
            }
        };
        let is_new = self.seen.get(path) != Some(&state);
        self.seen.insert(path.clone(), state);
        Ok(is_new)
    }
}

/// Copies all files and the history.
pub(super) async fn copy_with_history(source: &Memory, destination: &Memory) -> Result<CopyReport, TransferError> {
    let layers = &destination.inner.layers;
    if layers.transfer.screen.is_some() {
        return Err(TransferError::History { reason: "a screen of the destination would not see earlier texts" });
    }
    let (Some(from), Some(to)) = (source.history(), &layers.history) else {
        return Err(TransferError::History { reason: "a memory over a custom store keeps one only with the option" });
    };
    let copied = from.copy_to(to).await.map_err(|error| match error.into_store_error() {
        StoreError::AlreadyExists { .. } => TransferError::History { reason: "the destination has files or a history" },
        error => TransferError::WithHistory(error),
    })?;
    let unreadable = copied.unlisted.iter().map(FileProblem::of_unlisted).collect();
    let is_source_empty = copied.files == 0 && copied.entries == 0;
    let dry_run = layers.transfer.is_dry_run;
    let written = WriteReport { dry_run, copied: copied.files, bytes: copied.bytes, ..WriteReport::default() };
    Ok(CopyReport { written, entries: copied.entries, unreadable, is_source_empty, ..CopyReport::default() })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use async_trait::async_trait;
    use memory_tool_core::{Batch, InMemoryStore, Node, ReadOptions, Store, StoreExt as _};

    use super::*;
    use crate::transfer::report::MAX_REPORTED;

    /// A store that changes before each listing, by a batch for the number of the listing.
    #[derive(Debug)]
    struct ChangingStore {
        inner: InMemoryStore,
        listings: AtomicUsize,
        changes: fn(usize) -> Batch,
    }

    #[async_trait]
    impl Store for ChangingStore {
        async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
            if path.is_root() {
                let listing = self.listings.fetch_add(1, Ordering::Relaxed);
                self.inner.apply((self.changes)(listing)).await?;
            }
            self.inner.read_opts(path, options).await
        }

        async fn apply(&self, _: Batch) -> Result<(), StoreError> {
            unreachable!("a copy does not change its source")
        }
    }

    fn write(name: &str, text: &str) -> Batch {
        Batch::new().write(StorePath::memories().join(name).unwrap(), text)
    }

    /// Copies such a source to an empty memory, and returns the report and the copied files.
    async fn copy(changes: fn(usize) -> Batch) -> (CopyReport, Vec<(String, String)>) {
        let source = ChangingStore { inner: InMemoryStore::new(), listings: AtomicUsize::new(0), changes };
        let memory = Memory::open("in-process:").await.unwrap();
        let destination = Destination::new(&memory, "copy", Existing::Keep);
        let report = CopyJob::new(Source::of(Arc::new(source)), destination, |_| {}).run(ROUNDS).await.unwrap();
        let mut files = Vec::new();
        for entry in memory.list("/memories").await.unwrap() {
            files.push((entry.path.to_string(), memory.read_to_string(&entry.path).await.unwrap()));
        }
        (report, files)
    }

    fn file(path: &str, text: &str) -> (String, String) {
        (path.to_owned(), text.to_owned())
    }

    #[tokio::test]
    async fn files_that_change_or_appear_during_a_copy_are_copied() {
        let (report, files) = copy(|listing| match listing {
            0 => write("a", "one"),
            1 => write("a", "two"), // of the same size
            2 => write("b", "new"),
            _ => Batch::new(),
        })
        .await;
        assert!(report.is_complete(), "{report:?}");
        let WriteReport { copied, overwritten, bytes, unchanged, only_in_destination, .. } = report.written;
        assert_eq!((copied, overwritten, bytes, unchanged, only_in_destination), (2, 0, 6, 0, 0));
        assert_eq!(files, [file("/memories/a", "two"), file("/memories/b", "new")]);
    }

    #[tokio::test]
    async fn a_source_that_always_changes_is_reported() {
        let (report, files) = copy(|listing| write("a", &listing.to_string())).await;
        assert!(report.source_still_changing && !report.is_complete());
        assert_eq!(files, [file("/memories/a", &(ROUNDS - 1).to_string())]);
    }

    #[tokio::test]
    async fn a_file_that_is_removed_during_a_copy_is_reported_and_kept() {
        let (report, files) = copy(|listing| match listing {
            0 => write("a", "one"),
            1 => Batch::new().remove("/memories/a".parse::<StorePath>().unwrap()),
            _ => Batch::new(),
        })
        .await;
        assert_eq!((report.removed.as_slice(), report.is_complete()), (&["/memories/a".parse().unwrap()][..], false));
        assert_eq!(files, [file("/memories/a", "one")]);
    }

    #[tokio::test]
    async fn the_number_of_reported_removed_files_is_limited() {
        let (report, _) = copy(|listing| match listing {
            0 => (0..MAX_REPORTED + 2).fold(Batch::new(), |batch, number| {
                batch.write(format!("/memories/d/{number}").parse::<StorePath>().unwrap(), "text")
            }),
            1 => Batch::new().remove("/memories/d".parse::<StorePath>().unwrap()),
            _ => Batch::new(),
        })
        .await;
        assert_eq!((report.removed.len(), report.more_removed), (MAX_REPORTED, 2));
    }

    #[tokio::test]
    async fn progress_is_reported_after_each_file_and_a_dry_run_writes_nothing() {
        let source = Memory::open("in-process:").await.unwrap();
        source.write("/memories/a", "one").await.unwrap();
        source.write("/memories/b", "two").await.unwrap();
        let store = Arc::new(InMemoryStore::new());
        let destination = Memory::over(Arc::clone(&store)).dry_run().build().await.unwrap();
        let progress = Mutex::new(Vec::new());
        let note = |done| progress.lock().unwrap().push(done);
        let report = source.copy_to(&destination, CopyOptions::new(), note).await.unwrap();
        assert_eq!((report.written.dry_run, report.written.copied), (true, 2));
        assert_eq!(*progress.lock().unwrap(), [TransferProgress::new(1, 2), TransferProgress::new(2, 2)]);
        assert_eq!(store.usage().await.unwrap().files, 0);
    }

    #[cfg(feature = "local")]
    #[tokio::test]
    async fn a_memory_is_not_copied_into_itself() {
        let directory = tempfile::tempdir().unwrap();
        let memory = Memory::open(directory.path()).await.unwrap();
        let same = Memory::open(directory.path().join("x/..")).await.unwrap();
        for destination in [&memory, &memory.clone(), &same] {
            let copied = memory.copy_to(destination, CopyOptions::new(), |_| {}).await;
            assert!(matches!(copied, Err(TransferError::SameMemory)), "{copied:?}");
        }
        let beside = Memory::open(directory.path().join("beside")).await.unwrap();
        drop(memory.copy_to(&beside, CopyOptions::new(), |_| {}).await.unwrap());
    }
}
