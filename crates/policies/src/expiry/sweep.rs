//! Lists and removes expired files.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use memory_tool_core::{Batch, FailureKind, FileEntry, MemoryPath, Precondition, ReadOptions, Store, StoreError};

use super::access_times::AccessTimes;
use super::rules::{ExpiryState, Use};
use super::store::{ExpiringStore, MAX_ATTEMPTS, MAX_REMOVED_AT_ONCE, tell_of_kept};
use super::table::{Basis, Known};

/// An expired file that is not removed yet.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ExpiredFile {
    /// The file's path.
    pub path: MemoryPath,
    /// When it was last used, as it was recorded: the last use may have been later by up to the resolution.
    pub last_access: SystemTime,
    /// Its size in bytes.
    pub size: u64,
}

/// What a sweep did.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct SweepReport {
    /// The expired files that it removed.
    pub removed: Vec<MemoryPath>,
    /// How many files are left.
    pub kept: usize,
}

impl<S: Store> ExpiringStore<S> {
    /// The files that [`sweep`](Self::sweep) would remove now, in the order of their paths. It changes nothing.
    ///
    /// # Errors
    /// As those of a sweep.
    pub async fn expired(&self) -> Result<Vec<ExpiredFile>, StoreError> {
        let now = self.rules.now();
        let (times, _, files) = self.survey().await?;
        let expired = |file: FileEntry| {
            let recorded = times.get(&file.path).filter(|time| self.rules.is_expired(&file.path, *time, now))?;
            let last_access = UNIX_EPOCH.checked_add(Duration::from_secs(recorded))?;
            Some(ExpiredFile { path: file.path, last_access, size: file.size })
        };
        let mut expired: Vec<_> = files.into_iter().filter_map(expired).collect();
        expired.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(expired)
    }

    /// Removes the files that are expired.
    ///
    /// # Behavior
    /// 1. Files are removed a hundred at a time, each hundred atomically with what is recorded of them. A sweep that is dropped or
    ///    killed leaves what the next one goes on with.
    /// 2. No file is removed that somebody else used or changed in between.
    /// 3. Files of which no time is recorded begin to count, and records of files that other programs removed are dropped.
    /// 4. An expired file that cannot be read, as it is damaged, is kept, and a warning of [`tracing`] tells so. It stays
    ///    invisible.
    ///
    /// # Errors
    /// [`StoreError::Failure`] where the storage fails, and where the access times cannot be read (with
    /// [`FailureKind::Damaged`]); [`StoreError::VersionMismatch`] where others go on changing them. What was removed until then
    /// stays so.
    pub async fn sweep(&self) -> Result<SweepReport, StoreError> {
        let mut swept = SweepReport::default();
        let mut kept = BTreeSet::new();
        let mut rounds_in_vain = 0;
        while rounds_in_vain < MAX_ATTEMPTS {
            let now = self.rules.now();
            let (times, required, files) = self.survey().await?;
            let (expired, mut times_after) = self.plan(&times, &files, &kept, now);
            if expired.is_empty() && times_after == times {
                swept.kept = files.len();
                return Ok(swept);
            }
            let (batch, removed) = self.removal(expired, &mut kept).await?;
            removed.iter().for_each(|path| times_after.remove(path));
            match self.table.commit(&required, batch, Some(times_after)).await {
                Ok(true) if removed.is_empty() => rounds_in_vain += 1, // once, unless the store loses records
                Ok(true) => {
                    kept.extend(removed.iter().cloned()); // one that a store removes in words alone is met again
                    swept.removed.extend(removed);
                }
                Ok(false) | Err(StoreError::VersionMismatch { .. }) => rounds_in_vain += 1,
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::VersionMismatch { path: MemoryPath::root() })
    }

    /// What is recorded, by what state of the table, and the files that are there after that.
    async fn survey(&self) -> Result<(AccessTimes, Precondition, Vec<FileEntry>), StoreError> {
        let Known { times, basis, .. } = self.table.load().await?;
        let required = match basis {
            Basis::Stored(required) => required,
            Basis::Unreadable(reason) => return Err(unreadable(reason)),
            Basis::Outdated | Basis::Written(_) => return Err(unreadable("the access times were not read")),
        };
        let root = self.inner().read_opts(&MemoryPath::root(), ReadOptions::new()).await?;
        Ok((AccessTimes::clone(&times), required, root.into_entries()))
    }

    /// The next expired files, without those to be kept, and what is to be recorded of all files.
    fn plan(
        &self,
        times: &AccessTimes,
        files: &[FileEntry],
        kept: &BTreeSet<MemoryPath>,
        now: u64,
    ) -> (Vec<MemoryPath>, AccessTimes) {
        let paths: BTreeSet<_> = files.iter().map(|file| &file.path).collect();
        let mut times = times.clone();
        times.retain(|path| paths.contains(path) && !self.rules.is_pinned(path));
        let mut expired = Vec::new();
        for path in paths {
            match self.rules.state(path, times.get(path), Use::Listing, now) {
                ExpiryState::Settled => {}
                ExpiryState::Due => times.record(path.clone(), now),
                ExpiryState::Expired if kept.contains(path) || expired.len() == MAX_REMOVED_AT_ONCE => {}
                ExpiryState::Expired => expired.push(path.clone()),
            }
        }
        (expired, times)
    }

    /// The batch that removes `expired`, and what it removes. Those that cannot be read are to be kept.
    async fn removal(
        &self,
        expired: Vec<MemoryPath>,
        kept: &mut BTreeSet<MemoryPath>,
    ) -> Result<(Batch, Vec<MemoryPath>), StoreError> {
        let (mut batch, mut removed) = (Batch::new(), Vec::new());
        for path in expired {
            match self.removing(batch.clone(), &path).await {
                Ok(None) => _ = kept.insert(path), // gone since it was listed, and not to be looked for again
                Ok(Some(removing)) => {
                    batch = removing;
                    removed.push(path);
                }
                Err(error) => {
                    tell_of_kept(&error);
                    kept.insert(path);
                }
            }
        }
        Ok((batch, removed))
    }
}

fn unreadable(reason: &'static str) -> StoreError {
    StoreError::failure(FailureKind::Damaged, "reading the access times", reason)
}
