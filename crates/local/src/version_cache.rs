//! [`VersionCache`]: the versions of files that were read, which spares most edits a second read.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use memory_tool_core::{MemoryPath, Version};

use crate::disk::FileStamp;

/// The maximum number of files.
const MAX_FILES: usize = 1_000;

/// A version is valid as long as the file has the same stamp. Only stamps that the next change replaces are kept.
#[derive(Debug, Default)]
pub(crate) struct VersionCache(Mutex<HashMap<MemoryPath, (FileStamp, Version)>>);

impl VersionCache {
    /// The version of a file with this stamp.
    pub(crate) fn get(&self, path: &MemoryPath, stamp: &FileStamp) -> Option<Version> {
        let files = self.files();
        let (found, version) = files.get(path)?;
        (found == stamp).then(|| version.clone())
    }

    /// The stamp of a file when it had this version.
    pub(crate) fn stamp(&self, path: &MemoryPath, version: &Version) -> Option<FileStamp> {
        let files = self.files();
        let (stamp, found) = files.get(path)?;
        (found == version).then(|| stamp.clone())
    }

    /// Forgets the version of a file that changes.
    pub(crate) fn forget(&self, path: &MemoryPath) {
        self.files().remove(path);
    }

    /// Notes the version of a file that had this stamp at `now`, before it was read.
    pub(crate) fn note(&self, path: &MemoryPath, stamp: FileStamp, now: SystemTime, version: Version) {
        if !stamp.is_settled(now) {
            return;
        }
        let mut files = self.files();
        if files.len() >= MAX_FILES {
            files.clear();
        }
        files.insert(path.clone(), (stamp, version));
    }

    fn files(&self) -> MutexGuard<'_, HashMap<MemoryPath, (FileStamp, Version)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
