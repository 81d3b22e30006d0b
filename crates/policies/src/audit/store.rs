//! [`AuditedStore`]: records each batch that changes files.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use memory_tool_core::{
    Actor, Batch, Change, FileEntry, Node, Precondition, ReadOptions, Store, StoreError, StorePath, Version, lock,
};

use crate::audit::batch_audit::{BatchAudit, RecordFields, log_failure};
use crate::audit::log::AuditLog;
use crate::audit::record::{AuditedChange, AuditedEntry, AuditedFile, AuditedState, MAX_LISTED_FILES};

/// The maximum number of files whose digests are cached between the read and the write of an edit.
const MAX_CACHED: usize = 16;

/// A store that records each change as an [`AuditRecord`](crate::AuditRecord) before making it, and then its outcome.
///
/// # Position
/// Put it over mounts, limits, expiry and scopes, and under a [`ScreenedStore`](crate::ScreenedStore). The log then has
/// every change with the path that Claude used. Screening must be over it because a redaction changes the text, and the
/// digest must match the stored text. Removals by an [`ExpiringStore`](crate::ExpiringStore) below are not recorded; if
/// you need them, put a second `AuditedStore` under the `ExpiringStore`, with a different actor.
///
/// # Guarantees
/// These apply to every store and log.
/// 1. A batch that changes files is recorded as an intent before it is applied. If the intent cannot be appended, the
///    batch is not applied, and the error is [`StoreError::Failure`] with an [`AuditError`](crate::AuditError) as its
///    source.
/// 2. The outcome is recorded before the caller receives the result. If the outcome cannot be appended, the result
///    stays the same, and a [`tracing`] event at the level `ERROR` reports the missing record.
/// 3. A batch that the store refuses has the outcome `refused`. No file was changed.
/// 4. A batch that is dropped before it completes has the outcome `dropped`, or no outcome. In both cases it may have
///    been applied. A batch that is dropped before its intent was sent to the log has no records and is not applied.
/// 5. The intents of one writer are in the order of its changes. With concurrent writers, the order of intents can
///    differ from the order of changes, because an intent is recorded before its batch is applied.
/// 6. Batches without changes are not recorded. Neither are batches that change only records of other policies, such as
///    the access times of an `ExpiringStore` above, unless they have a [command](Batch::for_command), such as the
///    redaction of a history. Such a batch is recorded without changes.
/// 7. The batch itself is passed on unchanged.
/// 8. The digest before a write belongs to the version that the batch requires. If the batch requires no version, as
///    for a removal or rename, the digest belongs to the contents before the batch was applied. A concurrent change in
///    the meantime is recorded separately.
/// 9. A file that cannot be read is recorded as unknown and the batch is applied, so damaged files can be removed.
/// 10. The actor of this store is recorded for a batch without an [actor](Batch::by), and the command `apply` for a
///     batch without a [command](Batch::for_command).
///
/// # Costs
/// With a [`JsonLinesLog`](crate::JsonLinesLog) on a local disk, an edit of a 4 KB file takes 50 to 90 µs longer (4 to
/// 9 %), and a `view` takes the same time. An edit does not read the file again. A removal or rename also reads the
/// file or lists the directory.
#[derive(Clone, Debug)]
pub struct AuditedStore<S> {
    inner: S,
    log: Arc<dyn AuditLog>,
    actor: Actor,
    digests_directories: bool,
    // Each entry is added or removed in one step.
    cached: Arc<Mutex<VecDeque<CachedDigest>>>,
}

#[derive(Debug)]
struct CachedDigest {
    path: StorePath,
    version: Version,
    file: AuditedFile,
}

impl<S: Store> AuditedStore<S> {
    /// Records the changes of `inner` in `log`. `actor` is recorded for batches that name no other.
    pub fn new(inner: S, log: impl AuditLog, actor: Actor) -> Self {
        Self { inner, log: Arc::new(log), actor, digests_directories: false, cached: Arc::default() }
    }

    /// Also records the digest of each listed file of a removed or renamed directory. This reads each of these files,
    /// up to [`MAX_LISTED_FILES`].
    #[must_use]
    pub fn with_digests_of_directories(mut self) -> Self {
        self.digests_directories = true;
        self
    }

    /// The inner store.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    async fn describe_changes(&self, batch: &Batch) -> Vec<AuditedChange> {
        let mut changes = Vec::with_capacity(batch.changes().len());
        for change in batch.changes().iter().filter(|change| !change.is_of_record()) {
            changes.push(self.describe(batch, change).await);
        }
        changes
    }

    async fn describe(&self, batch: &Batch, change: &Change) -> AuditedChange {
        match change {
            Change::Write { path, content, .. } => AuditedChange::Write {
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

    async fn read_below(&self, path: &StorePath) -> Result<Node, StoreError> {
        self.inner.read_opts(path, ReadOptions::new()).await
    }

    async fn before_write(&self, batch: &Batch, path: &StorePath) -> AuditedState {
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

    async fn state_at(&self, path: &StorePath, version: &Version) -> AuditedState {
        if let Some(file) = self.cached_digest(path, version) {
            return AuditedState::File(file);
        }
        match self.read_below(path).await {
            Ok(Node::File(file)) if file.version == *version => AuditedState::File(AuditedFile::of(&file.content)),
            _ => AuditedState::Unknown,
        }
    }

    async fn state_of(&self, path: &StorePath) -> AuditedState {
        match self.read_below(path).await {
            Ok(Node::Absent) => AuditedState::Absent,
            Ok(Node::File(file)) => AuditedState::File(AuditedFile::of(&file.content)),
            Ok(Node::Directory(listing)) => self.state_of_directory(listing.files).await,
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

    async fn digest_of(&self, path: &StorePath) -> Option<String> {
        match self.read_below(path).await {
            Ok(Node::File(file)) => Some(AuditedFile::of(&file.content).sha256),
            _ => None,
        }
    }

    /// Caches the digest of a file that is read for an edit, so that the file is not read again before the write. A
    /// read outside of a command may also be for an edit.
    fn cache_digest(&self, path: &StorePath, node: &Node, command: Option<&str>) {
        if let Node::File(file) = node
            && !matches!(command, Some("view" | ReadOptions::SEARCH))
        {
            let (path, version) = (path.clone(), file.version.clone());
            let file = AuditedFile::of(&file.content);
            let mut cached = lock(&self.cached);
            cached.truncate(MAX_CACHED - 1);
            cached.push_front(CachedDigest { path, version, file });
        }
    }

    fn cached_digest(&self, path: &StorePath, version: &Version) -> Option<AuditedFile> {
        let cached = lock(&self.cached);
        let found = cached.iter().find(|file| file.path == *path && file.version == *version);
        found.map(|found| found.file.clone())
    }
}

#[async_trait]
impl<S: Store> Store for AuditedStore<S> {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        let command = options.command();
        let node = self.inner.read_opts(path, options).await?;
        self.cache_digest(path, &node, command);
        Ok(node)
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        let is_of_policy = batch.command().is_none() && batch.changes().iter().all(Change::is_of_record);
        if batch.changes_nothing() || is_of_policy {
            return self.inner.apply(batch).await;
        }
        let fields = RecordFields::of_batch(&batch, &self.actor).map_err(log_failure)?;
        let changes = self.describe_changes(&batch).await;
        let audit = BatchAudit::begin(&self.log, fields, changes).await.map_err(log_failure)?;
        let result = self.inner.apply(batch).await;
        audit.end(&result).await;
        result
    }
}
