//! `memory-tool verify`: whether what is stored is whole.

use std::io;

use memory_tool_core::{FailureKind, FileEntry, MemoryPath, Node, OpenMode, Store, StoreError};
use memory_tool_encrypted::{self as encrypted, EncryptedStore, EncryptionError, KeyRing};
use memory_tool_sqlite as sqlite;
use memory_tool_url::StoreUrl;
use serde::Serialize;

use crate::arguments::{StoreArgument, VerifyArguments};
use crate::failure::{Failure, on_one_line, with_causes};
use crate::output::{count, to_json, write_line};
use crate::run::start_runtime;
use crate::store_url;

/// How often a file that seems broken is looked at again: one that comes and goes can seem so more than once.
const LOOKS: usize = 10;

/// Whether a problem was found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Soundness {
    Sound,
    Unsound,
}

/// Looks at all that is stored and prints what is wrong with it.
pub(crate) fn run(arguments: &VerifyArguments) -> Result<Soundness, Failure> {
    store_url::refuse_temporary(&arguments.store.url)?;
    let findings = start_runtime()?.block_on(verify(&arguments.store))?;
    let text = if arguments.json { to_json(&findings)? } else { findings.to_text().into_bytes() };
    // Whether anybody still read it changes nothing: the status says it, too.
    write_line(&mut io::stdout().lock(), text)?;
    Ok(if findings.problems.is_empty() { Soundness::Sound } else { Soundness::Unsound })
}

async fn verify(store: &StoreArgument) -> Result<Findings, Failure> {
    let keys = store.encryption.key_ring().await?;
    match &store.url {
        StoreUrl::Sqlite { path, store: name } => {
            let database = store_url::open_sqlite(&store.url, path, name, OpenMode::ReadOnly).await?;
            let mut findings = Findings::default();
            let problems = match database.verify().await {
                Ok(problems) => problems,
                Err(error) => {
                    findings.problems.push(damage(error)?);
                    Vec::new()
                }
            };
            let problems: Vec<_> = problems.iter().map(|problem| ProblemBeneath::of(problem, name)).collect();
            findings.read_memory(store, Box::new(database), keys, &problems).await
        }
        url => {
            let stored = store_url::open_as_stored(url, OpenMode::ReadOnly).await?;
            Findings::default().read_memory(store, stored, keys, &[]).await
        }
    }
}

/// What the database says of itself.
struct ProblemBeneath<'a> {
    text: String,
    /// The file of the memory whose content is lost or damaged.
    file: Option<&'a str>,
}

impl<'a> ProblemBeneath<'a> {
    fn of(problem: &'a sqlite::Problem, memory: &str) -> Self {
        let file = match problem {
            sqlite::Problem::NoContent { store, path } | sqlite::Problem::WrongSize { store, path, .. } => {
                (store == memory).then_some(path.as_str())
            }
            _ => None,
        };
        Self { text: problem.to_string(), file }
    }

    fn is_about(&self, path: &MemoryPath) -> bool {
        self.file == Some(path.as_str())
    }
}

/// The stored object that cannot be read.
fn unreadable_object(problem: &encrypted::Problem) -> Option<&MemoryPath> {
    let (encrypted::Problem::File { error, .. } | encrypted::Problem::IndexCopy { error }) = problem else {
        return None;
    };
    match error {
        EncryptionError::Damaged { object, .. } | EncryptionError::Unreadable { object, .. } => Some(object),
        _ => None,
    }
}

/// Damage is what is looked for; any other failure leaves open whether there is some.
fn damage(error: StoreError) -> Result<String, Failure> {
    match error {
        StoreError::Failure { kind: FailureKind::Damaged, .. } => Ok(with_causes(&error)),
        error => Err(Failure::Verification(error)),
    }
}

/// What was found.
#[derive(Debug, Default, Serialize)]
struct Findings {
    /// How many files are whole.
    files: u64,
    /// The bytes in them.
    bytes: u64,
    problems: Vec<String>,
}

impl Findings {
    /// Reads every file of the memory in a store, and looks at what is beneath its encryption if it has one. Of what is found on
    /// both sides of the encryption, the memory's own words are printed: they alone have the name of the file.
    async fn read_memory(
        mut self,
        at: &StoreArgument,
        stored: Box<dyn Store>,
        keys: Option<KeyRing>,
        beneath: &[ProblemBeneath<'_>],
    ) -> Result<Self, Failure> {
        let Some(keys) = keys else {
            self.problems.extend(beneath.iter().map(|problem| problem.text.clone()));
            let is_told = |path: &MemoryPath| beneath.iter().any(|problem| problem.is_about(path));
            // Where that cannot be known, the files tell why: nothing is written here.
            return match EncryptedStore::is_in(&*stored).await {
                Ok(true) => Err(Failure::Encrypted),
                Ok(false) | Err(_) => self.read_files(&*stored, is_told).await,
            };
        };
        let memory = at.encryption.open(&at.url, stored, keys, OpenMode::ReadOnly).await?;
        let problems = memory.verify().await.map_err(Failure::Verification)?;
        let unreadable: Vec<_> = problems.iter().filter_map(unreadable_object).collect();
        let untold = beneath.iter().filter(|problem| !unreadable.iter().any(|object| problem.is_about(object)));
        self.problems.extend(untold.map(|problem| problem.text.clone()));
        self.problems.extend(problems.iter().map(|problem| with_causes(problem)));
        let is_told = |file: &MemoryPath| {
            problems.iter().any(|problem| matches!(problem, encrypted::Problem::File { path, .. } if path == file))
        };
        self.read_files(&memory, is_told).await
    }

    /// Reads every file of the memory. A problem is told once, though it may have been told before.
    async fn read_files(mut self, store: &dyn Store, is_told: impl Fn(&MemoryPath) -> bool) -> Result<Self, Failure> {
        let listed = match store.list(&MemoryPath::root()).await {
            Ok(listed) => listed,
            Err(error) => {
                self.problems.push(damage(error)?);
                return Ok(self);
            }
        };
        for entry in listed {
            match examine(store, &entry).await? {
                State::Whole { bytes } => {
                    self.files += 1;
                    self.bytes += bytes;
                }
                State::Gone => {}
                State::Broken { .. } if is_told(&entry.path) => {}
                State::Broken { problem } => self.problems.push(problem),
            }
        }
        Ok(self)
    }

    fn to_text(&self) -> String {
        let summary = match self.problems.len() {
            0 => format!("{}, {}: no problem found", count(self.files, "file"), count(self.bytes, "byte")),
            problems => format!("{} found", count(problems as u64, "problem")),
        };
        self.problems.iter().map(|problem| on_one_line(problem) + "\n").chain([summary]).collect()
    }
}

/// How a file is that was listed.
#[derive(Debug, Eq, PartialEq)]
enum State {
    Whole { bytes: u64 },
    Gone,
    Broken { problem: String },
}

/// Reads a listed file. Others may change it between the listing and the reading, so a difference counts only where it is
/// seen again at every look, and the file was the same before and after the listing.
async fn examine(store: &dyn Store, listed: &FileEntry) -> Result<State, Failure> {
    let path = &listed.path;
    let directory = path.parent().unwrap_or_else(MemoryPath::root);
    let mut state = judge(path, Some(listed.size), &read(store, path).await?);
    for _ in 0..LOOKS {
        if !matches!(state, State::Broken { .. }) {
            break;
        }
        let before = read(store, path).await?;
        let listing = store.list(&directory).await.map_err(Failure::Verification)?;
        let size = listing.iter().find(|entry| entry.path == *path).map(|entry| entry.size);
        let is_in_use = before != read(store, path).await?;
        state = if is_in_use { State::Whole { bytes: listed.size } } else { judge(path, size, &before) };
    }
    Ok(state)
}

/// What is at the path, or why that cannot be known. A store that is in use for too long leaves open whether it is whole.
async fn read(store: &dyn Store, path: &MemoryPath) -> Result<Result<Node, String>, Failure> {
    match store.read(path).await {
        Err(error @ StoreError::Failure { kind: FailureKind::Busy, .. }) => Err(Failure::Verification(error)),
        read => Ok(read.map_err(|error| with_causes(&error))),
    }
}

/// Holds what was read against the size that was listed.
fn judge(path: &MemoryPath, listed: Option<u64>, read: &Result<Node, String>) -> State {
    let problem = match (listed, read) {
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
    State::Broken { problem }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use async_trait::async_trait;
    use memory_tool_core::{Batch, StoredFile, Version};

    use super::*;

    const DAMAGED: usize = usize::MAX;
    const ABSENT: usize = usize::MAX - 1;

    /// A store with one file, of which it tells what it was told to tell: how long it is, at each read and at each listing.
    #[derive(Debug)]
    struct Scripted {
        read: Mutex<VecDeque<usize>>,
        listed: Mutex<VecDeque<usize>>,
    }

    /// The next that is to be told; the last one for ever.
    fn next(script: &Mutex<VecDeque<usize>>) -> usize {
        let mut script = script.lock().unwrap();
        if script.len() > 1 { script.pop_front().unwrap() } else { script[0] }
    }

    fn file() -> MemoryPath {
        "/memories/a".parse().unwrap()
    }

    #[async_trait]
    impl Store for Scripted {
        async fn read(&self, _: &MemoryPath) -> Result<Node, StoreError> {
            match next(&self.read) {
                DAMAGED => Err(StoreError::failure(FailureKind::Damaged, "reading", "torn")),
                ABSENT => Ok(Node::Absent),
                length => Ok(Node::File(StoredFile::new(vec![b'x'; length], Version::new(*b"")))),
            }
        }

        async fn list(&self, _: &MemoryPath) -> Result<Vec<FileEntry>, StoreError> {
            Ok(match next(&self.listed) {
                ABSENT => Vec::new(),
                size => vec![FileEntry::new(file(), size as u64)],
            })
        }

        async fn apply(&self, _: Batch) -> Result<(), StoreError> {
            unreachable!("verifying changes nothing")
        }
    }

    fn findings(listed: &[usize], read: &[usize]) -> String {
        let script = |lengths: &[usize]| Mutex::new(lengths.iter().copied().collect());
        let store = Scripted { read: script(read), listed: script(listed) };
        let findings = Findings::default().read_files(&store, |_| false);
        start_runtime().unwrap().block_on(findings).unwrap().to_text()
    }

    #[test]
    fn a_difference_that_stays_is_a_problem() {
        for (listed, read, problem) in [
            (&[3][..], &[4][..], "/memories/a has 4 bytes and is listed with 3"),
            (&[3], &[ABSENT], "/memories/a is listed and is not a file"),
            (&[3], &[DAMAGED], "/memories/a cannot be read: reading failed: torn"),
            (&[3, ABSENT], &[4], "/memories/a is a file and is not listed"),
        ] {
            assert_eq!(findings(listed, read), format!("{problem}\n1 problem found"));
        }
    }

    #[test]
    fn a_difference_that_goes_away_is_none() {
        for (listed, read, whole) in [
            (&[3][..], &[3][..], "1 file, 3 bytes"),
            (&[3, 4], &[4], "1 file, 4 bytes"),
            (&[3, ABSENT], &[ABSENT], "0 files, 0 bytes"),
            (&[3], &[DAMAGED, 3], "1 file, 3 bytes"),
            (&[3], &[4, 4, 5], "1 file, 3 bytes"),
            (&[3, 3, ABSENT], &[ABSENT], "0 files, 0 bytes"),
        ] {
            assert_eq!(findings(listed, read), format!("{whole}: no problem found"));
        }
    }
}
