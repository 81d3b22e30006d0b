//! Lists and removes expired files.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use memory_tool_core::{
    Batch, ErrorKind, FileEntry, MAX_ATTEMPTS, Precondition, ReadOptions, Store, StoreError, StorePath,
};
use serde::{Serialize, Serializer};

use super::access_times::AccessTimes;
use super::rules::{ExpiryState, Use};
use super::store::{ExpiringStore, MAX_REMOVED_AT_ONCE, expiring, warn_about_kept_file};
use super::table::{CachedTimes, RecordState};

/// An expired file that a sweep would remove.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ExpiredFile {
    /// The path of the file.
    pub path: StorePath,
    /// The size of the file in bytes.
    pub size: u64,
    /// The recorded time of the last use. The file may have been used later by up to the resolution.
    #[serde(serialize_with = "as_rfc3339")]
    pub last_access: SystemTime,
}

/// The result of a sweep.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SweepReport {
    /// The removed files.
    pub removed: Vec<StorePath>,
    /// The number of files left.
    pub kept: usize,
    /// The number of expired files among those left that were [held back](ExpiringStore::sweep).
    pub held: usize,
}

/// The next step of a sweep.
struct Plan {
    expired: Vec<StorePath>,
    held: usize,
    times: AccessTimes,
}

impl<S: Store> ExpiringStore<S> {
    /// Returns the files that [`sweep`](Self::sweep) would remove now, ordered by path, without changing anything.
    ///
    /// # Errors
    /// Returns the errors of [`sweep`](Self::sweep).
    pub async fn expired(&self) -> Result<Vec<ExpiredFile>, StoreError> {
        let now = self.rules.now();
        let (times, _, files) = self.load_all().await?;
        let expired = |file: FileEntry| {
            let recorded = times.get(&file.path).filter(|time| self.rules.is_expired(&file.path, *time, now))?;
            let last_access = UNIX_EPOCH.checked_add(Duration::from_secs(recorded))?;
            Some(ExpiredFile { path: file.path, last_access, size: file.size })
        };
        let mut expired: Vec<_> = files.into_iter().filter_map(expired).collect();
        expired.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(expired)
    }

    /// Removes expired files.
    ///
    /// # Behavior
    /// 1. Files are removed in batches of 100, each atomically with their access times. After an interrupted sweep, the
    ///    next one continues.
    /// 2. A file that is used or changed during the sweep is not removed.
    /// 3. Files without a recorded time count as used now. Access times of files that other programs removed are
    ///    dropped.
    /// 4. An expired file that cannot be read, for example because it is damaged, is kept and stays invisible. A
    ///    [`tracing`] warning reports it.
    /// 5. If more than half of the files that can expire, and at least two, have expired, the clock may be wrong. They
    ///    are held back: they stay hidden, and a sweep removes them if they are still expired at least the
    ///    [resolution](super::ExpiringStoreBuilder::resolution) later. The time is stored with the access times, so the
    ///    sweeps can be of different programs. [`sweep_all`](Self::sweep_all) removes them at once.
    ///
    /// # Errors
    /// Returns [`StoreError::Failure`] if the storage fails or the access times cannot be read
    /// ([`ErrorKind::Damaged`]), and [`StoreError::VersionMismatch`] if other writers keep changing them. Files
    /// removed before the error stay removed.
    pub async fn sweep(&self) -> Result<SweepReport, StoreError> {
        self.sweep_with(true, Batch::new()).await
    }

    /// [`sweep`](Self::sweep) if a path is in this state when files are removed.
    ///
    /// # Errors
    /// Returns the errors of [`sweep`](Self::sweep), and the error of the precondition.
    pub async fn sweep_if(&self, path: StorePath, required: Precondition) -> Result<SweepReport, StoreError> {
        self.sweep_with(true, Batch::new().require(path, required)).await
    }

    /// Removes expired files even if they are most files. Call it if the clock is known to be right.
    ///
    /// # Errors
    /// Returns the errors of [`sweep`](Self::sweep).
    pub async fn sweep_all(&self) -> Result<SweepReport, StoreError> {
        self.sweep_with(false, Batch::new()).await
    }

    /// `base` has the preconditions of the caller.
    async fn sweep_with(&self, holds: bool, base: Batch) -> Result<SweepReport, StoreError> {
        let mut swept = SweepReport::default();
        let mut kept = BTreeSet::new();
        let mut failed_rounds = 0;
        while failed_rounds < MAX_ATTEMPTS {
            let now = self.rules.now();
            let (times, required, files) = self.load_all().await?;
            let Plan { expired, held, times: mut times_after } = self.plan(&times, &files, &kept, now, holds);
            if expired.is_empty() && times_after == times {
                (swept.kept, swept.held) = (files.len(), held);
                return Ok(swept);
            }
            let (batch, removed) = self.removal(expired, &mut kept).await?;
            removed.iter().for_each(|path| times_after.remove(path));
            let batch = batch.require_all(base.preconditions().iter().cloned());
            match self.table.commit(&required, batch, Some(times_after)).await {
                Ok(true) if removed.is_empty() => failed_rounds += 1, // at most once, unless the store loses records
                Ok(true) => {
                    // A store that does not really remove a file lists it again.
                    kept.extend(removed.iter().cloned());
                    swept.removed.extend(removed);
                }
                Err(StoreError::VersionMismatch { path })
                    if base.preconditions().iter().any(|(required, _)| *required == path) =>
                {
                    return Err(StoreError::VersionMismatch { path });
                }
                Ok(false) | Err(StoreError::VersionMismatch { .. }) => failed_rounds += 1,
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::VersionMismatch { path: StorePath::memories() })
    }

    /// Reads the access times with the precondition for changing them, and then all files.
    async fn load_all(&self) -> Result<(AccessTimes, Precondition, Vec<FileEntry>), StoreError> {
        let CachedTimes { times, state, .. } = self.table.load().await?;
        let required = match state {
            RecordState::Stored(required) => required,
            RecordState::Unreadable(reason) => return Err(unreadable(reason)),
            RecordState::Outdated | RecordState::Written(_) => {
                return Err(unreadable("the access times were not read"));
            }
        };
        let root = self.inner().read_opts(&StorePath::memories(), ReadOptions::new()).await?;
        Ok((AccessTimes::clone(&times), required, root.into_listing().files))
    }

    /// Returns the next expired files except the `kept` ones, and the new access times of all files.
    fn plan(
        &self,
        times: &AccessTimes,
        files: &[FileEntry],
        kept: &BTreeSet<StorePath>,
        now: u64,
        holds: bool,
    ) -> Plan {
        let paths: BTreeSet<_> =
            files.iter().map(|file| &file.path).filter(|path| !self.rules.is_pinned(path)).collect();
        let mut times = times.clone();
        times.retain(|path| paths.contains(path));
        let mut expired = Vec::new();
        for &path in &paths {
            match self.rules.state(path, times.get(path), Use::Listing, now) {
                ExpiryState::Recent => {}
                ExpiryState::NeedsRecording => times.record(path.clone(), now),
                ExpiryState::Expired if kept.contains(path) => {}
                ExpiryState::Expired => expired.push(path.clone()),
            }
        }
        let hold = self.rules.hold(expired.len(), paths.len(), times.held_since, now).filter(|_| holds);
        times.held_since = hold.map(|hold| hold.since);
        let held = if hold.is_some_and(|hold| !hold.is_over) { expired.drain(..).count() } else { 0 };
        expired.truncate(MAX_REMOVED_AT_ONCE);
        Plan { expired, held, times }
    }

    /// Returns a batch that removes the `expired` files, and its paths. Files that cannot be read are added to `kept`.
    async fn removal(
        &self,
        expired: Vec<StorePath>,
        kept: &mut BTreeSet<StorePath>,
    ) -> Result<(Batch, Vec<StorePath>), StoreError> {
        let (mut batch, mut removed) = (Batch::new(), Vec::new());
        for path in expired {
            match self.removing(batch.clone(), &path).await {
                Ok(None) => _ = kept.insert(path), // removed since it was listed
                Ok(Some(removing)) => {
                    batch = removing;
                    removed.push(path);
                }
                Err(error) => {
                    warn_about_kept_file(&error);
                    kept.insert(path);
                }
            }
        }
        Ok((expiring(batch), removed))
    }
}

fn unreadable(reason: &'static str) -> StoreError {
    StoreError::failure(ErrorKind::Damaged, "reading the access times", reason)
}

fn as_rfc3339<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_rfc3339_seconds(*time))
}
