//! [`Table`]: the stored access times and a cache of them.

use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use memory_tool_core::{
    Batch, Change, ErrorKind, Node, Precondition, ReadOptions, Store, StoreError, StorePath, StoredFile, lock,
};

use super::access_times::AccessTimes;
use super::rules::Clock;

#[expect(clippy::expect_used, reason = "the name is a constant, and every test reads it")]
static RECORD: LazyLock<StorePath> =
    LazyLock::new(|| "/records/expiry/access-times".parse().expect("the path is valid"));

/// Returns the paths of files in the preconditions and changes of a batch.
pub(super) fn named_paths(batch: &Batch) -> impl Iterator<Item = &StorePath> {
    let required = batch.preconditions().iter().map(|(path, _)| path);
    required.filter(|path| !path.is_record()).chain(changed_paths(batch))
}

/// Returns the paths of files that a batch changes.
pub(super) fn changed_paths(batch: &Batch) -> impl Iterator<Item = &StorePath> {
    batch.changes().iter().filter(|change| !change.is_of_record()).flat_map(Change::paths)
}

/// Whether a batch removes the record, or a directory above it. Any other change of it is not by this policy either.
fn changes_record(batch: &Batch) -> bool {
    batch.changes().iter().flat_map(Change::paths).any(|path| path.overlaps(&RECORD))
}

/// Access times that this process has read or written.
///
/// They may be older than the stored ones by up to the resolution. This is enough to decide that a file is not expired:
/// a recorded time becomes earlier only if the clock was set back and the file was removed and recreated since. All
/// other decisions need the stored times.
#[derive(Clone, Debug)]
pub(super) struct CachedTimes {
    pub(super) times: Arc<AccessTimes>,
    pub(super) state: RecordState,
    /// The time just before the times were read or written.
    read_at: Instant,
}

/// The relation of cached times to the stored record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum RecordState {
    /// The record has changed, or may have changed.
    Outdated,
    /// This process last wrote these bytes. Their version is unknown.
    Written(Arc<[u8]>),
    /// The precondition that was true when the record was last read. A batch can require it.
    Stored(Precondition),
    /// The record is damaged or has another format, with the reason. Nothing expires, and the record is not changed.
    Unreadable(&'static str),
}

/// The stored access times, with a cache.
#[derive(Debug)]
pub(super) struct Table<S> {
    inner: S,
    /// A monotonic clock, unlike the clock for access times.
    clock: Clock<Instant>,
    trusted_for: Duration,
    // Changed by single assignments.
    cached: Mutex<CachedTimes>,
}

impl<S: Store> Table<S> {
    /// Creates a table for the access times in `inner`, which are cached for `trusted_for`.
    pub(super) fn new(inner: S, clock: Clock<Instant>, trusted_for: Duration) -> Self {
        let cached = Mutex::new(CachedTimes::empty(clock.now()));
        Self { inner, clock, trusted_for, cached }
    }

    pub(super) fn inner(&self) -> &S {
        &self.inner
    }

    /// Returns the cached times, which are empty if they are too old.
    pub(super) fn cached(&self) -> CachedTimes {
        let (cached, now) = (lock(&self.cached).clone(), self.clock.now());
        let is_trusted = now.saturating_duration_since(cached.read_at) < self.trusted_for;
        if is_trusted { cached } else { CachedTimes::empty(now) }
    }

    /// Returns the cached times if they match a version of the record, and otherwise loads them.
    pub(super) async fn stored(&self) -> Result<CachedTimes, StoreError> {
        let cached = self.cached();
        if let RecordState::Stored(_) = cached.state { Ok(cached) } else { self.load().await }
    }

    /// Loads the stored times.
    ///
    /// # Errors
    /// Returns [`StoreError::Failure`] if the inner store fails. A damaged or oversized record is
    /// [`RecordState::Unreadable`] instead.
    pub(super) async fn load(&self) -> Result<CachedTimes, StoreError> {
        let read_at = self.clock.now();
        let read = match self.inner.read_opts(&RECORD, ReadOptions::new()).await {
            Ok(Node::Absent) => {
                Ok(CachedTimes { times: Arc::default(), state: RecordState::Stored(Precondition::Absent), read_at })
            }
            Ok(Node::File(record)) => self.parse(record, read_at),
            Ok(Node::Directory(_))
            | Err(
                StoreError::NotADirectory { .. } | StoreError::SymbolicLink { .. } | StoreError::NotARegularFile { .. },
            ) => Err("the access times are not in a regular file"),
            Err(StoreError::Failure { kind: ErrorKind::Damaged, .. }) => {
                Err("the inner store reports that the access times are damaged")
            }
            Err(StoreError::Failure { kind: ErrorKind::Full, .. }) => Err("the access times are too large to be read"),
            Err(error) => return Err(error),
        };
        let cached = read.unwrap_or_else(|reason| self.unreadable(reason, read_at));
        *lock(&self.cached) = cached.clone();
        Ok(cached)
    }

    /// Removes the record, even if it is damaged.
    pub(super) async fn reset(&self) -> Result<(), StoreError> {
        match self.inner.apply(self.with_removal(Batch::new())).await {
            Err(StoreError::NotFound { .. }) => Ok(()),
            removed => removed,
        }
    }

    /// Adds the removal of the record, which must exist, to a batch that does not remove it itself.
    pub(super) fn with_removal(&self, batch: Batch) -> Batch {
        self.mark_outdated();
        if changes_record(&batch) { batch } else { batch.remove(&*RECORD) }
    }

    fn parse(&self, record: StoredFile, read_at: Instant) -> Result<CachedTimes, &'static str> {
        let state = RecordState::Stored(Precondition::Version(record.version));
        let cached = lock(&self.cached).clone();
        let is_cached = match &cached.state {
            RecordState::Written(bytes) => **bytes == *record.content,
            cached => *cached == state,
        };
        if is_cached {
            return Ok(CachedTimes { times: cached.times, state, read_at });
        }
        Ok(CachedTimes { times: Arc::new(AccessTimes::from_bytes(&record.content)?), state, read_at })
    }

    fn unreadable(&self, reason: &'static str, read_at: Instant) -> CachedTimes {
        let state = RecordState::Unreadable(reason);
        if lock(&self.cached).state != state {
            tracing::warn!(reason, "access times cannot be read: no file expires and no access is recorded");
        }
        CachedTimes { times: Arc::default(), state, read_at }
    }

    /// Applies `batch` and stores `times`, if any, provided that the record meets the precondition `required`. Returns
    /// whether it did. A batch that changes the record itself stores no times.
    ///
    /// # Errors
    /// Returns the errors of the batch, which do not mention the record.
    pub(super) async fn commit(
        &self,
        required: &Precondition,
        batch: Batch,
        times: Option<AccessTimes>,
    ) -> Result<bool, StoreError> {
        let read_at = self.clock.now();
        let is_changed = changes_record(&batch);
        let after =
            times.filter(|_| !is_changed).map(|times| CachedTimes::after_storing(times, read_at)).transpose()?;
        let batch = batch.require(&*RECORD, required.clone());
        let batch = match after.as_ref().map(|cached| &cached.state) {
            Some(RecordState::Written(bytes)) => batch.write(&*RECORD, bytes.to_vec()),
            Some(_) if *required != Precondition::Absent => batch.remove(&*RECORD),
            _ => batch,
        };
        match self.inner.apply(batch).await {
            Ok(()) => {
                match after {
                    Some(after) => *lock(&self.cached) = after,
                    None if is_changed => self.mark_outdated(),
                    None => {}
                }
                Ok(true)
            }
            Err(StoreError::VersionMismatch { path } | StoreError::AlreadyExists { path }) if path == *RECORD => {
                self.mark_outdated();
                Ok(false)
            }
            Err(error) => {
                if let StoreError::Failure { .. } = error {
                    self.mark_outdated(); // it may have been stored
                }
                Err(error)
            }
        }
    }

    fn mark_outdated(&self) {
        lock(&self.cached).state = RecordState::Outdated;
    }
}

impl CachedTimes {
    fn empty(read_at: Instant) -> Self {
        Self { times: Arc::default(), state: RecordState::Outdated, read_at }
    }

    /// Returns the cache entry for `times` after they are stored.
    fn after_storing(times: AccessTimes, read_at: Instant) -> Result<Self, StoreError> {
        let state = if times.is_empty() {
            RecordState::Stored(Precondition::Absent)
        } else {
            let failure = |error| StoreError::failure(ErrorKind::Other, "writing the access times", error);
            RecordState::Written(times.to_bytes().map_err(failure)?.into())
        };
        Ok(Self { times: Arc::new(times), state, read_at })
    }
}
