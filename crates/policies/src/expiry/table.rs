//! [`Table`]: the access times where they are stored, and what this process knows of them.

use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use memory_tool_core::{Batch, Change, Expected, FailureKind, MemoryPath, Node, Store, StoreError, StoredFile};

use super::access_times::AccessTimes;
use super::rules::Clock;

/// The name of the file, right beneath `/memories`, in which an [`ExpiringStore`](crate::ExpiringStore) keeps when files were last
/// used. The store hides it, in upper and lower case; whoever copies a memory without that store finds it there, and leaves it
/// out.
pub const ACCESS_TIMES_NAME: &str = ".access-times";

/// Where the access times are kept. Nobody else reaches it through the store.
#[expect(clippy::expect_used, reason = "the name is a part of the program, and every test reads it")]
static RESERVED: LazyLock<MemoryPath> =
    LazyLock::new(|| MemoryPath::root().child(ACCESS_TIMES_NAME).expect("the name keeps to the rules"));

/// Whether `path` belongs to the access times. Some disks take names for one another that differ in case.
pub(super) fn is_reserved(path: &MemoryPath) -> bool {
    // Asked of each file of a listing.
    path.as_str().split_at_checked(RESERVED.as_str().len()).is_some_and(|(first, rest)| {
        first.eq_ignore_ascii_case(RESERVED.as_str()) && (rest.is_empty() || rest.starts_with('/'))
    })
}

/// Refuses a batch that says anything of a reserved path.
pub(super) fn refuse_reserved(batch: &Batch) -> Result<(), StoreError> {
    match named_paths(batch).find(|path| is_reserved(path)) {
        None => Ok(()),
        Some(path) => {
            let reason = format!(
                "The name {} is reserved: this memory keeps there when its files were last used. Choose another name",
                *RESERVED
            );
            Err(StoreError::Refused { path: path.clone(), reason })
        }
    }
}

/// Every path that the batch requires something of, or changes.
pub(super) fn named_paths(batch: &Batch) -> impl Iterator<Item = &MemoryPath> {
    batch.preconditions().iter().map(|(path, _)| path).chain(changed_paths(batch))
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

/// What is known of the file that the times are stored in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Basis {
    /// It has changed, or may have.
    Outdated,
    /// This process wrote these bytes to it last. Nobody told their version.
    Written(Arc<[u8]>),
    /// This was so when it was last looked at. A batch that requires it fails where it is so no longer.
    Stored(Expected),
    /// It is damaged, of another format, or no file, as is said here. By it nothing is expired, and it is left as it is.
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
    /// [`StoreError::Failure`] where the inner store fails, except for damage and a record that is too large, which are [`Basis::Unreadable`].
    pub(super) async fn load(&self) -> Result<Known, StoreError> {
        let as_of = self.clock.now();
        let read = match self.inner.read(&RESERVED).await {
            Ok(Node::Absent) => Ok(Known { times: Arc::default(), basis: Basis::Stored(Expected::Absent), as_of }),
            Ok(Node::File(file)) => self.parse(file, as_of),
            Ok(Node::Directory) | Err(StoreError::SymbolicLink { .. } | StoreError::NotARegularFile { .. }) => {
                Err("another thing stands in the place of the access times")
            }
            Err(StoreError::Failure { kind: FailureKind::Damaged, .. }) => {
                Err("the inner store holds the access times damaged")
            }
            Err(StoreError::Refused { .. }) => Err("the access times are too large to be read"),
            Err(error) => return Err(error),
        };
        let known = read.unwrap_or_else(|reason| self.unreadable(reason, as_of));
        *self.lock() = known.clone();
        Ok(known)
    }

    fn parse(&self, file: StoredFile, as_of: Instant) -> Result<Known, &'static str> {
        let basis = Basis::Stored(Expected::Version(file.version));
        let known = self.lock().clone();
        let is_known = match &known.basis {
            Basis::Written(bytes) => **bytes == *file.content,
            known => *known == basis,
        };
        if is_known {
            return Ok(Known { times: known.times, basis, as_of });
        }
        Ok(Known { times: Arc::new(AccessTimes::from_bytes(&file.content)?), basis, as_of })
    }

    fn unreadable(&self, reason: &'static str, as_of: Instant) -> Known {
        let basis = Basis::Unreadable(reason);
        if self.lock().basis != basis {
            tracing::warn!(reason, "no file of the memory expires, and no access is recorded");
        }
        Known { times: Arc::default(), basis, as_of }
    }

    /// Applies `batch`, and stores `times` with it where there are any, if that is stored which `required` says. Gives whether
    /// it was so.
    ///
    /// # Errors
    /// Those of the batch. None names the reserved path.
    pub(super) async fn commit(
        &self,
        required: &Expected,
        batch: Batch,
        times: Option<AccessTimes>,
    ) -> Result<bool, StoreError> {
        let empties = batch.changes().iter().any(|change| matches!(change, Change::Remove { path } if path.is_root()));
        let times = times.or_else(|| empties.then(AccessTimes::default));
        let as_of = self.clock.now();
        let after = times.map(|times| Known::after_storing(times, as_of)).transpose()?;
        let batch = requiring(required, batch);
        let batch = match after.as_ref().map(|known| &known.basis) {
            Some(Basis::Written(bytes)) => batch.write(RESERVED.clone(), bytes.to_vec())?,
            // Where there are no times, nothing is left of their file.
            Some(_) if *required != Expected::Absent && !empties => batch.remove(RESERVED.clone())?,
            _ => batch,
        };
        match self.inner.apply(batch).await {
            Ok(()) => {
                if let Some(after) = after {
                    *self.lock() = after;
                }
                Ok(true)
            }
            Err(error) if is_about_table(&error) => {
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
            Basis::Stored(Expected::Absent)
        } else {
            let failure = |error| StoreError::failure(FailureKind::Other, "writing the access times", error);
            Basis::Written(times.to_bytes().map_err(failure)?.into())
        };
        Ok(Self { times: Arc::new(times), basis, as_of })
    }
}

/// Whether a batch failed because what is stored of the access times is not what it required.
fn is_about_table(error: &StoreError) -> bool {
    match error {
        StoreError::VersionMismatch { path }
        | StoreError::AlreadyExists { path }
        | StoreError::SymbolicLink { path }
        | StoreError::NotARegularFile { path } => is_reserved(path),
        _ => false,
    }
}

/// The same batch, which first requires what is stored of the access times: where it is another thing, nothing else is judged.
fn requiring(required: &Expected, batch: Batch) -> Batch {
    let first = (RESERVED.clone(), required.clone());
    let preconditions = std::iter::once(first).chain(batch.preconditions().iter().cloned()).collect();
    batch.with_preconditions(preconditions)
}

/// The same batch, which does not count the access times where it requires that there be room.
pub(super) fn without_access_times(batch: Batch) -> Batch {
    let uncounted = |(path, expected): &(MemoryPath, Expected)| match expected {
        Expected::Capacity(capacity) => (path.clone(), Expected::Capacity(capacity.clone().without(RESERVED.clone()))),
        other => (path.clone(), other.clone()),
    };
    let preconditions = batch.preconditions().iter().map(uncounted).collect();
    batch.with_preconditions(preconditions)
}
