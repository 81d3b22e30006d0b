//! [`Destination`]: the destination of a copy or import.

use std::collections::{BTreeMap, HashMap};

use futures::future::join_all;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use memory_tool_core::{
    Batch, ErrorKind, FileTimes, Node, Precondition, Problem, StoreError, StoreExt as _, StorePath, Version,
};

use crate::memory::Memory;
use crate::transfer::error::TransferError;
use crate::transfer::existing::Existing;
use crate::transfer::report::{FileProblem, MAX_REPORTED, WriteReport, add};
use crate::transfer::source::is_about_one_file;

/// Attempts to write a file while other programs change it.
const MAX_ATTEMPTS: usize = 10;

/// The most files that are written at a time.
const MAX_FILES: usize = 64;
/// The most bytes of several files that are written at a time.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// The destination of a copy or import.
///
/// # Behavior
/// 1. A file is written if its path does not exist. An identical file is skipped.
/// 2. A different file is kept, unless overwriting is enabled, or this run wrote it or found it to be identical. It is
///    replaced only if its version has not changed since it was read.
/// 3. Each written file is read back and compared.
/// 4. Contents are redacted before they are compared and written, so the next run finds them to be identical.
/// 5. A written file keeps the times that the source gives.
/// 6. Several files are written at a time, and new ones in one batch, because they share requests and flushes. If the
///    batch fails, each is written separately.
pub(super) struct Destination {
    memory: Memory,
    /// The command, for logs and the history.
    command: &'static str,
    existing: Existing,
    /// The versions of files that this run wrote or found to be identical.
    known_versions: HashMap<StorePath, Version>,
    outcomes: BTreeMap<StorePath, Recorded>,
    /// The number of problems of each kind whose reasons are kept.
    kept_reasons: [usize; PROBLEMS],
    /// The files that are written next. Their paths do not overlap.
    group: Vec<Writing>,
}

struct Writing {
    memory: Memory,
    command: &'static str,
    existing: Existing,
    path: StorePath,
    content: Vec<u8>,
    times: FileTimes,
    is_redacted: bool,
    /// The version that this run wrote or found to be identical.
    known_version: Option<Version>,
    /// The result of a write with an unknown outcome, if the file has the contents.
    attempted: Option<Outcome>,
}

struct Recorded {
    outcome: Outcome,
    is_redacted: bool,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Outcome {
    Copied { bytes: u64 },
    Overwritten { bytes: u64 },
    Unchanged,
    // The reason is dropped if there are too many.
    Problem { kind: ProblemKind, reason: Option<String> },
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ProblemKind {
    Conflict,
    Refused,
    Unverified,
}

/// The number of kinds of problems.
const PROBLEMS: usize = 3;

impl Destination {
    pub(super) fn new(memory: &Memory, command: &'static str, existing: Existing) -> Self {
        Self {
            memory: memory.clone(),
            command,
            existing,
            known_versions: HashMap::new(),
            outcomes: BTreeMap::new(),
            kept_reasons: [0; PROBLEMS],
            group: Vec::new(),
        }
    }

    /// Adds a file to the next group. If the group has no room, it is written first.
    ///
    /// # Errors
    /// The error of an earlier file.
    pub(super) async fn put(
        &mut self,
        path: &StorePath,
        content: Vec<u8>,
        times: FileTimes,
    ) -> Result<(), TransferError> {
        if !self.has_room(path, content.len()) {
            self.finish().await?;
        }
        let redacted = self.redacted(&content);
        let writing = Writing {
            memory: self.memory.clone(),
            command: self.command,
            existing: self.existing,
            path: path.clone(),
            is_redacted: redacted.is_some(),
            content: redacted.unwrap_or(content),
            times,
            known_version: self.known_versions.get(path).cloned(),
            attempted: None,
        };
        self.group.push(writing);
        Ok(())
    }

    fn has_room(&self, path: &StorePath, size: usize) -> bool {
        let bytes: usize = self.group.iter().map(|file| file.content.len()).sum();
        self.group.is_empty()
            || (self.group.len() < MAX_FILES
                && bytes.saturating_add(size) <= MAX_BYTES
                && !self.group.iter().any(|file| file.path.overlaps(path)))
    }

    /// Writes the files that were added.
    pub(super) async fn finish(&mut self) -> Result<(), TransferError> {
        for (Writing { path, is_redacted, known_version, .. }, outcome) in write_all(&mut self.group).await? {
            if let Some(version) = known_version {
                self.known_versions.insert(path.clone(), version);
            }
            self.record(path, outcome, is_redacted);
        }
        Ok(())
    }

    fn record(&mut self, path: StorePath, outcome: Outcome, is_redacted: bool) {
        let before = self.outcomes.remove(&path);
        let was_redacted = before.as_ref().is_some_and(|before| before.is_redacted);
        let is_redacted = was_redacted || (is_redacted && outcome.is_stored());
        if let Some(Recorded { outcome: Outcome::Problem { kind, reason: Some(_) }, .. }) = before {
            self.kept_reasons[kind as usize] -= 1;
        }
        let mut outcome = outcome.after(before.map(|before| before.outcome));
        if let Outcome::Problem { kind, reason } = &mut outcome {
            let kept = &mut self.kept_reasons[*kind as usize];
            match *kept {
                MAX_REPORTED => *reason = None,
                _ => *kept += 1,
            }
        }
        self.outcomes.insert(path, Recorded { outcome, is_redacted });
    }

    /// The redacted contents, if the screen of the memory redacts them.
    fn redacted(&self, content: &[u8]) -> Option<Vec<u8>> {
        use memory_tool_policies::Verdict;

        let screen = self.memory.inner.layers.transfer.screen.as_ref()?;
        match screen.screen_text(std::str::from_utf8(content).ok()?, "") {
            Verdict::Redact { text } => Some(text.into_bytes()),
            _ => None, // the store applies the screen
        }
    }

    /// The files that are in the destination.
    pub(super) fn stored_paths(&self) -> impl Iterator<Item = &StorePath> {
        self.outcomes.iter().filter(|(_, recorded)| recorded.outcome.is_stored()).map(|(path, _)| path)
    }

    /// Returns the results. They include the number of other files in the memory, except for expected ones.
    pub(super) async fn report(
        mut self,
        is_expected: impl Fn(&StorePath) -> bool,
    ) -> Result<WriteReport, TransferError> {
        self.finish().await?;
        let listed = self.memory.store.list(StorePath::memories()).await.map_err(TransferError::Writing)?;
        let is_other = |path: &StorePath| !self.outcomes.contains_key(path) && !is_expected(path);
        let only_in_destination = listed.iter().filter(|entry| is_other(&entry.path)).count() as u64;
        let dry_run = self.memory.inner.layers.transfer.is_dry_run;
        let mut report = WriteReport { dry_run, only_in_destination, ..WriteReport::default() };
        for (path, Recorded { outcome, is_redacted }) in self.outcomes {
            outcome.add_to(&mut report, &path);
            if is_redacted {
                add(path, &mut report.redacted, &mut report.more_redacted);
            }
        }
        Ok(report)
    }
}

/// Takes and writes files whose paths do not overlap. Returns their outcomes in the same order.
async fn write_all(group: &mut Vec<Writing>) -> Result<Vec<(Writing, Outcome)>, TransferError> {
    let is_written = write_new(group).await;
    let write = |(mut file, is_written): (Writing, bool)| async move {
        let outcome = if is_written { file.read_back(file.copied()).await? } else { file.write().await? };
        Ok((file, outcome))
    };
    stream::iter(std::mem::take(group).into_iter().zip(is_written)).map(write).buffered(MAX_FILES).try_collect().await
}

/// Writes the files that do not exist in one batch, if there are several. Returns which files were written.
async fn write_new(files: &mut [Writing]) -> Vec<bool> {
    let mut is_new = vec![false; files.len()];
    let [first, _, ..] = &*files else { return is_new };
    let (store, mut batch) = (first.memory.store.clone(), Batch::new().for_command(first.command));
    let found = join_all(files.iter().map(|file| store.read(&file.path))).await;
    for ((file, found), is_new) in files.iter().zip(found).zip(&mut is_new) {
        *is_new = matches!(found, Ok(Node::Absent));
        if *is_new {
            batch = batch.require(file.path.clone(), Precondition::Absent);
            batch = batch.write_with_times(file.path.clone(), file.content.clone(), file.times);
        }
    }
    let is_unknown = match store.apply(batch).await {
        Ok(()) => return is_new,
        Err(error) => error.kind() == ErrorKind::OutcomeUnknown,
    };
    for (file, is_new) in files.iter_mut().zip(&mut is_new) {
        file.attempted = (is_unknown && *is_new).then(|| file.copied());
        *is_new = false;
    }
    is_new
}

impl Writing {
    fn copied(&self) -> Outcome {
        Outcome::Copied { bytes: self.content.len() as u64 }
    }

    async fn write(&mut self) -> Result<Outcome, TransferError> {
        let bytes = self.content.len() as u64;
        let mut attempted = self.attempted.take();
        let mut unknown_outcome = None;
        for _ in 0..MAX_ATTEMPTS {
            let (expected, outcome) = match self.memory.store.read(&self.path).await {
                Ok(Node::Absent) => (Precondition::Absent, Outcome::Copied { bytes }),
                Ok(Node::File(there)) if there.content == self.content => {
                    self.known_version = Some(there.version);
                    return Ok(attempted.unwrap_or(Outcome::Unchanged));
                }
                Ok(Node::File(there)) if self.known_version.as_ref() == Some(&there.version) => {
                    (Precondition::Version(there.version), Outcome::Copied { bytes })
                }
                Ok(Node::File(there)) if self.existing == Existing::Replace => {
                    (Precondition::Version(there.version), Outcome::Overwritten { bytes })
                }
                Ok(Node::File(_)) => return Ok(Outcome::conflict("another file is there")),
                Ok(Node::Directory(_)) => return Ok(Outcome::conflict("a directory is there")),
                Err(error) => return refusal(error),
            };
            let batch = Batch::new().for_command(self.command).require(self.path.clone(), expected);
            let batch = batch.write_with_times(self.path.clone(), self.content.clone(), self.times);
            match self.memory.store.apply(batch).await {
                Ok(()) => return self.read_back(outcome).await,
                // Another program changed the file.
                Err(StoreError::AlreadyExists { .. } | StoreError::VersionMismatch { .. }) => {}
                Err(error @ StoreError::Failure { kind: ErrorKind::OutcomeUnknown, .. }) => {
                    attempted = Some(outcome);
                    unknown_outcome = Some(error);
                }
                Err(error) => return refusal(error),
            }
        }
        match unknown_outcome {
            Some(error) => Err(TransferError::Writing(error)),
            None => Ok(Outcome::conflict("the file keeps changing")),
        }
    }

    async fn read_back(&mut self, outcome: Outcome) -> Result<Outcome, TransferError> {
        match self.memory.store.read(&self.path).await {
            Ok(Node::File(there)) if there.content == self.content => {
                self.known_version = Some(there.version);
                Ok(outcome)
            }
            Ok(_) => Ok(Outcome::problem(ProblemKind::Unverified, "the contents differ after the write")),
            Err(error) if is_about_one_file(&error) => {
                Ok(Outcome::problem(ProblemKind::Unverified, Problem::of(&error).message))
            }
            Err(error) => Err(TransferError::Writing(error)),
        }
    }
}

impl Outcome {
    fn conflict(reason: &str) -> Self {
        Self::problem(ProblemKind::Conflict, reason)
    }

    fn problem(kind: ProblemKind, reason: impl Into<String>) -> Self {
        Self::Problem { kind, reason: Some(reason.into()) }
    }

    fn is_stored(&self) -> bool {
        matches!(self, Self::Copied { .. } | Self::Overwritten { .. } | Self::Unchanged)
    }

    fn add_to(self, report: &mut WriteReport, path: &StorePath) {
        match self {
            Self::Copied { bytes } => {
                report.copied += 1;
                report.bytes += bytes;
            }
            Self::Overwritten { bytes } => {
                report.overwritten += 1;
                report.bytes += bytes;
            }
            Self::Unchanged => report.unchanged += 1,
            Self::Problem { kind, reason } => {
                let (problems, more) = match kind {
                    ProblemKind::Conflict => (&mut report.conflicts, &mut report.more_conflicts),
                    ProblemKind::Refused => (&mut report.refused, &mut report.more_refused),
                    ProblemKind::Unverified => (&mut report.unverified, &mut report.more_unverified),
                };
                match reason {
                    Some(reason) => problems.push(FileProblem::new(path, reason)),
                    None => *more += 1,
                }
            }
        }
    }

    /// Combines the result of an earlier attempt with this later one.
    fn after(self, before: Option<Self>) -> Self {
        match (before, self) {
            (Some(before @ (Self::Copied { .. } | Self::Overwritten { .. })), Self::Unchanged) => before,
            (Some(Self::Overwritten { .. }), Self::Copied { bytes }) => Self::Overwritten { bytes },
            (_, last) => last,
        }
    }
}

/// Converts an error of a single file to an outcome. Other errors are returned.
fn refusal(error: StoreError) -> Result<Outcome, TransferError> {
    match error {
        StoreError::Refused { reason, .. } => Ok(Outcome::problem(ProblemKind::Refused, reason)),
        error if is_about_one_file(&error) => Ok(Outcome::problem(ProblemKind::Refused, Problem::of(&error).message)),
        error => Err(TransferError::Writing(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use memory_tool_core::{InMemoryStore, ReadOptions, Store, StorePath};

    use super::*;

    const FILE: &str = "/memories/a";

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Fault {
        /// Other bytes are stored.
        Torn,
        /// Another program writes the same path first, this many times.
        Race(usize),
        /// The write succeeds, but its result is lost.
        LostResult,
    }

    #[derive(Clone, Debug)]
    struct FaultyStore {
        inner: Arc<InMemoryStore>,
        fault: Fault,
        writes: Arc<AtomicUsize>,
    }

    #[async_trait]
    impl Store for FaultyStore {
        async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
            self.inner.read_opts(path, options).await
        }

        async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
            let write = self.writes.fetch_add(1, Ordering::Relaxed);
            match self.fault {
                Fault::Torn => self.inner.write(FILE, "tor").await,
                Fault::Race(times) if write < times => {
                    self.inner.write(FILE, format!("theirs {write}")).await?;
                    self.inner.apply(batch).await
                }
                Fault::Race(_) => self.inner.apply(batch).await,
                Fault::LostResult => {
                    self.inner.apply(batch).await?;
                    Err(StoreError::failure(ErrorKind::OutcomeUnknown, "writing", "no response"))
                }
            }
        }
    }

    /// Writes a file, and returns the report and the final contents.
    async fn put(fault: Fault, existing: Existing) -> (WriteReport, String) {
        let inner = Arc::new(InMemoryStore::new());
        let store = FaultyStore { inner: Arc::clone(&inner), fault, writes: Arc::default() };
        let memory = Memory::over(store).build().await.unwrap();
        let mut destination = Destination::new(&memory, "copy", existing);
        destination.put(&FILE.parse::<StorePath>().unwrap(), b"text".to_vec(), FileTimes::new()).await.unwrap();
        (destination.report(|_| false).await.unwrap(), inner.read_to_string(FILE).await.unwrap())
    }

    #[tokio::test]
    async fn a_torn_write_is_reported() {
        let (written, _) = put(Fault::Torn, Existing::Keep).await;
        assert_eq!((written.copied, written.is_complete()), (0, false));
        assert_eq!(written.unverified, [FileProblem::new(FILE, "the contents differ after the write")]);
    }

    #[tokio::test]
    async fn a_concurrent_write_is_not_overwritten() {
        let (written, there) = put(Fault::Race(1), Existing::Keep).await;
        assert_eq!((written.copied, written.conflicts.len(), there.as_str()), (0, 1, "theirs 0"));
    }

    #[tokio::test]
    async fn a_race_is_retried_a_limited_number_of_times() {
        let (written, there) = put(Fault::Race(2), Existing::Replace).await;
        assert_eq!((written.overwritten, written.is_complete(), there.as_str()), (1, true, "text"));
        let (written, there) = put(Fault::Race(MAX_ATTEMPTS), Existing::Replace).await;
        assert_eq!((written.overwritten, written.conflicts.len()), (0, 1));
        assert_eq!(there, format!("theirs {}", MAX_ATTEMPTS - 1));
    }

    #[tokio::test]
    async fn the_number_of_reported_problems_is_limited() {
        let memory = Memory::over(InMemoryStore::new()).build().await.unwrap();
        memory.write("/memories/there", "theirs").await.unwrap();
        let mut destination = Destination::new(&memory, "copy", Existing::Keep);
        let path = |number: usize| format!("/memories/there/{number}").parse().unwrap();
        for number in 0..MAX_REPORTED + 2 {
            destination.put(&path(number), b"text".to_vec(), FileTimes::new()).await.unwrap();
        }
        // A later attempt makes room for another problem.
        destination.finish().await.unwrap();
        destination.record(path(0), Outcome::Copied { bytes: 4 }, true);
        destination.put(&path(MAX_REPORTED + 2), b"text".to_vec(), FileTimes::new()).await.unwrap();
        let report = destination.report(|_| false).await.unwrap();
        assert_eq!((report.copied, report.refused.len(), report.more_refused), (1, MAX_REPORTED, 2));
        assert_eq!((report.redacted, report.more_redacted), (vec![path(0)], 0));
        assert!(report.refused.iter().any(|problem| problem.path == path(MAX_REPORTED + 2).as_str()));
    }

    #[tokio::test]
    async fn a_write_with_a_lost_result_is_counted_once() {
        let (written, _) = put(Fault::LostResult, Existing::Keep).await;
        assert_eq!((written.copied, written.unchanged, written.bytes), (1, 0, 4));
    }

    #[tokio::test]
    async fn a_redacted_file_is_identical_in_the_next_run() {
        use memory_tool_policies::{Detector, SensitiveData};

        let screen = SensitiveData::builder().redact(Detector::CREDENTIALS.iter().copied()).build();
        let memory = Memory::builder("in-process:").screen(screen).build().await.unwrap();
        for (copied, unchanged) in [(1, 0), (0, 1)] {
            let mut destination = Destination::new(&memory, "copy", Existing::Keep);
            let secret = b"postgres://app:t7Kq-9vLz2@db.internal/app";
            destination.put(&FILE.parse::<StorePath>().unwrap(), secret.to_vec(), FileTimes::new()).await.unwrap();
            let written = destination.report(|_| false).await.unwrap();
            assert_eq!((written.copied, written.unchanged), (copied, unchanged));
            assert_eq!(written.redacted, [FILE.parse::<StorePath>().unwrap()]);
        }
        assert!(!memory.read_to_string(FILE).await.unwrap().contains("t7Kq"));
    }
}
