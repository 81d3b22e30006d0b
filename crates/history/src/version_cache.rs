//! [`VersionCache`]: the versions of all files, in this process.

use std::sync::{Arc, Mutex};

use memory_tool_core::{Batch, ReadOptions, Store, StoreError, StorePath, lock};

use crate::hex::Id;
use crate::log::Log;
use crate::tip::{KnownEnd, Tip};
use crate::versions::Versions;

/// The [versions](Versions) of all files of a memory, kept between requests. [`History::refresh`] brings them up to
/// date.
///
/// [`History::refresh`]: crate::History::refresh
#[derive(Debug, Default)]
pub struct VersionCache(Mutex<Option<Cached>>);

#[derive(Debug)]
struct Cached {
    /// The oldest entry of the log.
    first: u64,
    versions: Versions,
}

/// The end of a log at some moment, which a batch or a read can require.
#[derive(Clone, Debug)]
pub struct LogEnd(Arc<Tip>);

impl LogEnd {
    /// The number of the newest entry, or 0.
    pub fn number(&self) -> u64 {
        self.0.newest()
    }

    /// The identity of the history. Zeros without a history.
    pub fn history(&self) -> Id {
        self.0.head.id
    }

    /// The identity of the newest entry, or of a history without entries.
    pub fn id(&self) -> Id {
        self.0.last_id()
    }

    /// Whether there is a history, perhaps without entries.
    pub fn has_history(&self) -> bool {
        self.0.has_history()
    }

    /// Requires that this is still the end when the batch is applied. Otherwise it fails with
    /// [`StoreError::VersionMismatch`] or [`StoreError::AlreadyExists`] of a record.
    pub fn require(&self, batch: Batch) -> Batch {
        self.0.require(batch)
    }

    /// Requires that this is still the end when the read ends. Otherwise it fails with
    /// [`StoreError::VersionMismatch`] or [`StoreError::AlreadyExists`] of a record.
    pub fn require_in_read(&self) -> ReadOptions {
        self.0.require_in_read()
    }
}

impl VersionCache {
    /// Uses the versions at an end of the log. `None` if they are of another one, after a later refresh.
    pub fn at<T>(&self, end: &LogEnd, use_it: impl FnOnce(&Versions) -> T) -> Option<T> {
        let cached = lock(&self.0);
        let cached = cached.as_ref().filter(|cached| cached.is_at(&end.0))?;
        Some(use_it(&cached.versions))
    }

    pub(crate) async fn refresh<S: Store>(&self, log: &Log<S>, observes: bool) -> Result<LogEnd, StoreError> {
        let mut attempts = log.attempts();
        loop {
            let tip = log.load().await?;
            match self.refresh_at(log, &tip, observes).await {
                Err(error) => attempts.again(&tip, error)?,
                Ok(true) => return Ok(LogEnd(tip)),
                Ok(false) => attempts.count()?,
            }
        }
    }

    /// Returns whether the versions are now at this end.
    async fn refresh_at<S: Store>(&self, log: &Log<S>, tip: &Arc<Tip>, observes: bool) -> Result<bool, StoreError> {
        let files = if observes {
            let options = tip.require_in_read();
            Some(log.store.read_opts(&StorePath::memories(), options).await?.into_listing().files)
        } else {
            None
        };
        let known = lock(&self.0).as_ref().map(Cached::end);
        if let Some(known) = known
            && let Some(new) = log.since(tip, known).await?
        {
            let mut cached = lock(&self.0);
            if let Some(cached) = cached.as_mut().filter(|cached| cached.versions.last == (known.number, known.id)) {
                new.iter().for_each(|entry| cached.versions.add(entry));
                files.iter().for_each(|files| cached.versions.observe(files));
                return Ok(true);
            }
            return Ok(cached.as_ref().is_some_and(|cached| cached.is_at(tip)));
        }
        let versions = log.versions(tip).await?;
        *lock(&self.0) = Some(Cached { first: tip.head.first, versions });
        Ok(true)
    }
}

impl Cached {
    fn end(&self) -> KnownEnd {
        let (number, id) = self.versions.last;
        KnownEnd { history: self.versions.history, first: self.first, number, id }
    }

    fn is_at(&self, tip: &Tip) -> bool {
        self.versions.history == tip.head.id && self.versions.last == (tip.newest(), tip.last_id())
    }
}
