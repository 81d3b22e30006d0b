//! [`InMemoryStore`]: the reference store.

use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use async_trait::async_trait;

use crate::store::batch::Batch;
use crate::store::error::StoreError;
use crate::store::file_size::DEFAULT_MAX_FILE_BYTES;
use crate::store::lock::lock;
use crate::store::node::{FileEntry, Node, Version};
use crate::store::path_map::{PathMap, PathMapEntry};
use crate::store::store_path::StorePath;
use crate::store::{ReadOptions, Store};

/// A store that keeps its files in this process, for tests, examples and short-lived agents.
///
/// Files are lost when the store is dropped. The size limit of a file is [`DEFAULT_MAX_FILE_BYTES`].
#[derive(Debug, Default)]
pub struct InMemoryStore {
    // Batches are planned before they change any file, so a panic leaves the files whole.
    files: Mutex<Files>,
}

#[derive(Debug, Default)]
struct Files {
    by_path: PathMap<File>,
    writes: u64,
}

#[derive(Clone, Debug)]
struct File {
    content: Arc<[u8]>,
    /// The number of the write that created this version. Each write has a different number.
    version: u64,
    created: SystemTime,
    modified: SystemTime,
}

impl InMemoryStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl Store for InMemoryStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        let files = lock(&self.files);
        options.check(&files.by_path)?;
        Ok(files.by_path.node(path, File::content))
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        batch.check_file_sizes(DEFAULT_MAX_FILE_BYTES)?;
        let mut files = lock(&self.files);
        let Files { by_path, writes } = &mut *files;
        let now = SystemTime::now();
        batch.check(by_path)?;
        let edits = by_path.plan(&batch, |number, content, replaced| {
            *writes += 1;
            let times = batch.times(number);
            let modified = times.modified.unwrap_or(now);
            let created = times.created.or(replaced.map(|file| file.created)).unwrap_or(modified).min(modified);
            Ok::<_, StoreError>(File { content: content.into(), version: *writes, created, modified })
        })?;
        by_path.edit(edits);
        Ok(())
    }
}

impl File {
    fn content(&self) -> Vec<u8> {
        self.content.to_vec()
    }
}

impl PathMapEntry for File {
    fn version(&self) -> Version {
        Version::new(self.version.to_be_bytes())
    }

    fn to_entry(&self, path: &StorePath) -> FileEntry {
        FileEntry::new(path.clone(), self.content.len() as u64).with_created(self.created).with_modified(self.modified)
    }
}
