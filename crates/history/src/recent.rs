//! [`RecentReads`]: files that were read for an edit, so that the edit needs no second read.

use std::collections::VecDeque;
use std::sync::Mutex;

use memory_tool_core::{StorePath, StoredFile, Version, lock};

/// The number of files to remember.
const FILES: usize = 16;

/// Larger files are read again.
const MAX_BYTES: usize = 1024 * 1024;

#[derive(Debug, Default)]
pub(crate) struct RecentReads(Mutex<VecDeque<(StorePath, StoredFile)>>);

impl RecentReads {
    pub(crate) fn forget(&self) {
        lock(&self.0).clear();
    }

    pub(crate) fn remember(&self, path: &StorePath, file: &StoredFile) {
        if file.content.len() > MAX_BYTES {
            return;
        }
        let mut files = lock(&self.0);
        files.retain(|(known, _)| known != path);
        files.truncate(FILES - 1);
        files.push_front((path.clone(), file.clone()));
    }

    /// The contents of a file at a version.
    pub(crate) fn contents(&self, path: &StorePath, version: &Version) -> Option<Vec<u8>> {
        let files = lock(&self.0);
        let found = files.iter().find(|(known, file)| known == path && file.version == *version);
        found.map(|(_, file)| file.content.clone())
    }
}
