//! [`Table`]: the access times where they are stored, and what this process knows of them.

use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use memory_tool_core::{
    Batch, Change, FailureKind, MemoryPath, Precondition, RecordName, Store, StoreError, StoredFile,
};

use super::access_times::AccessTimes;
use super::rules::Clock;

/// The record that holds the access times.
#[expect(clippy::expect_used, reason = "the name is a part of the program, and every test reads it")]
static RECORD: LazyLock<RecordName> =
    LazyLock::new(|| "expiry/access-times".parse().expect("the name keeps to the rules"));

/// Every path that the batch requires something of, limits or changes.
pub(super) fn named_paths(batch: &Batch) -> impl Iterator<Item = &MemoryPath> {
    let required = batch.preconditions().iter().map(|(path, _)| path);
    let limited = batch.quotas().iter().map(|(directory, _)| directory);
    required.chain(limited).chain(changed_paths(batch))
}

/// The paths that a batch changes.
pub(super) fn changed_paths(batch: &Batch) -> impl Iterator<Item = &MemoryPath> {
    let changed = batch.changes().iter().flat_map(|change| match change {
        Change::Write { path, .. } | Change::Remove { path } => [Some(path), None],
        Change::Rename { from, to } => [Some(from), Some(to)],
    });
    changed.flatten()
}

/// What is known of the access times.
///
/// A recorded time becomes earlier only if the clock went back and the file was removed and created again. So a file that is not
/// expired by what was stored within the last resolution is not expired now: in the worst case it was created since then. For
/// everything else this must be what is stored.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) times: Arc<AccessTimes>,
    pub(super) basis: Basis,
    /// When the times were stored, or earlier.
    as_of: Instant,
}

/// What is known of the record that the times are stored in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Basis {
    /// It has changed, or may have.
    Outdated,
    /// This process wrote these bytes to it last. Their version is not known.
    Written(Arc<[u8]>),
    /// This held when it was last read. A batch that requires it fails if it no longer holds.
    Stored(Precondition),
    /// It is damaged or of another format, for this reason. By it nothing is expired, and it is left as it is.
    Unreadable(&'static str),
}

/// The access times in the store that they are about.
#[derive(Debug)]
pub(super) struct Table<S> {
    inner: S,
    /// Not the clock of the access times: that one may go back.
    clock: Clock<Instant>,
    trusted_for: Duration,
    known: Mutex<Known>,
}

impl<S: Store> Table<S> {
    /// The access times in `inner`. What this process knows of them is trusted for that long.
    pub(super) fn new(inner: S, clock: Clock<Instant>, trusted_for: Duration) -> Self {
        let known = Mutex::new(Known::nothing(clock.now()));
        Self { inner, clock, trusted_for, known }
    }

    pub(super) fn inner(&self) -> &S {
        &self.inner
    }

    /// What this process knows without a read: nothing, if its last one is too long ago.
    pub(super) fn known(&self) -> Known {
        let (known, now) = (self.lock().clone(), self.clock.now());
        let is_trusted = now.saturating_duration_since(known.as_of) < self.trusted_for;
        if is_trusted { known } else { Known::nothing(now) }
    }

    /// What was stored when this process last looked, or now where it has changed since as far as this process knows.
    pub(super) async fn stored(&self) -> Result<Known, StoreError> {
        let known = self.known();
        if let Basis::Stored(_) = known.basis { Ok(known) } else { self.load().await }
    }

    /// What is stored now.
    ///
    /// # Errors
    /// [`StoreError::Failure`] if the inner store fails, except for a damaged record and one that is too large, which are
    /// [`Basis::Unreadable`].
    pub(super) async fn load(&self) -> Result<Known, StoreError> {
        let as_of = self.clock.now();
        let read = match self.inner.read_record(&RECORD).await {
            Ok(None) => Ok(Known { times: Arc::default(), basis: Basis::Stored(Precondition::Absent), as_of }),
            Ok(Some(record)) => self.parse(record, as_of),
            Err(StoreError::Failure { kind: FailureKind::Damaged, .. }) => {
                Err("the inner store reports that the access times are damaged")
            }
            Err(StoreError::Failure { kind: FailureKind::Full, .. }) => {
                Err("the access times are too large to be read")
            }
            Err(error) => return Err(error),
        };
        let known = read.unwrap_or_else(|reason| self.unreadable(reason, as_of));
        *self.lock() = known.clone();
        Ok(known)
    }

    /// Removes the record, also a damaged one.
    pub(super) async fn reset(&self) -> Result<(), StoreError> {
        self.inner.apply(self.forgetting(Batch::new())).await
    }

    /// The same batch, which also removes the record.
    pub(super) fn forgetting(&self, batch: Batch) -> Batch {
        self.outdate();
        batch.remove_record(RECORD.clone())
    }

    fn parse(&self, record: StoredFile, as_of: Instant) -> Result<Known, &'static str> {
        let basis = Basis::Stored(Precondition::Version(record.version));
        let known = self.lock().clone();
        let is_known = match &known.basis {
            Basis::Written(bytes) => **bytes == *record.content,
            known => *known == basis,
        };
        if is_known {
            return Ok(Known { times: known.times, basis, as_of });
        }
        Ok(Known { times: Arc::new(AccessTimes::from_bytes(&record.content)?), basis, as_of })
    }

    fn unreadable(&self, reason: &'static str, as_of: Instant) -> Known {
        let basis = Basis::Unreadable(reason);
        if self.lock().basis != basis {
            tracing::warn!(reason, "access times cannot be read: no file expires and no access is recorded");
        }
        Known { times: Arc::default(), basis, as_of }
    }

    /// Applies `batch`, and stores `times` with it if there are any, provided that the stored access times are those `required`.
    /// Returns whether they were.
    ///
    /// # Errors
    /// Those of the batch. None names the record.
    pub(super) async fn commit(
        &self,
        required: &Precondition,
        batch: Batch,
        times: Option<AccessTimes>,
    ) -> Result<bool, StoreError> {
        let as_of = self.clock.now();
        let after = times.map(|times| Known::after_storing(times, as_of)).transpose()?;
        let batch = batch.require_record(RECORD.clone(), required.clone());
        let batch = match after.as_ref().map(|known| &known.basis) {
            Some(Basis::Written(bytes)) => batch.write_record(RECORD.clone(), bytes.to_vec()),
            Some(_) => batch.remove_record(RECORD.clone()),
            None => batch,
        };
        match self.inner.apply(batch).await {
            Ok(()) => {
                if let Some(after) = after {
                    *self.lock() = after;
                }
                Ok(true)
            }
            Err(StoreError::RecordMismatch { name }) if name == *RECORD => {
                self.outdate();
                Ok(false)
            }
            Err(error) => {
                if let StoreError::Failure { .. } = error {
                    self.outdate(); // it may have been stored
                }
                Err(error)
            }
        }
    }

    fn outdate(&self) {
        self.lock().basis = Basis::Outdated;
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // Each holder changes it by one assignment.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn nothing(as_of: Instant) -> Self {
        Self { times: Arc::default(), basis: Basis::Outdated, as_of }
    }

    /// What is known once `times` are stored.
    fn after_storing(times: AccessTimes, as_of: Instant) -> Result<Self, StoreError> {
        let basis = if times.is_empty() {
            Basis::Stored(Precondition::Absent)
        } else {
            let failure = |error| StoreError::failure(FailureKind::Other, "writing the access times", error);
            Basis::Written(times.to_bytes().map_err(failure)?.into())
        };
        Ok(Self { times: Arc::new(times), basis, as_of })
    }
}
