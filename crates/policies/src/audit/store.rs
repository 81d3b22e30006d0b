//! [`AuditedStore`]: records each batch that changes something.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use memory_tool_core::{
    Batch, Change, FileEntry, MemoryPath, Node, Precondition, ReadOptions, RecordName, Store, StoreError, StoredFile,
    Version,
};

use crate::audit::actor::Actor;
use crate::audit::command::CommandContext;
use crate::audit::entry::{Entry, Head, unrecorded};
use crate::audit::log::AuditLog;
use crate::audit::record::{AuditedChange, AuditedEntry, AuditedFile, AuditedState, MAX_LISTED_FILES};

/// How many files that were read for an edit are remembered by their digests. Each edit reads and writes back one.
const MAX_REMEMBERED: usize = 16;

/// A store over a store that records each change before it is made, and its outcome afterwards. [The page of the
/// crate](crate#audit-log) describes the records.
///
/// # Place in the stack
/// Put it over all other stores, mounts, limits, expiry and scopes included, and under a [`ScreenedStore`](crate::ScreenedStore) alone.
/// Then one log has every change that a command makes, with the path that Claude gave. Screening goes over it because a redaction
/// alters the text, and the digest must be that of the stored text. What an [`ExpiringStore`](crate::ExpiringStore) below removes by
/// itself is not recorded: if you need that, put another `AuditedStore` under the `ExpiringStore`, with an actor of its own.
///
/// # Guarantees
/// They are the same over every store and with every log.
/// 1. A batch that changes files is recorded as an intent before it is handed on. If the intent cannot be appended, the batch is not
///    handed on: the error is [`StoreError::Failure`] with [`AuditError`](crate::AuditError) as its source.
/// 2. Its outcome is recorded before the caller gets the result. If the outcome cannot be appended, the batch keeps its result, and an
///    event of [`tracing`] at the level `ERROR` reports the missing record.
/// 3. A batch that the store refuses has the outcome `refused`. Nothing was changed.
/// 4. A batch that is dropped before it ends has the outcome `dropped`, or none; in both cases it may have been applied. One that is
///    dropped before its intent is handed to the log has no records and is not applied.
/// 5. The intents of one writer have the order of its changes. Those of concurrent writers may not: an intent is recorded before its
///    batch has its turn.
/// 6. A batch without changes is not recorded, nor are changes of records alone, such as the access times of an `ExpiringStore` above:
///    these are no changes of the memory.
/// 7. The batch is handed on as it is.
/// 8. The digest before a write is that of the version that the batch requires. If it requires none, as for a removal or a rename,
///    the digest is that of the contents when the batch came: a concurrent change may come in between, and is then recorded before
///    the outcome.
/// 9. A file that cannot be read is recorded as unknown, and the batch is applied: a damaged file can be removed.
/// 10. A batch outside of any command of an [`AuditedTool`](crate::AuditedTool) has the actor of this store and the command `apply`.
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

    /// The store below.
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

    async fn read_below(&self, path: &MemoryPath) -> Result<Node, StoreError> {
        self.inner.read_opts(path, ReadOptions::new()).await
    }

    async fn before_write(&self, batch: &Batch, path: &MemoryPath) -> AuditedState {
        let mut required = batch.preconditions().iter().filter(|(required, _)| required == path);
        match required.next() {
            Some((_, Precondition::Absent)) => AuditedState::Absent,
            Some((_, Precondition::Version(version))) => self.state_at(path, version).await,
            None => match self.read_below(path).await {
                Ok(Node::Absent) => AuditedState::Absent,
                Ok(Node::File(file)) => AuditedState::File(AuditedFile::of(&file.content)),
                Ok(Node::Directory(_)) | Err(_) => AuditedState::Unknown,
            },
        }
    }

    async fn state_at(&self, path: &MemoryPath, version: &Version) -> AuditedState {
        if let Some(file) = self.recall(path, version) {
            return AuditedState::File(file);
        }
        match self.read_below(path).await {
            Ok(Node::File(file)) if file.version == *version => AuditedState::File(AuditedFile::of(&file.content)),
            _ => AuditedState::Unknown,
        }
    }

    async fn state_of(&self, path: &MemoryPath) -> AuditedState {
        match self.read_below(path).await {
            Ok(Node::Absent) => AuditedState::Absent,
            Ok(Node::File(file)) => AuditedState::File(AuditedFile::of(&file.content)),
            Ok(Node::Directory(files)) => self.state_of_directory(files).await,
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
        match self.read_below(path).await {
            Ok(Node::File(file)) => Some(AuditedFile::of(&file.content).sha256),
            _ => None,
        }
    }

    /// Remembers what an edit has read, which it is about to replace: that spares reading it again. What is read without a command may
    /// be for an edit, too.
    fn remember(&self, path: &MemoryPath, node: &Node) {
        if let Node::File(file) = node
            && CommandContext::may_edit()
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
impl<S: Store> Store for AuditedStore<S> {
    async fn read_opts(&self, path: &MemoryPath, options: ReadOptions) -> Result<Node, StoreError> {
        let node = self.inner.read_opts(path, options).await?;
        self.remember(path, &node);
        Ok(node)
    }

    async fn read_record(&self, name: &RecordName) -> Result<Option<StoredFile>, StoreError> {
        self.inner.read_record(name).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        if batch.changes().is_empty() {
            return self.inner.apply(batch).await;
        }
        let head = Head::of_batch(&self.actor).map_err(unrecorded)?;
        let changes = self.describe_changes(&batch).await;
        let entry = Entry::begin(&self.log, head, changes).await.map_err(unrecorded)?;
        let result = self.inner.apply(batch).await;
        entry.end(&result).await;
        result
    }
}
