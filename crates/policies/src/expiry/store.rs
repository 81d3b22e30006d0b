//! [`ExpiringStore`]: a store of files that expire when nobody uses them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use memory_tool_core::{
    Batch, Change, FailureKind, FileEntry, MemoryPath, Node, Precondition, ReadOptions, RecordName, Store, StoreError,
    StoredFile,
};

use super::access_times::AccessTimes;
use super::rules::{Clock, ExpiryError, ExpiryState, Rules, Use};
use super::table::{Basis, Known, Table, changed_paths, named_paths};
use crate::error_names::name_of_store_error;
use crate::preconditions::check_after_read;

/// How often an operation starts over because others changed the access times in between. Each time, the change of somebody
/// else went through.
pub(super) const MAX_ATTEMPTS: usize = 1_000;

/// How many files one batch removes.
pub(super) const MAX_REMOVED_AT_ONCE: usize = 100;

/// Any store, whose files expire when they are neither read nor written for a time.
///
/// Access times are kept in the inner store itself, as the record `expiry/access-times`. So all programs that open the memory in this
/// way share them, and they change in one atomic batch with the files.
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
/// 1. A file that was read or written within the idle time is there. One that was not for longer than the idle time and the
///    [resolution](ExpiringStoreBuilder::resolution) together is expired: it is neither read nor listed, it stands in nobody's
///    way, and a directory with nothing else in it is gone. In between it may be either.
/// 2. To list a directory is no use of the files in it; to rename it is. A file of which no time is recorded is as if it were
///    used when it is first seen, be it in a listing or in a sweep. So a memory with files in it can be put under this policy.
/// 3. What is expired still takes room, until a [sweep](Self::sweep), or a batch that it would stand in the way of, removes it. A file
///    that cannot be read, as it is damaged, takes it until a batch changes its path or a directory above it.
/// 4. [Pinned](ExpiringStoreBuilder::pin) files never expire.
/// 5. If the access times cannot be read because they are damaged or of another format, nothing expires and no access is
///    recorded. They stay as they are until [`reset_access_times`](Self::reset_access_times) removes them.
/// 6. A read does not fail because its time cannot be recorded, as in a memory that is read-only or full. A warning of
///    [`tracing`] tells of it, and the next read tries again. As long as it goes on, reading does not keep a file.
///
/// # Costs
/// Each process remembers the access times, and reads them again after the resolution. Apart from that a view, and an edit that
/// requires a version as those of the [`Engine`](memory_tool_core::Engine) do, cost the inner store nothing more while the recorded
/// time is younger than the resolution. The first use of a file after that writes the access times, so there is at most one such
/// write for each file and resolution, and reads them first where they have changed. To create, rename or delete a file changes
/// them in the same batch. Each write writes all of them: the path and 14 bytes or so for each file.
///
/// # Clocks
/// Times are those of the machines that use the memory, in whole seconds. A file's age is the time now minus the latest time at which
/// it was used, so a clock that goes back makes files younger and never older: no file expires early, each lives longer by at most the
/// amount that the clock went back, and an expired file that was not removed yet is visible again. A clock that is behind by some
/// time while files are used makes them expire that much earlier by a clock that is right, and one that is ahead makes other files
/// do so: keep clocks right to within a part of the idle time. A clock that shows a time before 2025 was never set: with it
/// nothing expires, and nothing is recorded.
///
/// # Together with others
/// - All programs that open a memory set the same idle time, resolution and pins. A program that opens it without this policy sees
///   all files, and its use of them is not recorded.
/// - Limits go over this store: then expired files are removed if a batch needs their room. Access times are not counted.
/// - Encryption and scopes go under it, so that the access times are encrypted, and each scope has its own.
#[derive(Debug)]
pub struct ExpiringStore<S> {
    pub(super) table: Table<S>,
    pub(super) rules: Rules,
}

impl<S: Store> ExpiringStore<S> {
    /// `inner`, whose files are to expire after `idle_time`, rounded up to seconds.
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

    /// The store below, with the expired files and the access times.
    pub fn inner(&self) -> &S {
        self.table.inner()
    }

    /// Forgets when files were last used, also where that record is damaged: each file begins to count when it is next seen.
    ///
    /// This is for an operator, after a warning of [`tracing`] or [`sweep`](Self::sweep) reported that the access times cannot be read.
    ///
    /// # Errors
    /// Those of the inner store.
    pub async fn reset_access_times(&self) -> Result<(), StoreError> {
        self.table.reset().await
    }

    /// What is known before `path` is looked at: the stored access times, unless they do not matter.
    async fn known_before(&self, path: &MemoryPath, now: u64) -> Result<Known, StoreError> {
        let known = self.table.known();
        if self.state(&known, path, Use::Access, now) == ExpiryState::Settled {
            return Ok(known);
        }
        self.table.stored().await
    }

    fn state(&self, known: &Known, path: &MemoryPath, used: Use, now: u64) -> ExpiryState {
        self.rules.state(path, known.times.get(path), used, now)
    }

    /// Judges files that were found after `known` was so, and records what is to be recorded of them. Gives those that are
    /// expired; `None` where the access times changed meanwhile, so that all must be looked at again.
    async fn judge(
        &self,
        known: &Known,
        files: impl Iterator<Item = &MemoryPath> + Send,
        used: Use,
        now: u64,
    ) -> Result<Option<BTreeSet<MemoryPath>>, StoreError> {
        let (mut due, mut expired) = (Vec::new(), BTreeSet::new());
        for path in files {
            match self.state(known, path, used, now) {
                ExpiryState::Settled => {}
                ExpiryState::Due => due.push(path.clone()),
                ExpiryState::Expired => _ = expired.insert(path.clone()),
            }
        }
        if due.is_empty() && expired.is_empty() {
            return Ok(Some(expired));
        }
        let required = match &known.basis {
            Basis::Unreadable(_) => return Ok(Some(BTreeSet::new())),
            Basis::Outdated | Basis::Written(_) => {
                self.table.load().await?;
                return Ok(None);
            }
            Basis::Stored(required) => required,
        };
        // Somebody else may have created a file anew that was expired: then the files are those of another moment.
        if !expired.is_empty() && self.table.load().await?.basis != known.basis {
            return Ok(None);
        }
        let is_current = due.is_empty() || self.record(&known.times, required, due, now).await;
        Ok(is_current.then_some(expired))
    }

    /// Records that these files are used. Gives whether the access times were those required.
    async fn record(&self, times: &AccessTimes, required: &Precondition, used: Vec<MemoryPath>, now: u64) -> bool {
        let mut times = times.clone();
        for path in used {
            times.record(path, now);
        }
        self.table.commit(required, Batch::new(), Some(times)).await.unwrap_or_else(|error| {
            let error = name_of_store_error(&error);
            tracing::warn!(error, "access time not recorded: files may expire while they are in use");
            true
        })
    }

    /// What of a listing is shown, see [`judge`](Self::judge).
    async fn show(
        &self,
        known: &Known,
        mut files: Vec<FileEntry>,
        now: u64,
    ) -> Result<Option<Vec<FileEntry>>, StoreError> {
        let expired = self.judge(known, files.iter().map(|file| &file.path), Use::Listing, now).await?;
        Ok(expired.map(|expired| {
            files.retain(|file| !expired.contains(&file.path));
            files
        }))
    }

    /// Reads a path as if the expired files were gone.
    async fn read_unexpired(&self, path: &MemoryPath) -> Result<Node, StoreError> {
        for _ in 0..MAX_ATTEMPTS {
            let now = self.rules.now();
            let known = self.known_before(path, now).await?;
            match self.inner().read_opts(path, ReadOptions::new()).await? {
                Node::Absent => return Ok(Node::Absent),
                Node::File(file) => {
                    if let Some(expired) = self.judge(&known, std::iter::once(path), Use::Access, now).await? {
                        return Ok(if expired.is_empty() { Node::File(file) } else { Node::Absent });
                    }
                }
                Node::Directory(files) => {
                    if let Some(files) = self.show(&known, files, now).await? {
                        let is_gone = files.is_empty() && !path.is_root();
                        return Ok(if is_gone { Node::Absent } else { Node::Directory(files) });
                    }
                }
            }
        }
        Err(StoreError::VersionMismatch { path: path.clone() })
    }

    /// Whether a batch is the same to the inner store: it writes files at the versions that they are required to have, and all
    /// that it requires a version of is known to be there, and used lately.
    fn is_plain_edit(&self, batch: &Batch, now: u64) -> bool {
        let known = self.table.known();
        let is_settled = |path: &MemoryPath| self.state(&known, path, Use::Access, now) == ExpiryState::Settled;
        let is_required = |edited: &MemoryPath| {
            batch
                .preconditions()
                .iter()
                .any(|(path, precondition)| path == edited && matches!(precondition, Precondition::Version(_)))
        };
        let is_edit = |change: &Change| matches!(change, Change::Write { path, .. } if is_required(path));
        batch.changes().iter().all(is_edit)
            && batch.preconditions().iter().all(|(path, precondition)| match precondition {
                Precondition::Absent => false,
                Precondition::Version(_) => is_settled(path),
            })
    }

    /// Applies a batch by the access times that are stored.
    async fn apply_by_table(&self, batch: Batch, now: u64) -> Result<(), StoreError> {
        let mut kept = BTreeSet::new();
        for _ in 0..MAX_ATTEMPTS {
            let known = self.table.stored().await?;
            let Basis::Stored(required) = &known.basis else {
                // A record that cannot be read may hold the paths of files that are to be forgotten.
                let empties = |change: &Change| matches!(change, Change::Remove { path } if path.is_root());
                let forgets = batch.changes().iter().any(empties);
                return self.inner().apply(if forgets { self.table.forgetting(batch) } else { batch }).await;
            };
            let mut in_the_way = self.in_the_way(&known.times, &batch, now);
            in_the_way.retain(|path| !kept.contains(path));
            if !in_the_way.is_empty() {
                kept.append(&mut self.clear_away(&known.times, required, in_the_way, &batch).await?);
                continue;
            }
            let times = self.times_after(&known.times, &batch, now);
            if self.table.commit(required, batch.clone(), times).await? {
                return Ok(());
            }
        }
        let path = named_paths(&batch).next().cloned().unwrap_or_else(MemoryPath::root);
        Err(StoreError::VersionMismatch { path })
    }

    /// The expired files at, above and beneath all that a batch names.
    fn in_the_way(&self, times: &AccessTimes, batch: &Batch, now: u64) -> BTreeSet<MemoryPath> {
        named_paths(batch)
            .flat_map(|path| times.overlapping(path))
            .filter(|(path, recorded)| self.rules.is_expired(path, *recorded, now))
            .map(|(path, _)| path.clone())
            .collect()
    }

    /// Removes expired files. Nobody sees that, so a batch that needs the room may follow by itself. Where somebody else was
    /// faster, nothing is done. Gives those that cannot be read and are to be kept, as a batch that changes others needs no more of
    /// their room than a sweep does.
    async fn clear_away(
        &self,
        times: &AccessTimes,
        required: &Precondition,
        expired: BTreeSet<MemoryPath>,
        needed_by: &Batch,
    ) -> Result<BTreeSet<MemoryPath>, StoreError> {
        let (mut batch, mut times, mut kept) = (Batch::new(), times.clone(), BTreeSet::new());
        for path in expired.into_iter().take(MAX_REMOVED_AT_ONCE) {
            match self.removing(batch.clone(), &path).await {
                Ok(Some(removing)) => batch = removing,
                Ok(None) => {}
                // Whoever used it since has changed the access times that are required.
                Err(error)
                    if cannot_be_read(&error) && changed_paths(needed_by).any(|changed| changed.overlaps(&path)) =>
                {
                    batch = batch.remove(path.clone());
                }
                Err(error) if cannot_be_read(&error) => {
                    tell_of_kept(&error);
                    kept.insert(path);
                    continue;
                }
                Err(error) => return Err(error),
            }
            times.remove(&path);
        }
        match self.table.commit(required, batch, Some(times)).await {
            Ok(_) | Err(StoreError::VersionMismatch { .. } | StoreError::NotFound { .. }) => Ok(kept),
            Err(error) => Err(error),
        }
    }

    /// The batch that removes the file at `path`, too, as it is now. `None` where there is none.
    pub(super) async fn removing(&self, batch: Batch, path: &MemoryPath) -> Result<Option<Batch>, StoreError> {
        match self.inner().read_opts(path, ReadOptions::new()).await {
            Ok(Node::File(file)) => {
                let batch = batch.require(path.clone(), Precondition::Version(file.version));
                Ok(Some(batch.remove(path.clone())))
            }
            Ok(_) | Err(StoreError::SymbolicLink { .. } | StoreError::NotARegularFile { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What is to be recorded with a batch, if anything. Nothing expired is named by it.
    fn times_after(&self, before: &AccessTimes, batch: &Batch, now: u64) -> Option<AccessTimes> {
        let mut times = before.clone();
        for change in batch.changes() {
            match change {
                Change::Remove { path } => _ = times.take(path),
                Change::Write { path, .. } => {
                    if self.rules.state(path, times.get(path), Use::Access, now) == ExpiryState::Due {
                        times.record(path.clone(), now);
                    }
                }
                Change::Rename { from, to } => self.rename(&mut times, from, to, now),
            }
        }
        (times != *before).then_some(times)
    }

    fn rename(&self, times: &mut AccessTimes, from: &MemoryPath, to: &MemoryPath, now: u64) {
        times.take(to); // of files that other programs removed
        let moved = times.take(from);
        if moved.is_empty() && self.rules.state(to, None, Use::Access, now) == ExpiryState::Due {
            times.record(to.clone(), now); // of a directory it says nothing, and goes with the next sweep
        }
        for (path, time) in moved {
            match path.replace_prefix(from, to) {
                Ok(path) if !self.rules.is_pinned(&path) => times.record(path, time.max(now)),
                _ => {} // or too long: the rename fails, or the file is gone
            }
        }
    }
}

/// Whether it is the file that fails, and will fail the next time too.
fn cannot_be_read(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Failure { kind: FailureKind::Damaged | FailureKind::AccessDenied, .. } | StoreError::Refused { .. }
    )
}

/// Tells the operator of an expired file that cannot be read.
pub(super) fn tell_of_kept(error: &StoreError) {
    let error = name_of_store_error(error);
    tracing::warn!(error, "kept an expired file that cannot be read");
}

#[async_trait]
impl<S: Store> Store for ExpiringStore<S> {
    async fn read_opts(&self, path: &MemoryPath, options: ReadOptions) -> Result<Node, StoreError> {
        let node = self.read_unexpired(path).await?;
        check_after_read(self, &options).await?;
        Ok(node)
    }

    async fn read_record(&self, name: &RecordName) -> Result<Option<StoredFile>, StoreError> {
        self.inner().read_record(name).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        let now = self.rules.now();
        if self.is_plain_edit(&batch, now) {
            match self.inner().apply(batch.clone()).await {
                // Without expired files that are in the way it may succeed.
                Err(error) if !matches!(error, StoreError::VersionMismatch { .. } | StoreError::Failure { .. }) => {}
                outcome => return outcome,
            }
        }
        self.apply_by_table(batch, now).await
    }
}

/// Options of an [`ExpiringStore`]. Made by [`ExpiringStore::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct ExpiringStoreBuilder<S> {
    inner: S,
    idle_time: Duration,
    resolution: Option<Duration>,
    pins: Vec<MemoryPath>,
    clock: Clock<SystemTime>,
    steady_clock: Clock<Instant>,
}

impl<S: Store> ExpiringStoreBuilder<S> {
    /// Keeps the file `path`, or all that is beneath the directory, however long it is idle. It goes with what is there: a file
    /// that is renamed to another path is pinned no longer.
    pub fn pin(mut self, path: MemoryPath) -> Self {
        self.pins.push(path);
        self
    }

    /// How coarsely access times are kept, rounded up to seconds: a use is recorded if the recorded one is older than this. The
    /// coarser, the fewer writes, and the longer a file may outlive the idle time. Default: a 24th of the idle time, from a second
    /// to a day.
    pub fn resolution(mut self, resolution: Duration) -> Self {
        self.resolution = Some(resolution);
        self
    }

    /// Takes the time from `now`, which is asked at each operation and must not wait. With a time before 2025 nothing expires.
    /// Default: [`SystemTime::now`].
    pub fn clock(mut self, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Clock::new(now);
        self
    }

    /// For tests, which let time pass without waiting: the clock that nobody can set. Default: [`Instant::now`].
    #[doc(hidden)]
    pub fn steady_clock(mut self, now: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        self.steady_clock = Clock::new(now);
        self
    }

    /// The store. Nothing is read or written yet.
    ///
    /// # Errors
    /// [`ExpiryError`] where the idle time or the resolution makes no sense.
    pub fn build(self) -> Result<ExpiringStore<S>, ExpiryError> {
        let rules = Rules::new(self.idle_time, self.resolution, self.pins, self.clock)?;
        let table = Table::new(self.inner, self.steady_clock, rules.resolution());
        Ok(ExpiringStore { table, rules })
    }
}
