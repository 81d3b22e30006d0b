//! [`RecentFiles`]: the last known files of a memory, which save an edit the read.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use memory_tool_core::{Batch, Change, Node, StorePath, StoredFile, lock};

use crate::files::version;

/// The most bytes of the files together, with 200 for each. A process can have many memories.
const MAX_BYTES: usize = 1 << 16;
const BYTES_OF_FILE: usize = 200;

/// Files that this process wrote after the last result of another kind, and the one that it read last.
///
/// So none of them is older than an earlier result of the store. They can be outdated, because other processes write
/// too.
#[derive(Default)]
pub(crate) struct RecentFiles(Mutex<Known>);

#[derive(Default)]
struct Known {
    files: BTreeMap<StorePath, StoredFile>,
    bytes: usize,
    /// The number of results so far.
    results: u64,
}

impl fmt::Debug for RecentFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecentFiles").finish_non_exhaustive()
    }
}

impl RecentFiles {
    pub(crate) fn get(&self, path: &StorePath) -> Option<StoredFile> {
        lock(&self.0).files.get(path).cloned()
    }

    /// The number of results so far, for [`add_read`](Self::add_read).
    pub(crate) fn results(&self) -> u64 {
        lock(&self.0).results
    }

    /// Adds the result of a read that began after this number of results. A result that came since can be newer.
    pub(crate) fn add_read(&self, results: u64, path: &StorePath, node: &Node) {
        let mut known = lock(&self.0);
        let is_newest = known.results == results;
        known.clear();
        if let Node::File(file) = node
            && is_newest
            && file.content.len() < MAX_BYTES
        {
            known.add(path.clone(), file.clone());
        }
    }

    /// Adds the files that a batch wrote. Batches of one memory must be added in their order.
    pub(crate) fn add_applied(&self, batch: Batch, first_version: u128) {
        let mut known = lock(&self.0);
        known.results += 1;
        let mut number = 0;
        for change in batch.into_changes() {
            match change {
                Change::Write { path, content, .. } => {
                    known.add(path, StoredFile::new(Arc::unwrap_or_clone(content), version(first_version, number)));
                    number += 1;
                }
                Change::Remove { .. } | Change::Rename { .. } => known.clear(),
            }
        }
    }

    pub(crate) fn clear(&self) {
        lock(&self.0).clear();
    }
}

impl Known {
    fn clear(&mut self) {
        self.files.clear();
        (self.bytes, self.results) = (0, self.results + 1);
    }

    /// Adds a file. Forgets the others, or a large file, if there are too many bytes.
    fn add(&mut self, path: StorePath, file: StoredFile) {
        let size = file.content.len() + BYTES_OF_FILE;
        if let Some(old) = self.files.remove(&path) {
            self.bytes -= old.content.len() + BYTES_OF_FILE;
        }
        if self.bytes + size > MAX_BYTES {
            self.clear();
        }
        if size <= MAX_BYTES {
            self.bytes += size;
            self.files.insert(path, file);
        }
    }
}
