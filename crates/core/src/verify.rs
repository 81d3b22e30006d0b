//! [`VerifyReport`]: whether all that a store holds can be read, the same report for every backend.

use std::fmt;

use crate::node::{FileEntry, Node};
use crate::path::MemoryPath;
use crate::store::{ReadOptions, Store};
use crate::store_error::{FailureKind, StoreError};
use crate::store_ext::StoreExt;

/// Attempts to observe a file in one state before a difference between its listing and its contents counts.
const MAX_ATTEMPTS: usize = 10;

/// What verifying a store found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
#[must_use = "it says whether everything is well"]
pub struct VerifyReport {
    /// The number of files that were read without a problem.
    pub files: u64,
    /// The bytes of their contents.
    pub bytes: u64,
    /// What is wrong; empty if nothing is.
    pub problems: Vec<Problem>,
}

/// Something wrong with what is stored. For the operator: `Display` holds paths and names.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Problem {
    /// What is wrong, on one line.
    pub message: String,
    /// The file that it affects, if it affects a single one of this memory.
    pub path: Option<MemoryPath>,
    /// Where the damaged bytes lie in the store under an encrypted one.
    pub object: Option<MemoryPath>,
}

impl Problem {
    /// A problem that affects no single file.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), path: None, object: None }
    }

    /// A problem that `error` describes, with its causes.
    pub fn of(error: &dyn std::error::Error) -> Self {
        let causes = std::iter::successors(Some(error), |error| error.source());
        Self::new(causes.map(ToString::to_string).collect::<Vec<_>>().join(": "))
    }

    /// Sets `path`.
    #[must_use]
    pub fn with_path(mut self, path: MemoryPath) -> Self {
        self.path = Some(path);
        self
    }

    /// Sets `object`.
    #[must_use]
    pub fn with_object(mut self, object: MemoryPath) -> Self {
        self.object = Some(object);
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// How far reading the files of a store has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct VerifyProgress {
    /// The number of files that were read.
    pub files: u64,
    /// The number of files that were listed.
    pub of: u64,
}

impl VerifyReport {
    /// Reads every file of a store, and adds what it finds. Others may use the store at the same time. A file that already has a
    /// problem in this report gets no second one.
    ///
    /// `progress` is called after each file.
    ///
    /// # Errors
    /// A [`StoreError::Failure`] that leaves open whether the store is whole; damage is a problem of the report instead.
    pub async fn read_files(
        mut self,
        store: &(impl Store + ?Sized),
        mut progress: impl FnMut(VerifyProgress) + Send,
    ) -> Result<Self, StoreError> {
        let listed = match store.list(&MemoryPath::root()).await {
            Ok(listed) => listed,
            Err(error @ StoreError::Failure { kind: FailureKind::Damaged, .. }) => {
                self.problems.push(Problem::of(&error));
                return Ok(self);
            }
            Err(error) => return Err(error),
        };
        let of = listed.len() as u64;
        for (entry, files) in listed.iter().zip(1..) {
            match examine(store, entry).await? {
                State::Whole { bytes } => {
                    self.files += 1;
                    self.bytes += bytes;
                }
                State::Gone => {}
                State::Broken { .. } if self.problems.iter().any(|known| known.path.as_ref() == Some(&entry.path)) => {}
                State::Broken { message } => self.problems.push(Problem::new(message).with_path(entry.path.clone())),
            }
            progress(VerifyProgress { files, of });
        }
        Ok(self)
    }
}

/// The state of a listed file.
#[derive(Debug, Eq, PartialEq)]
enum State {
    Whole { bytes: u64 },
    Gone,
    Broken { message: String },
}

/// Reads a listed file. Others may change it between the listing and the reading, so a difference counts only if every attempt finds
/// it, and the file was the same before and after the listing.
async fn examine(store: &(impl Store + ?Sized), listed: &FileEntry) -> Result<State, StoreError> {
    let path = &listed.path;
    let directory = path.parent().unwrap_or_else(MemoryPath::root);
    let mut state = judge(path, Some(listed.size), &read(store, path).await?);
    for _ in 0..MAX_ATTEMPTS {
        if !matches!(state, State::Broken { .. }) {
            break;
        }
        let before = read(store, path).await?;
        let listing = store.list(&directory).await?;
        let size = listing.iter().find(|entry| entry.path == *path).map(|entry| entry.size);
        let is_in_use = before != read(store, path).await?;
        state = if is_in_use { State::Whole { bytes: listed.size } } else { judge(path, size, &before) };
    }
    Ok(state)
}

/// What is at the path, or why that cannot be known. A store that is in use for too long leaves open whether it is whole.
async fn read(store: &(impl Store + ?Sized), path: &MemoryPath) -> Result<Result<Node, String>, StoreError> {
    match store.read_opts(path, ReadOptions::new()).await {
        Err(error @ StoreError::Failure { kind: FailureKind::Busy, .. }) => Err(error),
        read => Ok(read.map_err(|error| Problem::of(&error).message)),
    }
}

/// Compares what was read with the size that was listed.
fn judge(path: &MemoryPath, listed: Option<u64>, read: &Result<Node, String>) -> State {
    let message = match (listed, read) {
        (_, Err(error)) => format!("{path} cannot be read: {error}"),
        (listed, Ok(Node::File(file))) => {
            let bytes = file.content.len() as u64;
            match listed {
                Some(size) if size == bytes => return State::Whole { bytes },
                Some(size) => format!("{path} has {bytes} bytes and is listed with {size}"),
                None => format!("{path} is a file and is not listed"),
            }
        }
        (Some(_), Ok(_)) => format!("{path} is listed and is not a file"),
        (None, Ok(_)) => return State::Gone,
    };
    State::Broken { message }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use async_trait::async_trait;

    use super::*;
    use crate::batch::Batch;
    use crate::node::{StoredFile, Version};
    use crate::record::RecordName;

    const DAMAGED: usize = usize::MAX;
    const ABSENT: usize = usize::MAX - 1;

    /// A store with one file, which reports the scripted lengths: one for each read, one for each listing.
    #[derive(Debug)]
    struct Scripted {
        read: Mutex<VecDeque<usize>>,
        listed: Mutex<VecDeque<usize>>,
    }

    /// The next length of the script; the last one for ever.
    fn next(script: &Mutex<VecDeque<usize>>) -> usize {
        let mut script = script.lock().unwrap();
        if script.len() > 1 { script.pop_front().unwrap() } else { script[0] }
    }

    fn file() -> MemoryPath {
        "/memories/a".parse().unwrap()
    }

    #[async_trait]
    impl Store for Scripted {
        async fn read_opts(&self, path: &MemoryPath, _: ReadOptions) -> Result<Node, StoreError> {
            if path.is_root() {
                return Ok(Node::Directory(match next(&self.listed) {
                    ABSENT => Vec::new(),
                    size => vec![FileEntry::new(file(), size as u64)],
                }));
            }
            match next(&self.read) {
                DAMAGED => Err(StoreError::failure(FailureKind::Damaged, "reading", "torn")),
                ABSENT => Ok(Node::Absent),
                length => Ok(Node::File(StoredFile::new(vec![b'x'; length], Version::new(*b"")))),
            }
        }

        async fn read_record(&self, _: &RecordName) -> Result<Option<StoredFile>, StoreError> {
            unreachable!("a record belongs to a policy")
        }

        async fn apply(&self, _: Batch) -> Result<(), StoreError> {
            unreachable!("verifying changes nothing")
        }
    }

    async fn report(listed: &[usize], read: &[usize]) -> VerifyReport {
        let script = |lengths: &[usize]| Mutex::new(lengths.iter().copied().collect());
        let store = Scripted { read: script(read), listed: script(listed) };
        VerifyReport::default().read_files(&store, |_| {}).await.unwrap()
    }

    #[tokio::test]
    async fn a_lasting_difference_is_a_problem() {
        for (listed, read, problem) in [
            (&[3][..], &[4][..], "/memories/a has 4 bytes and is listed with 3"),
            (&[3], &[ABSENT], "/memories/a is listed and is not a file"),
            (&[3], &[DAMAGED], "/memories/a cannot be read: reading failed: torn"),
            (&[3, ABSENT], &[4], "/memories/a is a file and is not listed"),
        ] {
            let report = report(listed, read).await;
            assert_eq!((report.files, report.problems), (0, vec![Problem::new(problem).with_path(file())]));
        }
    }

    #[tokio::test]
    async fn a_passing_difference_is_not_a_problem() {
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
