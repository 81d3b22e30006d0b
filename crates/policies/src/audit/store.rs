//! [`AuditedStore`]: records each batch that changes something.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use memory_tool_core::{
    Batch, Change, Expected, FileEntry, Found, HookedStore, MemoryPath, Node, Store, StoreError, Version,
};

use crate::audit::actor::Actor;
use crate::audit::command::CommandUnderWay;
use crate::audit::entry::{Entry, EntryHook, Head, unrecorded};
use crate::audit::log::AuditLog;
use crate::audit::record::{AuditedChange, AuditedEntry, AuditedFile, AuditedState, MAX_LISTED_FILES};

/// How many files that were read for an edit are remembered by their digests. Each edit reads and writes back one.
const MAX_REMEMBERED: usize = 16;

/// A store over a store that records each change before it is made and what came of it. How, [the page of the
/// crate](crate#audit-log) says.
///
/// Put it over every other store, mounts and limits included, and under a [`ScreenedStore`](crate::ScreenedStore) alone. It then records
/// every change that a command makes, with the path that Claude gave. Screening is over it because a redaction alters the text, and the
/// digest is that of what is stored. What an [`ExpiringStore`](crate::ExpiringStore) under it removes is not recorded: for that, put another
/// `AuditedStore` under the `ExpiringStore`.
///
/// # Behavior
/// 1. A batch that changes something is recorded as an intent before it is handed on, and its outcome afterwards. A batch without
///    changes is not recorded.
/// 2. Where the intent cannot be appended, the batch is not handed on: [`StoreError::Failure`] with [`AuditError`](crate::AuditError) as its
///    source.
/// 3. Where the outcome cannot be appended, the batch has the outcome that it has, and an event of [`tracing`] at the level `ERROR` says
///    that the record is missing.
/// 4. The batch is handed on as it is.
/// 5. The digest before a write is that of the version that the batch requires. Where it requires none, as for a removal or a rename,
///    it is that of what was there when the batch came: somebody else's change may come in between, and is then recorded before the
///    outcome.
/// 6. What cannot be read is recorded as unknown, and does not keep the batch from being applied: a damaged file can be removed.
/// 7. A batch outside of any command of an [`AuditedTool`](crate::AuditedTool) is of the store's own actor, and its command is `apply`.
/// 8. Where the store calls [hooks](Store::hooked) and the log [appends on the thread of the caller](AuditLog::blocking), the store makes
///    both records, the intent within its lock: the intents have the order of the changes, a batch that is dropped half-way has the
///    outcome that it has, and one that never has its turn has no records.
/// 9. Elsewhere a batch that is dropped half-way has the outcome `dropped` or none.
#[derive(Clone, Debug)]
pub struct AuditedStore<S> {
    inner: S,
    log: Arc<dyn AuditLog>,
    actor: Actor,
    digests_directories: bool,
    remembered: Arc<Mutex<VecDeque<Remembered>>>,
}

/// A file that was read. Equal versions of one path are equal contents.
#[derive(Debug)]
struct Remembered {
    path: MemoryPath,
    version: Version,
    file: AuditedFile,
}

impl<S: Store> AuditedStore<S> {
    /// Records the changes of `inner` in `log`. `actor` is who makes those that no command makes.
    pub fn new(inner: S, log: impl AuditLog, actor: Actor) -> Self {
        Self { inner, log: Arc::new(log), actor, digests_directories: false, remembered: Arc::default() }
    }

    /// Records the digest of each file that is listed of a directory that is removed or renamed. Each is read for it, so it costs as
    /// many requests as the directory has files, up to [`MAX_LISTED_FILES`].
    #[must_use]
    pub fn with_digests_of_directories(mut self) -> Self {
        self.digests_directories = true;
        self
    }

    /// The store beneath.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    async fn describe_changes(&self, batch: &Batch) -> Vec<AuditedChange> {
        let mut changes = Vec::with_capacity(batch.changes().len());
        for change in batch.changes() {
            changes.push(self.describe(batch, change).await);
        }
        changes
    }

    async fn describe(&self, batch: &Batch, change: &Change) -> AuditedChange {
        match change {
            Change::Write { path, content } => AuditedChange::Write {
                path: path.clone(),
                before: self.before_write(batch, path).await,
                after: AuditedFile::of(content),
            },
            Change::Remove { path } => AuditedChange::Remove { path: path.clone(), before: self.state_of(path).await },
            Change::Rename { from, to } => {
                AuditedChange::Rename { from: from.clone(), to: to.clone(), moved: self.state_of(from).await }
            }
        }
    }

    async fn before_write(&self, batch: &Batch, path: &MemoryPath) -> AuditedState {
        let mut required = batch.preconditions().iter().filter(|(required, _)| required == path);
        match required.find(|(_, expected)| matches!(expected, Expected::Absent | Expected::Version(_))) {
            Some((_, Expected::Absent)) => AuditedState::Absent,
            Some((_, Expected::Version(version))) => self.state_at(path, version).await,
            _ => match self.inner.read(path).await {
                Ok(Node::Absent) => AuditedState::Absent,
                Ok(Node::File(file)) => AuditedState::File(AuditedFile::of(&file.content)),
                Ok(Node::Directory) | Err(_) => AuditedState::Unknown,
            },
        }
    }

    async fn state_at(&self, path: &MemoryPath, version: &Version) -> AuditedState {
        if let Some(file) = self.recall(path, version) {
            return AuditedState::File(file);
        }
        match self.inner.read(path).await {
            Ok(Node::File(file)) if file.version == *version => AuditedState::File(AuditedFile::of(&file.content)),
            _ => AuditedState::Unknown,
        }
    }

    async fn state_of(&self, path: &MemoryPath) -> AuditedState {
        match self.inner.read_or_list(path).await {
            Ok(Found::Absent) => AuditedState::Absent,
            Ok(Found::File(file)) => AuditedState::File(AuditedFile::of(&file.content)),
            Ok(Found::Directory(files)) => self.state_of_directory(files).await,
            Err(_) => AuditedState::Unknown,
        }
    }

    async fn state_of_directory(&self, mut files: Vec<FileEntry>) -> AuditedState {
        let bytes = files.iter().fold(0, |sum: u64, file| sum.saturating_add(file.size));
        let count = files.len() as u64;
        files.sort_unstable_by(|left, right| left.path.cmp(&right.path));
        files.truncate(MAX_LISTED_FILES);
        let mut listed = Vec::with_capacity(files.len());
        for FileEntry { path, size, .. } in files {
            let sha256 = if self.digests_directories { self.digest_of(&path).await } else { None };
            listed.push(AuditedEntry { path, size, sha256 });
        }
        AuditedState::Directory { files: count, bytes, listed }
    }

    async fn digest_of(&self, path: &MemoryPath) -> Option<String> {
        match self.inner.read(path).await {
            Ok(Node::File(file)) => Some(AuditedFile::of(&file.content).sha256),
            _ => None,
        }
    }

    /// Remembers what an edit has read, which it is about to replace: that spares reading it again. What is read without a command may
    /// be for an edit, too.
    fn remember(&self, path: &MemoryPath, node: &Node) {
        if let Node::File(file) = node
            && CommandUnderWay::may_edit()
        {
            let (path, version) = (path.clone(), file.version.clone());
            let file = AuditedFile::of(&file.content);
            let mut remembered = self.remembered();
            remembered.truncate(MAX_REMEMBERED - 1);
            remembered.push_front(Remembered { path, version, file });
        }
    }

    fn recall(&self, path: &MemoryPath, version: &Version) -> Option<AuditedFile> {
        let remembered = self.remembered();
        let found = remembered.iter().find(|file| file.path == *path && file.version == *version);
        found.map(|found| found.file.clone())
    }

    fn remembered(&self) -> MutexGuard<'_, VecDeque<Remembered>> {
        // Each of its states is whole: a file is added or dropped by one step.
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for AuditedStore<S> {
    async fn read(&self, path: &MemoryPath) -> Result<Node, StoreError> {
        let node = self.inner.read(path).await?;
        self.remember(path, &node);
        Ok(node)
    }

    async fn list(&self, directory: &MemoryPath) -> Result<Vec<FileEntry>, StoreError> {
        self.inner.list(directory).await
    }

    async fn read_or_list(&self, path: &MemoryPath) -> Result<Found, StoreError> {
        self.inner.read_or_list(path).await
    }

    async fn read_if(&self, path: &MemoryPath, preconditions: &[(MemoryPath, Expected)]) -> Result<Node, StoreError> {
        let node = self.inner.read_if(path, preconditions).await?;
        self.remember(path, &node);
        Ok(node)
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        if batch.changes().is_empty() {
            return self.inner.apply(batch).await;
        }
        let head = Head::of_batch(&self.actor).map_err(unrecorded)?;
        let changes = self.describe_changes(&batch).await;
        if let (Some(store), Some(log)) = (self.inner.hooked(), self.log.blocking()) {
            return store.apply_hooked(batch, Box::new(EntryHook::new(log, head, changes))).await;
        }
        let entry = Entry::begin(&self.log, head, changes).await.map_err(unrecorded)?;
        let result = self.inner.apply(batch).await;
        entry.end(&result).await;
        result
    }

    fn hooked(&self) -> Option<&dyn HookedStore> {
        None
    }
}
