//! What `copy`, `export` and `import` share: the [`Source`] that is read, and the [`Destination`] that files are put into.

mod place;
mod rehearsal;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use memory_tool_core::{
    Batch, Expected, FailureKind, MemoryPath, Node, OpenMode, Store, StoreError, StoredFile, Version,
};
use memory_tool_policies::{ACCESS_TIMES_NAME, ReadOnlyStore, Scope, Screen as _, SensitiveData, Verdict};
use memory_tool_url::StoreUrl;
use serde::Serialize;

pub(crate) use crate::transfer::place::Place;
pub(crate) use crate::transfer::rehearsal::Rehearsal;

use crate::arguments::WritingArgument;
use crate::encryption::Encryption;
use crate::failure::{Failure, on_one_line, tell, with_causes};
use crate::output::count;
use crate::policies::{Access, Policies, find_scope, in_scope};
use crate::store_url;

/// How often a file is looked at again that others change meanwhile.
const LOOKS: usize = 10;

/// Whether all was done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Completeness {
    Complete,
    Incomplete,
}

impl Completeness {
    pub(crate) fn of(is_complete: bool) -> Self {
        if is_complete { Self::Complete } else { Self::Incomplete }
    }
}

/// A store that is read, and never changed.
pub(crate) struct Source {
    store: Box<dyn Store>,
}

/// A file that was listed.
pub(crate) enum Listed {
    File(StoredFile),
    /// It was removed since.
    Gone,
    /// It cannot be read, and others can.
    Unreadable {
        reason: String,
    },
}

impl Source {
    /// Opens a store that exists, or the part of it that belongs to a scope.
    pub(crate) async fn open(url: &StoreUrl, encryption: &Encryption, scope: Option<&Scope>) -> Result<Self, Failure> {
        store_url::refuse_temporary(url)?;
        let store = store_url::open(url, encryption, OpenMode::ReadOnly).await?;
        find_scope(scope, &*store, url).await?;
        Ok(Self::of(in_scope(scope, store)))
    }

    pub(crate) fn of(store: impl Store) -> Self {
        Self { store: Box::new(ReadOnlyStore::new(store)) }
    }

    /// All files that are transferred, sorted.
    pub(crate) async fn list(&self) -> Result<Vec<MemoryPath>, Failure> {
        sorted_paths(&*self.store).await.map_err(Failure::Reading)
    }

    /// Reads a file. One that fails by itself is told, and the others can still be read.
    pub(crate) async fn read(&self, path: &MemoryPath) -> Result<Listed, Failure> {
        let error = match self.store.read(path).await {
            Ok(Node::File(file)) => return Ok(Listed::File(file)),
            Ok(Node::Absent | Node::Directory) => return Ok(Listed::Gone),
            Err(error) => error,
        };
        // Of a disk with a bad sector, the rest is to be saved; a store that does not even list its files is gone.
        if !is_about_one_file(&error) && self.store.list(&MemoryPath::root()).await.is_err() {
            return Err(Failure::Reading(error));
        }
        Ok(Listed::Unreadable { reason: with_causes(&error) })
    }
}

async fn sorted_paths(store: &dyn Store) -> Result<Vec<MemoryPath>, StoreError> {
    let mut paths: Vec<_> = store.list(&MemoryPath::root()).await?.into_iter().map(|entry| entry.path).collect();
    paths.retain(|path| !is_access_times(path));
    paths.sort_unstable();
    Ok(paths)
}

/// Whether there is no file of a person at the path: when the files of a memory were last used is true of that memory alone.
pub(crate) fn is_access_times(path: &MemoryPath) -> bool {
    path.segments().next().is_some_and(|name| name.eq_ignore_ascii_case(ACCESS_TIMES_NAME))
}

/// Tells the operator that nothing was found: a mistyped name would seem to be that of a memory of which all is done.
pub(crate) fn tell_of_no_file(url: &StoreUrl, scope: Option<&Scope>) {
    let scope = scope.map(|scope| format!(" in the scope {scope}")).unwrap_or_default();
    tell(&on_one_line(&format!("memory-tool: there is no file in {url}{scope}: see whether that is its name")));
}

/// Whether other files of the store can be expected to do better.
fn is_about_one_file(error: &StoreError) -> bool {
    match error {
        StoreError::Failure { kind, .. } => matches!(kind, FailureKind::Damaged | FailureKind::UnsupportedName),
        _ => true,
    }
}

/// The memory that files are put into.
///
/// # Behavior
/// 1. A file is written where nothing is; where the same bytes are, it is there already. So whatever was interrupted goes on from
///    where it was when it is done again.
/// 2. Where other bytes are, they stay, unless they are to be overwritten or are what this run put or found there. They are
///    replaced only in the version that was looked at.
/// 3. What was written is read back and compared.
/// 4. A text is put as the screen of the policies would keep it, so that the same text is recognized the next time.
pub(crate) struct Destination {
    store: Box<dyn Store>,
    screen: Option<SensitiveData>,
    overwrites: bool,
    /// The versions of files that this run wrote, or found to be the same.
    known: HashMap<MemoryPath, Version>,
    fates: BTreeMap<MemoryPath, Fate>,
    redacted: Vec<MemoryPath>,
    is_rehearsal: bool,
}

/// What became of a file.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Fate {
    Copied { bytes: u64 },
    Overwritten { bytes: u64 },
    AlreadyThere,
    Conflict { reason: String },
    Refused { reason: String },
    Unverified { reason: String },
}

impl Destination {
    /// Opens the memory. A rehearsal makes none where there is none.
    pub(crate) async fn open(
        url: &StoreUrl,
        encryption: &Encryption,
        policies: &Policies,
        writing: WritingArgument,
    ) -> Result<Self, Failure> {
        let access = if writing.dry_run { Access::Rehearse } else { Access::Mode(OpenMode::Create) };
        let store = policies.open_for(url, encryption, access).await?;
        Ok(Self::new(store, policies.screening(), writing))
    }

    pub(crate) fn new(store: Box<dyn Store>, screen: Option<SensitiveData>, writing: WritingArgument) -> Self {
        let WritingArgument { overwrite: overwrites, dry_run: is_rehearsal } = writing;
        Self {
            store,
            screen,
            overwrites,
            known: HashMap::new(),
            fates: BTreeMap::new(),
            redacted: Vec::new(),
            is_rehearsal,
        }
    }

    /// Puts a file where it belongs, unless something else is there, and notes what became of it.
    pub(crate) async fn put(&mut self, path: &MemoryPath, content: &[u8]) -> Result<(), Failure> {
        let kept = self.kept(content);
        let is_redacted = matches!(kept, Cow::Owned(_));
        let kept = kept.into_owned();
        let fate = self.place(path, &kept).await?;
        if is_redacted && !self.redacted.contains(path) && fate.is_there() {
            self.redacted.push(path.clone());
        }
        let before = self.fates.remove(path);
        self.fates.insert(path.clone(), fate.after(before));
        Ok(())
    }

    /// What the memory keeps of a content. What cannot be kept at all comes back as it is, and the store refuses it.
    fn kept<'a>(&self, content: &'a [u8]) -> Cow<'a, [u8]> {
        let text = std::str::from_utf8(content).ok();
        match self.screen.as_ref().zip(text).map(|(screen, text)| screen.screen_text(text, "")) {
            Some(Verdict::Redact { text }) => Cow::Owned(text.into_bytes()),
            _ => Cow::Borrowed(content),
        }
    }

    async fn place(&mut self, path: &MemoryPath, content: &[u8]) -> Result<Fate, Failure> {
        let bytes = content.len() as u64;
        let mut attempted = None;
        let mut doubt = None;
        for _ in 0..LOOKS {
            let (expected, fate) = match self.store.read(path).await {
                Ok(Node::Absent) => (Expected::Absent, Fate::Copied { bytes }),
                Ok(Node::File(there)) if there.content == content => {
                    self.known.insert(path.clone(), there.version);
                    return Ok(attempted.unwrap_or(Fate::AlreadyThere));
                }
                Ok(Node::File(there)) if self.known.get(path) == Some(&there.version) => {
                    (Expected::Version(there.version), Fate::Copied { bytes })
                }
                Ok(Node::File(there)) if self.overwrites => {
                    (Expected::Version(there.version), Fate::Overwritten { bytes })
                }
                Ok(Node::File(_)) => return Ok(Fate::conflict("another file is there")),
                Ok(Node::Directory) => return Ok(Fate::conflict("a directory is there")),
                Err(error) => return refusal(error),
            };
            let batch = Batch::new().require(path.clone(), expected).write(path.clone(), content.to_vec());
            let batch = batch.map_err(|error| Failure::Writing(error.into()))?;
            match self.store.apply(batch).await {
                Ok(()) => return self.read_back(path, content, fate).await,
                // Somebody else was there in between.
                Err(StoreError::AlreadyExists { .. } | StoreError::VersionMismatch { .. }) => {}
                Err(error @ StoreError::Failure { kind: FailureKind::OutcomeUnknown, .. }) => {
                    attempted = Some(fate);
                    doubt = Some(error);
                }
                Err(error) => return refusal(error),
            }
        }
        match doubt {
            Some(error) => Err(Failure::Writing(error)),
            None => Ok(Fate::conflict("what is there goes on changing")),
        }
    }

    async fn read_back(&mut self, path: &MemoryPath, content: &[u8], fate: Fate) -> Result<Fate, Failure> {
        match self.store.read(path).await {
            Ok(Node::File(there)) if there.content == content => {
                self.known.insert(path.clone(), there.version);
                Ok(fate)
            }
            Ok(_) => Ok(Fate::Unverified { reason: "what was read back is not what was written".to_owned() }),
            Err(error) if is_about_one_file(&error) => Ok(Fate::Unverified { reason: with_causes(&error) }),
            Err(error) => Err(Failure::Writing(error)),
        }
    }

    /// The files that were put there, or were there already.
    pub(crate) fn there(&self) -> impl Iterator<Item = &MemoryPath> {
        self.fates.iter().filter(|(_, fate)| fate.is_there()).map(|(path, _)| path)
    }

    /// What became of all files, and how many the memory holds besides those that are meant.
    pub(crate) async fn report(self, is_meant: impl Fn(&MemoryPath) -> bool) -> Result<Written, Failure> {
        let there = sorted_paths(&*self.store).await.map_err(Failure::Writing)?;
        let is_besides = |path: &&MemoryPath| !self.fates.contains_key(path) && !is_meant(path);
        let besides = there.iter().filter(is_besides).count() as u64;
        let mut written = Written { dry_run: self.is_rehearsal, besides, ..Written::default() };
        written.redacted = self.redacted.iter().map(ToString::to_string).collect();
        for (path, fate) in self.fates {
            written.add(&path, fate);
        }
        Ok(written)
    }
}

impl Fate {
    fn conflict(reason: &str) -> Self {
        Self::Conflict { reason: reason.to_owned() }
    }

    fn is_there(&self) -> bool {
        matches!(self, Self::Copied { .. } | Self::Overwritten { .. } | Self::AlreadyThere)
    }

    /// What became of a file in all, when this became of it after something else did.
    fn after(self, before: Option<Self>) -> Self {
        match (before, self) {
            (Some(before @ (Self::Copied { .. } | Self::Overwritten { .. })), Self::AlreadyThere) => before,
            (Some(Self::Overwritten { .. }), Self::Copied { bytes }) => Self::Overwritten { bytes },
            (_, last) => last,
        }
    }
}

/// Why the store does not take this file; or the failure that leaves nothing to be done with the others either.
fn refusal(error: StoreError) -> Result<Fate, Failure> {
    match error {
        StoreError::Refused { reason, .. } => Ok(Fate::Refused { reason }),
        error if is_about_one_file(&error) => Ok(Fate::Refused { reason: with_causes(&error) }),
        error => Err(Failure::Writing(error)),
    }
}

/// A file that not all is well with, and why.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct Told {
    pub(crate) path: String,
    pub(crate) reason: String,
}

impl Told {
    /// For a report.
    pub(crate) fn line(&self, what: &str) -> String {
        on_one_line(&format!("{} {what}: {}", self.path, self.reason))
    }
}

/// What is printed of files that were put into a memory.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub(crate) struct Written {
    dry_run: bool,
    /// Files that were not there before.
    copied: u64,
    /// Files that had other contents before.
    overwritten: u64,
    /// The bytes in those two.
    bytes: u64,
    already_there: u64,
    redacted: Vec<String>,
    conflicts: Vec<Told>,
    refused: Vec<Told>,
    unverified: Vec<Told>,
    /// Files of the memory that were not meant.
    besides: u64,
}

impl Written {
    fn add(&mut self, path: &MemoryPath, fate: Fate) {
        let told = |reason| Told { path: path.to_string(), reason };
        match fate {
            Fate::Copied { bytes } => {
                self.copied += 1;
                self.bytes += bytes;
            }
            Fate::Overwritten { bytes } => {
                self.overwritten += 1;
                self.bytes += bytes;
            }
            Fate::AlreadyThere => self.already_there += 1,
            Fate::Conflict { reason } => self.conflicts.push(told(reason)),
            Fate::Refused { reason } => self.refused.push(told(reason)),
            Fate::Unverified { reason } => self.unverified.push(told(reason)),
        }
    }

    /// Whether each file is there, as the policies keep it.
    pub(crate) fn is_complete(&self) -> bool {
        self.conflicts.is_empty() && self.refused.is_empty() && self.unverified.is_empty()
    }

    /// What not all is well with, a line each.
    pub(crate) fn problems(&self) -> impl Iterator<Item = String> {
        let redacted = self.redacted.iter().map(|path| on_one_line(&format!("{path} is redacted")));
        let conflicts = self.conflicts.iter().map(|told| told.line("stays as it is"));
        let refused = self.refused.iter().map(|told| told.line("is refused"));
        let unverified = self.unverified.iter().map(|told| told.line("is not as it should be"));
        redacted.chain(conflicts).chain(refused).chain(unverified)
    }

    /// The last line, with the past form of what was done.
    pub(crate) fn summary(&self, done: &str) -> String {
        let verb = if self.dry_run { format!("would be {done}") } else { done.to_owned() };
        let Self { overwritten, already_there, besides, .. } = self;
        format!(
            "{} {verb}, {overwritten} overwritten, {}; {already_there} already there, {besides} besides",
            count(self.copied, "file"),
            count(self.bytes, "byte")
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use memory_tool_core::{FileEntry, InMemoryStore};

    use super::*;
    use crate::run::start_runtime;

    /// What goes wrong with the next writes.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Fault {
        /// The bytes that are stored are others.
        Torn,
        /// Somebody else writes the same path first, so many times.
        Race(usize),
        /// It is written, and the answer is lost.
        LostAnswer,
    }

    #[derive(Clone, Debug)]
    struct Faulty {
        inner: Arc<InMemoryStore>,
        fault: Fault,
        writes: Arc<AtomicUsize>,
    }

    #[async_trait]
    impl Store for Faulty {
        async fn read(&self, path: &MemoryPath) -> Result<Node, StoreError> {
            self.inner.read(path).await
        }

        async fn list(&self, directory: &MemoryPath) -> Result<Vec<FileEntry>, StoreError> {
            self.inner.list(directory).await
        }

        async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
            let write = self.writes.fetch_add(1, Ordering::Relaxed);
            match self.fault {
                Fault::Torn => self.inner.apply(Batch::new().write(file(), b"tor".to_vec()).unwrap()).await,
                Fault::Race(times) if write < times => {
                    let theirs = format!("theirs {write}").into_bytes();
                    self.inner.apply(Batch::new().write(file(), theirs).unwrap()).await?;
                    self.inner.apply(batch).await
                }
                Fault::Race(_) => self.inner.apply(batch).await,
                Fault::LostAnswer => {
                    self.inner.apply(batch).await?;
                    Err(StoreError::failure(FailureKind::OutcomeUnknown, "writing", "no answer"))
                }
            }
        }
    }

    fn file() -> MemoryPath {
        "/memories/a".parse().unwrap()
    }

    /// What becomes of a file, and what is there in the end.
    fn put(fault: Fault, overwrite: bool) -> (Written, Vec<u8>) {
        let inner = Arc::new(InMemoryStore::new());
        let store = Faulty { inner: Arc::clone(&inner), fault, writes: Arc::default() };
        let mut destination = Destination::new(Box::new(store), None, WritingArgument { overwrite, dry_run: false });
        start_runtime().unwrap().block_on(async {
            destination.put(&file(), b"text").await.unwrap();
            let Node::File(there) = inner.read(&file()).await.unwrap() else { panic!("nothing is there") };
            (destination.report(|_| false).await.unwrap(), there.content)
        })
    }

    #[test]
    fn what_is_read_back_must_be_what_was_written() {
        let (written, _) = put(Fault::Torn, false);
        assert_eq!((written.copied, written.unverified.len(), written.is_complete()), (0, 1, false));
        assert_eq!(
            written.problems().collect::<Vec<_>>(),
            ["/memories/a is not as it should be: what was read back is not what was written"]
        );
    }

    #[test]
    fn what_others_write_in_between_is_not_overwritten() {
        let (written, there) = put(Fault::Race(1), false);
        assert_eq!((written.copied, written.conflicts.len()), (0, 1));
        assert_eq!(there, b"theirs 0");
    }

    #[test]
    fn a_race_is_run_again_and_not_for_ever() {
        let (written, there) = put(Fault::Race(2), true);
        assert_eq!((written.overwritten, written.is_complete(), there.as_slice()), (1, true, &b"text"[..]));
        let (written, there) = put(Fault::Race(LOOKS), true);
        assert_eq!((written.overwritten, written.conflicts.len()), (0, 1));
        assert_eq!(there, format!("theirs {}", LOOKS - 1).into_bytes());
    }

    #[test]
    fn a_write_whose_answer_was_lost_counts_as_one() {
        let (written, _) = put(Fault::LostAnswer, false);
        assert_eq!((written.copied, written.already_there, written.bytes), (1, 0, 4));
    }
}
