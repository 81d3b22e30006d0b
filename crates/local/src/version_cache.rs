//! [`VersionCache`]: the versions of files that were read, which spares most edits a second read.

use std::collections::HashMap;
use std::mem;
use std::sync::Mutex;
use std::time::SystemTime;

use memory_tool_core::{StorePath, Version, lock};

use crate::disk::FileStamp;

/// The number of files in each generation.
const MAX_FILES: usize = 500;

/// A version is valid as long as the file has the same stamp, provided that the next change replaces that stamp.
///
/// A file is forgotten if the versions of [`MAX_FILES`] others were needed since.
#[derive(Debug, Default)]
pub(crate) struct VersionCache(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    recent: HashMap<StorePath, CachedVersion>,
    older: HashMap<StorePath, CachedVersion>,
}

#[derive(Debug)]
struct CachedVersion {
    stamp: FileStamp,
    /// Whether each later change replaces the stamp.
    is_settled: bool,
    version: Version,
}

impl VersionCache {
    /// The version of a file with this stamp.
    pub(crate) fn get(&self, path: &StorePath, stamp: &FileStamp) -> Option<Version> {
        let mut files = lock(&self.0);
        let found = files.find(path).filter(|found| found.is_settled && found.stamp == *stamp)?;
        Some(found.version.clone())
    }

    /// The stamp of a file when it had this version, if no other version was read later.
    pub(crate) fn stamp(&self, path: &StorePath, version: &Version) -> Option<FileStamp> {
        let mut files = lock(&self.0);
        let found = files.find(path).filter(|found| found.version == *version)?;
        Some(found.stamp.clone())
    }

    /// Forgets the version of a file that changes.
    pub(crate) fn forget(&self, path: &StorePath) {
        lock(&self.0).remove(path);
    }

    /// Notes the version of a file that had this stamp at `now`, before it was read.
    pub(crate) fn note(&self, path: &StorePath, stamp: FileStamp, now: SystemTime, version: Version) {
        let is_settled = stamp.is_settled(now);
        let mut files = lock(&self.0);
        files.remove(path);
        files.insert(path.clone(), CachedVersion { stamp, is_settled, version });
    }
}

impl Generations {
    fn find(&mut self, path: &StorePath) -> Option<&CachedVersion> {
        if let Some((path, found)) = self.older.remove_entry(path) {
            self.insert(path, found);
        }
        self.recent.get(path)
    }

    fn insert(&mut self, path: StorePath, version: CachedVersion) {
        if self.recent.len() >= MAX_FILES {
            self.older = mem::take(&mut self.recent);
        }
        self.recent.insert(path, version);
    }

    fn remove(&mut self, path: &StorePath) {
        self.recent.remove(path);
        self.older.remove(path);
    }
}
