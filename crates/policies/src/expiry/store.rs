//! [`ExpiringStore`]: a store whose unused files expire.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use memory_tool_core::{
    Batch, Change, ErrorKind, FileEntry, Listing, MAX_ATTEMPTS, MemoryPath, Node, Precondition, ReadOptions, Store,
    StoreError, StorePath,
};

use super::access_times::AccessTimes;
use super::rules::{Clock, ExpiryError, ExpiryState, Rules, Use};
use super::table::{CachedTimes, RecordState, Table, changed_paths, named_paths};
use crate::preconditions::check_after_read;

/// The maximum number of files that one batch removes.
pub(super) const MAX_REMOVED_AT_ONCE: usize = 100;

/// A store whose files expire if they are neither read nor written for a given time.
///
/// Access times are stored in the inner store as the record `/records/expiry/access-times`. All programs that open the
/// memory with this policy share them, and they change in one atomic batch with the files.
///
/// ```
/// use std::time::Duration;
///
/// use memory_tool_core::{Engine, InMemoryStore, MemoryTool};
/// use memory_tool_policies::ExpiringStore;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let ninety_days = Duration::from_secs(90 * 24 * 60 * 60);
/// let store = ExpiringStore::builder(InMemoryStore::new(), ninety_days).pin("/memories/profile.md".parse()?).build()?;
/// let tool = Engine::new(store);
/// let input = serde_json::json!({"command": "create", "path": "/memories/a.txt", "file_text": "Hello"});
/// tool.call(input).await?;
///
/// let swept = tool.store().sweep().await?;
/// assert_eq!((swept.removed.len(), swept.kept), (0, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Behavior
/// 1. A file that was read or written within the idle time is visible. After the idle time plus the
///    [resolution](ExpiringStoreBuilder::resolution) without use, it is expired: it can be neither read nor listed,
///    another file or directory can be created at its path, and a directory with only expired files is absent. Between
///    the two times, the file may already be expired.
/// 2. Listing or searching a directory does not count as use of its files; renaming it does. A file without a recorded
///    time counts as used when a listing or sweep first sees it, so this policy can be added to an existing memory.
/// 3. Expired files take up space until a [sweep](Self::sweep) removes them, or a batch that needs their paths or
///    space, which removes the longest unused first. A file that cannot be read because it is damaged remains until a
///    batch changes its path or a directory above it.
/// 4. [Pinned](ExpiringStoreBuilder::pin) files never expire.
/// 5. If the access times are damaged or have an unknown format, nothing expires and no access is recorded until
///    [`reset_access_times`](Self::reset_access_times) removes them.
/// 6. If the time of a read cannot be recorded, for example because the store is read-only or full, the read succeeds
///    and a [`tracing`] warning is emitted. The next read tries again. Until then, reading a file does not keep it from
///    expiring.
///
/// # Costs
/// Each process caches the access times and reads them again after the resolution. While the recorded time of a file is
/// younger than the resolution, a `view` or an edit of the [`Engine`](memory_tool_core::Engine) needs no extra
/// operation and takes 1 to 2 % longer on a local disk. The first use after that also writes the access times, which
/// takes as long as an edit. Each write contains all of them: the path and about 14 bytes per file. `create`, `rename`
/// and `delete` write them in the same batch as the file, and take three to eight times as long.
///
/// # Clocks
/// Times come from the machines that use the memory, in whole seconds. The age of a file is the current time minus the
/// latest recorded use. A recorded time in the future is replaced by the current time when the file is next seen. If a
/// clock is set back, expired files that were not yet removed become visible again. A clock that runs behind makes the
/// files used with it expire earlier for other machines, and a clock that runs ahead makes the files of others expire
/// early. Keep clocks correct to within a fraction of the idle time. A sweep that would remove most files
/// [waits](Self::sweep), in case the clock is wrong. A clock before 2025 counts as unset: nothing expires, and no use
/// is recorded.
///
/// # Combination with other policies
/// - All programs must set the same idle time, resolution and pins. A program without this policy sees all files, and
///   does not record their use.
/// - Put limits over this store. Expired files are then removed if a batch needs their space, and access times are not
///   counted.
/// - Put encryption and scopes under it. The access times are then encrypted, and each scope has separate ones.
#[derive(Debug)]
pub struct ExpiringStore<S> {
    pub(super) table: Table<S>,
    pub(super) rules: Rules,
}

impl<S: Store> ExpiringStore<S> {
    /// Returns a builder for a store whose files expire after `idle_time`, rounded up to seconds.
    pub fn builder(inner: S, idle_time: Duration) -> ExpiringStoreBuilder<S> {
        ExpiringStoreBuilder {
            inner,
            idle_time,
            resolution: None,
            pins: Vec::new(),
            clock: Clock::new(SystemTime::now),
            steady_clock: Clock::new(Instant::now),
        }
    }

    /// The inner store, which still contains expired files.
    pub fn inner(&self) -> &S {
        self.table.inner()
    }

    /// Deletes the access times, even if they are damaged. Each file then counts as used when it is next seen.
    ///
    /// Use it after a [`tracing`] warning or [`sweep`](Self::sweep) reported that the access times cannot be read.
    ///
    /// # Errors
    /// Returns the errors of the inner store.
    pub async fn reset_access_times(&self) -> Result<(), StoreError> {
        self.table.reset().await
    }

    /// Returns the access times to use for a read of `path`. They are loaded unless the cached ones are sufficient.
    async fn times_for_read(&self, path: &StorePath, used: Use, now: u64) -> Result<CachedTimes, StoreError> {
        let cached = self.table.cached();
        if self.state(&cached, path, used, now) == ExpiryState::Recent {
            return Ok(cached);
        }
        self.table.stored().await
    }

    fn state(&self, cached: &CachedTimes, path: &StorePath, used: Use, now: u64) -> ExpiryState {
        self.rules.state(path, cached.times.get(path), used, now)
    }

    /// Determines the expired files among `files`, which were read after `cached`, and records the use of the other
    /// files. Returns `None` if the access times have changed since `cached` and the caller must start again.
    async fn find_expired(
        &self,
        cached: &CachedTimes,
        files: impl Iterator<Item = &StorePath> + Send,
        used: Use,
        now: u64,
    ) -> Result<Option<BTreeSet<StorePath>>, StoreError> {
        let (mut due, mut expired) = (Vec::new(), BTreeSet::new());
        for path in files {
            match self.state(cached, path, used, now) {
                ExpiryState::Recent => {}
                ExpiryState::NeedsRecording => due.push(path.clone()),
                ExpiryState::Expired => _ = expired.insert(path.clone()),
            }
        }
        if due.is_empty() && expired.is_empty() {
            return Ok(Some(expired));
        }
        let required = match &cached.state {
            RecordState::Unreadable(_) => return Ok(Some(BTreeSet::new())),
            RecordState::Outdated | RecordState::Written(_) => {
                self.table.load().await?;
                return Ok(None);
            }
            RecordState::Stored(required) => required,
        };
        // Another writer may have recreated an expired file. The files read do not match the access times then.
        if !expired.is_empty() && self.table.load().await?.state != cached.state {
            return Ok(None);
        }
        let is_current = due.is_empty() || self.record(&cached.times, required, due, now).await;
        Ok(is_current.then_some(expired))
    }

    /// Records the use of files. Returns whether the stored access times were the `required` ones.
    async fn record(&self, times: &AccessTimes, required: &Precondition, used: Vec<StorePath>, now: u64) -> bool {
        let mut times = times.clone();
        for path in used {
            times.record(path, now);
        }
        self.table.commit(required, Batch::new(), Some(times)).await.unwrap_or_else(|error| {
            let error = error.name();
            tracing::warn!(error, "access time not recorded: files may expire while they are in use");
            true
        })
    }

    /// Removes expired files from a listing. See [`find_expired`](Self::find_expired) for the result.
    async fn unexpired(
        &self,
        cached: &CachedTimes,
        mut files: Vec<FileEntry>,
        now: u64,
    ) -> Result<Option<Vec<FileEntry>>, StoreError> {
        let expired = self.find_expired(cached, files.iter().map(|file| &file.path), Use::Listing, now).await?;
        Ok(expired.map(|expired| {
            files.retain(|file| !expired.contains(&file.path));
            files
        }))
    }

    async fn read_unexpired(&self, path: &StorePath, options: &ReadOptions, used: Use) -> Result<Node, StoreError> {
        for _ in 0..MAX_ATTEMPTS {
            let now = self.rules.now();
            let cached = self.times_for_read(path, used, now).await?;
            match self.inner().read_opts(path, options.clone().without_preconditions()).await? {
                Node::Absent => return Ok(Node::Absent),
                Node::File(file) => {
                    if let Some(expired) = self.find_expired(&cached, std::iter::once(path), used, now).await? {
                        return Ok(if expired.is_empty() { Node::File(file) } else { Node::Absent });
                    }
                }
                Node::Directory(Listing { files, unlisted, .. }) => {
                    if let Some(files) = self.unexpired(&cached, files, now).await? {
                        let is_gone = files.is_empty() && !path.is_root();
                        let unexpired = Listing::from(files).with_unlisted(unlisted);
                        return Ok(if is_gone { Node::Absent } else { Node::Directory(unexpired) });
                    }
                }
            }
        }
        Err(StoreError::VersionMismatch { path: path.clone() })
    }

    /// Whether the inner store can apply the batch without the access times: it only writes files at required versions,
    /// and all files with a required version were used recently.
    fn is_plain_edit(&self, batch: &Batch, now: u64) -> bool {
        let cached = self.table.cached();
        let is_recent = |path: &StorePath| self.state(&cached, path, Use::Access, now) == ExpiryState::Recent;
        let is_required = |edited: &StorePath| {
            batch
                .preconditions()
                .iter()
                .any(|(path, precondition)| path == edited && matches!(precondition, Precondition::Version(_)))
        };
        let is_edit = |change: &Change| matches!(change, Change::Write { path, .. } if is_required(path));
        batch.changes().iter().all(is_edit)
            && batch.preconditions().iter().filter(|(path, _)| !path.is_record()).all(|(path, precondition)| {
                match precondition {
                    Precondition::Absent => false,
                    Precondition::Version(_) => is_recent(path),
                }
            })
    }

    async fn apply_with_times(&self, batch: Batch, now: u64) -> Result<(), StoreError> {
        let (mut kept, mut room) = (BTreeSet::new(), 1);
        for _ in 0..MAX_ATTEMPTS {
            let cached = self.table.stored().await?;
            let RecordState::Stored(required) = &cached.state else {
                match self.apply_without_times(batch.clone()).await {
                    Err(StoreError::NotFound { path }) if path.is_record() => continue, // others removed the record
                    outcome => return outcome,
                }
            };
            let mut expired = self.expired_near(&cached.times, &batch, now);
            expired.retain(|path| !kept.contains(path));
            if expired.is_empty() {
                let times = self.times_after(&cached.times, &batch, now);
                match self.table.commit(required, batch.clone(), times).await {
                    Ok(true) => return Ok(()),
                    Ok(false) => continue,
                    Err(error @ StoreError::OverQuota { .. }) => {
                        expired = self.oldest_expired(&cached.times, &batch, &kept, now, room);
                        if expired.is_empty() {
                            return Err(error);
                        }
                        room *= 2; // at most `MAX_REMOVED_AT_ONCE` are removed
                    }
                    Err(error) => return Err(error),
                }
            }
            kept.append(&mut self.remove_expired(&cached.times, required, expired, &batch).await?);
        }
        let path = named_paths(&batch).next().cloned().unwrap_or_else(StorePath::memories);
        Err(StoreError::VersionMismatch { path })
    }

    /// Applies a batch while the record cannot be read. Clearing the memory also removes the record, which may contain
    /// the paths of files.
    async fn apply_without_times(&self, batch: Batch) -> Result<(), StoreError> {
        let clears = |change: &Change| matches!(change, Change::Remove { path } if *path == StorePath::memories());
        let batch = if batch.changes().iter().any(clears) { self.table.with_removal(batch) } else { batch };
        self.inner().apply(batch).await
    }

    /// Returns the expired files at, above and under the paths of a batch.
    fn expired_near(&self, times: &AccessTimes, batch: &Batch, now: u64) -> BTreeSet<StorePath> {
        named_paths(batch)
            .flat_map(|path| times.overlapping(path))
            .filter(|(path, recorded)| self.rules.is_expired(path, *recorded, now))
            .map(|(path, _)| path.clone())
            .collect()
    }

    /// Returns the longest unused of the expired files that the quotas of a batch count. So no more of them are removed
    /// than the batch needs, even if the clock is wrong.
    fn oldest_expired(
        &self,
        times: &AccessTimes,
        batch: &Batch,
        kept: &BTreeSet<StorePath>,
        now: u64,
        count: usize,
    ) -> BTreeSet<StorePath> {
        let counted = batch.quotas().iter().flat_map(|(directory, _)| times.overlapping(directory));
        let expired = counted.filter(|(path, recorded)| self.rules.is_expired(path, *recorded, now));
        let mut expired: Vec<_> = expired.filter(|(path, _)| !kept.contains(*path)).collect();
        expired.sort_unstable_by_key(|(path, recorded)| (*recorded, *path));
        expired.into_iter().take(count).map(|(path, _)| path.clone()).collect()
    }

    /// Removes expired files before the batch that needs their paths or space. Expired files are invisible, so the two
    /// batches do not have to form one atomic batch. Does nothing if another writer was faster. Returns the files that
    /// cannot be read and are kept because the batch does not change them.
    async fn remove_expired(
        &self,
        times: &AccessTimes,
        required: &Precondition,
        expired: BTreeSet<StorePath>,
        needed_by: &Batch,
    ) -> Result<BTreeSet<StorePath>, StoreError> {
        let (mut batch, mut times, mut kept) = (Batch::new(), times.clone(), BTreeSet::new());
        for path in expired.into_iter().take(MAX_REMOVED_AT_ONCE) {
            match self.removing(batch.clone(), &path).await {
                Ok(Some(removing)) => batch = removing,
                Ok(None) => {}
                // Any use of the file since then has changed the access times, which are required below.
                Err(error)
                    if cannot_be_read(&error) && changed_paths(needed_by).any(|changed| changed.overlaps(&path)) =>
                {
                    batch = batch.remove(path.clone());
                }
                Err(error) if cannot_be_read(&error) => {
                    warn_about_kept_file(&error);
                    kept.insert(path);
                    continue;
                }
                Err(error) => return Err(error),
            }
            times.remove(&path);
        }
        match self.table.commit(required, expiring(batch), Some(times)).await {
            Ok(_) | Err(StoreError::VersionMismatch { .. } | StoreError::NotFound { .. }) => Ok(kept),
            Err(error) => Err(error),
        }
    }

    /// Adds the removal of the file at `path`, at its current version, to the batch. Returns `None` if there is no
    /// file.
    pub(super) async fn removing(&self, batch: Batch, path: &StorePath) -> Result<Option<Batch>, StoreError> {
        match self.inner().read_opts(path, ReadOptions::new()).await {
            Ok(Node::File(file)) => {
                let batch = batch.require(path.clone(), Precondition::Version(file.version));
                Ok(Some(batch.remove(path.clone())))
            }
            Ok(_) | Err(StoreError::SymbolicLink { .. } | StoreError::NotARegularFile { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the access times to write with the batch, if they change. The batch must not name expired files.
    fn times_after(&self, before: &AccessTimes, batch: &Batch, now: u64) -> Option<AccessTimes> {
        let mut times = before.clone();
        for change in batch.changes().iter().filter(|change| !change.is_of_record()) {
            match change {
                Change::Remove { path } => _ = times.take(path),
                Change::Write { path, .. } => {
                    if self.rules.state(path, times.get(path), Use::Access, now) == ExpiryState::NeedsRecording {
                        times.record(path.clone(), now);
                    }
                }
                Change::Rename { from, to } => self.rename(&mut times, from, to, now),
            }
        }
        (times != *before).then_some(times)
    }

    fn rename(&self, times: &mut AccessTimes, from: &StorePath, to: &StorePath, now: u64) {
        times.take(to); // left from files that other programs removed
        let moved = times.take(from);
        if moved.is_empty() && self.rules.state(to, None, Use::Access, now) == ExpiryState::NeedsRecording {
            times.record(to.clone(), now); // if it is a directory, the next sweep drops this
        }
        for (path, time) in moved {
            match path.replace_prefix(from, to) {
                Ok(path) if !self.rules.is_pinned(&path) => times.record(path, time.max(now)),
                _ => {} // pinned, or the path is too long: then the rename fails or there is no such file
            }
        }
    }
}

/// Names the command of a batch that removes expired files. Without files, it only changes access times.
pub(super) fn expiring(batch: Batch) -> Batch {
    if batch.changes_nothing() { batch } else { batch.for_command(Batch::EXPIRE) }
}

/// Whether the error is specific to the file and permanent.
fn cannot_be_read(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Failure { kind: ErrorKind::Damaged | ErrorKind::AccessDenied, .. } | StoreError::Refused { .. }
    )
}

/// Warns the operator about an expired file that cannot be read.
pub(super) fn warn_about_kept_file(error: &StoreError) {
    let error = error.name();
    tracing::warn!(error, "kept an expired file that cannot be read");
}

#[async_trait]
impl<S: Store> Store for ExpiringStore<S> {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        if path.is_record() {
            return self.inner().read_opts(path, options).await;
        }
        let used = if options.command() == Some(ReadOptions::SEARCH) { Use::Listing } else { Use::Access };
        let node = self.read_unexpired(path, &options, used).await?;
        check_after_read(self, &options).await?;
        Ok(node)
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        let now = self.rules.now();
        if self.is_plain_edit(&batch, now) {
            match self.inner().apply(batch.clone()).await {
                // It may succeed once expired files are removed.
                Err(error) if !matches!(error, StoreError::VersionMismatch { .. } | StoreError::Failure { .. }) => {}
                outcome => return outcome,
            }
        }
        self.apply_with_times(batch, now).await
    }
}

/// A builder for [`ExpiringStore`], created by [`ExpiringStore::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct ExpiringStoreBuilder<S> {
    inner: S,
    idle_time: Duration,
    resolution: Option<Duration>,
    pins: Vec<StorePath>,
    clock: Clock<SystemTime>,
    steady_clock: Clock<Instant>,
}

impl<S: Store> ExpiringStoreBuilder<S> {
    /// Pins the file `path`, or all files under the directory `path`, which then never expire. The pin belongs to the
    /// path: a file that is renamed to another path is no longer pinned.
    pub fn pin(mut self, path: MemoryPath) -> Self {
        self.pins.push(path.into());
        self
    }

    /// Sets the resolution of access times, rounded up to seconds. A use is recorded if the last recorded use is older
    /// than this. A higher value means fewer writes, and files that outlive the idle time by up to that value. Default:
    /// 1/24 of the idle time, between a second and a day.
    pub fn resolution(mut self, resolution: Duration) -> Self {
        self.resolution = Some(resolution);
        self
    }

    /// Sets the clock, which is read in each operation and must not block. Nothing expires while it is before 2025.
    /// Default: [`SystemTime::now`].
    pub fn clock(mut self, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Clock::new(now);
        self
    }

    /// Sets the monotonic clock, for tests. Default: [`Instant::now`].
    #[doc(hidden)]
    pub fn steady_clock(mut self, now: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        self.steady_clock = Clock::new(now);
        self
    }

    /// Builds the store, without accessing the inner store.
    ///
    /// # Errors
    /// Returns [`ExpiryError`] if the idle time or resolution is invalid.
    pub fn build(self) -> Result<ExpiringStore<S>, ExpiryError> {
        let rules = Rules::new(self.idle_time, self.resolution, self.pins, self.clock)?;
        let table = Table::new(self.inner, self.steady_clock, rules.resolution());
        Ok(ExpiringStore { table, rules })
    }
}
