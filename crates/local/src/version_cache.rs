//! [`VersionCache`]: the versions of files that were read, which spares most edits a second read.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::SystemTime;

use memory_tool_core::{StorePath, Version, lock};

use crate::disk::FileStamp;

const MAX_FILES: usize = 1_000;

/// A version is valid as long as the file has the same stamp, provided that the next change replaces that stamp.
#[derive(Debug, Default)]
pub(crate) struct VersionCache(Mutex<HashMap<StorePath, CachedVersion>>);

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
        let files = lock(&self.0);
        let found = files.get(path).filter(|found| found.is_settled && found.stamp == *stamp)?;
        Some(found.version.clone())
    }

    /// The stamp of a file when it had this version, if no other version was read later.
    pub(crate) fn stamp(&self, path: &StorePath, version: &Version) -> Option<FileStamp> {
        let files = lock(&self.0);
        let found = files.get(path).filter(|found| found.version == *version)?;
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
        if files.len() >= MAX_FILES {
            files.clear();
        }
        files.insert(path.clone(), CachedVersion { stamp, is_settled, version });
    }
}
