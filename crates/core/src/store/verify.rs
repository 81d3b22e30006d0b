//! [`VerifyReport`]: the result of checking a store for damage.

use std::fmt;

use serde::Serialize;

use crate::store::error::{ErrorKind, StoreError};
use crate::store::node::{FileEntry, Listing, Node};
use crate::store::store_path::StorePath;
use crate::store::{ReadOptions, Store};

/// Attempts to read and list a file without a concurrent change before reporting a difference.
const MAX_ATTEMPTS: usize = 6;

/// The result of checking a store for damage.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[non_exhaustive]
#[must_use = "it contains the problems found"]
pub struct VerifyReport {
    /// The number of intact files.
    pub files: u64,
    /// The total size of the intact files in bytes.
    pub bytes: u64,
    /// The problems found. The list is empty if the store is intact.
    pub problems: Vec<Problem>,
}

/// A problem with stored data. It is for the operator, since its message contains paths and names.
/// JSON contains only the message.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
#[serde(transparent)]
pub struct Problem {
    /// A description in one line.
    pub message: String,
    /// The affected file of the memory, if the problem affects a single file.
    #[serde(skip)]
    pub path: Option<StorePath>,
    /// The damaged object in the inner store of an encrypted store.
    #[serde(skip)]
    pub object: Option<StorePath>,
}

impl Problem {
    /// Creates a problem without a file.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), path: None, object: None }
    }

    /// Creates a problem from an error and its sources. A source that the message ends with is not repeated.
    pub fn of(error: &dyn std::error::Error) -> Self {
        let mut text = error.to_string();
        for source in std::iter::successors(error.source(), |error| error.source()) {
            let message = source.to_string();
            if !text.ends_with(&message) {
                text = format!("{text}: {message}");
            }
        }
        Self::new(text)
    }

    /// Sets `path`.
    #[must_use]
    pub fn with_path(mut self, path: StorePath) -> Self {
        self.path = Some(path);
        self
    }

    /// Sets `object`.
    #[must_use]
    pub fn with_object(mut self, object: StorePath) -> Self {
        self.object = Some(object);
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The progress of a check.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct VerifyProgress {
    /// The number of files read so far.
    pub files: u64,
    /// The total number of files.
    pub of: u64,
}

impl VerifyProgress {
    /// Creates the progress of a check that has read some of the files.
    #[must_use]
    pub fn new(files: u64, of: u64) -> Self {
        Self { files, of }
    }
}

impl From<Vec<Problem>> for VerifyReport {
    fn from(problems: Vec<Problem>) -> Self {
        Self { problems, ..Self::default() }
    }
}

impl VerifyReport {
    /// Reads every file of a store and adds the results to this report. The store can be in use at the same time.
    ///
    /// Files that already have a problem in this report get no second one. `progress` is called after each file.
    ///
    /// # Errors
    /// [`StoreError::Failure`] if the check cannot be completed, and nothing was found until then. Damage is a problem
    /// in the report, not an error.
    pub async fn read_files(
        mut self,
        store: &(impl Store + ?Sized),
        progress: impl FnMut(VerifyProgress) + Send,
    ) -> Result<Self, StoreError> {
        let read = self.add_files(store, progress).await;
        self.and(read.map(|()| Self::default()))
    }

    /// Adds what a further check found. If that check failed, and this report has problems, its failure is another one,
    /// so that the report is not lost.
    ///
    /// # Errors
    /// The failure of the further check, if this report has no problems.
    pub fn and(mut self, further: Result<Self, StoreError>) -> Result<Self, StoreError> {
        match further {
            Ok(further) => {
                self.files += further.files;
                self.bytes += further.bytes;
                self.problems.extend(further.problems);
            }
            Err(error) if self.problems.is_empty() => return Err(error),
            Err(error) => self.problems.push(Problem::of(&error)),
        }
        Ok(self)
    }

    async fn add_files(
        &mut self,
        store: &(impl Store + ?Sized),
        mut progress: impl FnMut(VerifyProgress) + Send,
    ) -> Result<(), StoreError> {
        let listed = match list_all(store).await {
            Ok(listed) => listed,
            Err(error @ StoreError::Failure { kind: ErrorKind::Damaged, .. }) => {
                self.problems.push(Problem::of(&error));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.problems.extend(listed.unlisted.iter().map(|item| Problem::new(item.to_string())));
        let of = listed.files.len() as u64;
        for (entry, files) in listed.files.iter().zip(1..) {
            match examine(store, entry).await? {
                State::Intact { bytes } if !entry.path.is_record() => {
                    self.files += 1;
                    self.bytes += bytes;
                }
                State::Intact { .. } | State::Gone => {}
                State::Broken { .. } if self.problems.iter().any(|known| known.path.as_ref() == Some(&entry.path)) => {}
                State::Broken { message } => self.problems.push(Problem::new(message).with_path(entry.path.clone())),
            }
            progress(VerifyProgress { files, of });
        }
        Ok(())
    }
}

/// Lists the files and the records.
async fn list_all(store: &(impl Store + ?Sized)) -> Result<Listing, StoreError> {
    let mut all = Listing::default();
    for root in [StorePath::memories(), StorePath::records()] {
        let listed = store.read_opts(&root, ReadOptions::new()).await?.into_listing();
        all.files.extend(listed.files);
        all.unlisted.extend(listed.unlisted);
    }
    Ok(all)
}

#[derive(Debug, Eq, PartialEq)]
enum State {
    Intact { bytes: u64 },
    Gone,
    Broken { message: String },
}

/// Reads a listed file and compares it with its listing. A concurrent change can also cause a difference, so the
/// comparison is repeated. A difference is reported only if it remains and the file did not change during the last
/// attempt. Each attempt reads once more, because a session that repeats its changes can keep in step with attempts of
/// the same length, and each would then see the same mix of states.
async fn examine(store: &(impl Store + ?Sized), listed: &FileEntry) -> Result<State, StoreError> {
    let path = &listed.path;
    let directory = path.parent().unwrap_or_else(StorePath::memories);
    let mut state = compare(path, Some(listed.size), &read(store, path).await?);
    for reads in 1..=MAX_ATTEMPTS {
        if !matches!(state, State::Broken { .. }) {
            break;
        }
        let before = read(store, path).await?;
        let listing = store.read_opts(&directory, ReadOptions::new()).await?.into_listing();
        let size = listing.files.iter().find(|entry| entry.path == *path).map(|entry| entry.size);
        let mut is_in_use = false;
        for _ in 0..reads {
            is_in_use |= before != read(store, path).await?;
        }
        state = if is_in_use { State::Intact { bytes: listed.size } } else { compare(path, size, &before) };
    }
    Ok(state)
}

/// Reads a path. The inner error is a problem with the file. A busy store is an outer error, since the file may be
/// intact.
async fn read(store: &(impl Store + ?Sized), path: &StorePath) -> Result<Result<Node, String>, StoreError> {
    match store.read_opts(path, ReadOptions::new()).await {
        Err(error @ StoreError::Failure { kind: ErrorKind::Busy, .. }) => Err(error),
        read => Ok(read.map_err(|error| Problem::of(&error).message)),
    }
}

fn compare(path: &StorePath, listed: Option<u64>, read: &Result<Node, String>) -> State {
    let message = match (listed, read) {
        (_, Err(error)) => format!("{path} cannot be read: {error}"),
        (listed, Ok(Node::File(file))) => {
            let bytes = file.content.len() as u64;
            match listed {
                Some(size) if size == bytes => return State::Intact { bytes },
                Some(size) => format!("{path} has {bytes} bytes, but is listed with {size}"),
                None => format!("{path} is a file, but is not listed"),
            }
        }
        (Some(_), Ok(_)) => format!("{path} is listed, but is not a file"),
        (None, Ok(_)) => return State::Gone,
    };
    State::Broken { message }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;

    use super::*;
    use crate::store::batch::Batch;
    use crate::store::node::{Listing, StoredFile, UnlistedItem, UnlistedReason, Version};

    const DAMAGED: usize = usize::MAX;
    const ABSENT: usize = usize::MAX - 1;
    const BUSY: usize = usize::MAX - 2;

    /// A store with one file, and a script of lengths to report for each read and each listing.
    #[derive(Debug)]
    struct ScriptedStore {
        read: Mutex<VecDeque<usize>>,
        listed: Mutex<VecDeque<usize>>,
        unlisted: Vec<UnlistedItem>,
    }

    /// The next length of the script. The last length is repeated.
    fn next(script: &Mutex<VecDeque<usize>>) -> usize {
        let mut script = script.lock().unwrap();
        if script.len() > 1 { script.pop_front().unwrap() } else { script[0] }
    }

    fn file() -> StorePath {
        "/memories/a".parse().unwrap()
    }

    #[async_trait]
    impl Store for ScriptedStore {
        async fn read_opts(&self, path: &StorePath, _: ReadOptions) -> Result<Node, StoreError> {
            if path.is_record() {
                return Ok(Node::Directory(Listing::default()));
            }
            if path.is_root() {
                let files = match next(&self.listed) {
                    ABSENT => Vec::new(),
                    size => vec![FileEntry::new(file(), size as u64)],
                };
                return Ok(Node::Directory(Listing::from(files).with_unlisted(self.unlisted.clone())));
            }
            match next(&self.read) {
                DAMAGED => Err(StoreError::failure(ErrorKind::Damaged, "reading", "torn")),
                BUSY => Err(StoreError::failure(ErrorKind::Busy, "reading", "locked")),
                ABSENT => Ok(Node::Absent),
                length => Ok(Node::File(StoredFile::new(vec![b'x'; length], Version::new(*b"")))),
            }
        }

        async fn apply(&self, _: Batch) -> Result<(), StoreError> {
            unreachable!("verifying changes nothing")
        }
    }

    async fn report(listed: &[usize], read: &[usize]) -> VerifyReport {
        let script = |lengths: &[usize]| Mutex::new(lengths.iter().copied().collect());
        let store = ScriptedStore { read: script(read), listed: script(listed), unlisted: Vec::new() };
        VerifyReport::default().read_files(&store, |_| {}).await.unwrap()
    }

    #[tokio::test]
    async fn a_permanent_difference_is_a_problem() {
        for (listed, read, problem) in [
            (&[3][..], &[4][..], "/memories/a has 4 bytes, but is listed with 3"),
            (&[3], &[ABSENT], "/memories/a is listed, but is not a file"),
            (&[3], &[DAMAGED], "/memories/a cannot be read: reading failed: torn"),
            (&[3, ABSENT], &[4], "/memories/a is a file, but is not listed"),
        ] {
            let report = report(listed, read).await;
            assert_eq!((report.files, report.problems), (0, vec![Problem::new(problem).with_path(file())]));
        }
    }

    #[tokio::test]
    async fn an_item_that_cannot_be_listed_is_a_problem() {
        let unlisted = [("e\u{301}", UnlistedReason::IllegalName), ("locked\n", UnlistedReason::Unreadable)];
        let unlisted = unlisted.map(|(name, reason)| UnlistedItem::new(StorePath::memories(), name, reason)).to_vec();
        let store = ScriptedStore { read: Mutex::new([3].into()), listed: Mutex::new([3].into()), unlisted };
        let report = VerifyReport::default().read_files(&store, |_| {}).await.unwrap();
        assert_eq!(report.files, 1);
        let messages: Vec<_> = report.problems.iter().map(|problem| problem.message.as_str()).collect();
        let expected = [
            "/memories/e\u{301} cannot be listed: its name is not in Unicode Normalization Form C (NFC)",
            "/memories/locked\\n cannot be listed: it cannot be read",
        ];
        assert_eq!(messages, expected);
    }

    /// A store in which another session creates and removes the file, in step with the calls.
    #[derive(Debug, Default)]
    struct StoreInStep {
        calls: AtomicUsize,
    }

    #[async_trait]
    impl Store for StoreInStep {
        async fn read_opts(&self, path: &StorePath, _: ReadOptions) -> Result<Node, StoreError> {
            let call = self.calls.fetch_add(1, Ordering::Relaxed);
            let files = if call == 0 || call % 3 == 1 { vec![FileEntry::new(file(), 1)] } else { Vec::new() };
            Ok(match (path.is_root(), files.is_empty()) {
                _ if path.is_record() => Node::Directory(Listing::default()),
                (true, _) => Node::Directory(Listing::from(files)),
                (false, true) => Node::Absent,
                (false, false) => Node::File(StoredFile::new(vec![b'x'], Version::new(*b""))),
            })
        }

        async fn apply(&self, _: Batch) -> Result<(), StoreError> {
            unreachable!("verifying changes nothing")
        }
    }

    #[tokio::test]
    async fn a_file_that_is_created_and_removed_in_step_is_not_a_problem() {
        let report = VerifyReport::default().read_files(&StoreInStep::default(), |_| {}).await.unwrap();
        assert_eq!(report.problems, []);
    }

    /// The report with the first problem is not lost.
    #[tokio::test]
    async fn a_failure_after_a_problem_is_another_problem() {
        let store =
            ScriptedStore { read: Mutex::new([BUSY].into()), listed: Mutex::new([3].into()), unlisted: Vec::new() };
        let before = VerifyReport::from(vec![Problem::new("found before")]);
        let messages = ["found before", "reading failed: locked"].map(Problem::new);
        assert_eq!(before.read_files(&store, |_| {}).await.unwrap().problems, messages);
        let failed = VerifyReport::default().read_files(&store, |_| {}).await;
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::Busy);
    }

    #[tokio::test]
    async fn a_temporary_difference_is_not_a_problem() {
        for (listed, read, (files, bytes)) in [
            (&[3][..], &[3][..], (1, 3)),
            (&[3, 4], &[4], (1, 4)),
            (&[3, ABSENT], &[ABSENT], (0, 0)),
            (&[3], &[DAMAGED, 3], (1, 3)),
            (&[3], &[4, 4, 5], (1, 3)),
            (&[3, 3, ABSENT], &[ABSENT], (0, 0)),
        ] {
            let report = report(listed, read).await;
            assert_eq!(
                (report.files, report.bytes, report.problems),
                (files, bytes, Vec::new()),
                "{listed:?} {read:?}"
            );
        }
    }
}
