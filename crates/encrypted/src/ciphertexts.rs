//! [`Ciphertexts`]: the ciphertexts that the inner store lists, and what they say of the sizes and times of files.

use std::collections::BTreeMap;

use memory_tool_core::{FileEntry, MemoryPath};

use crate::header::OVERHEAD_BYTES;
use crate::id::Id;
use crate::index::FileRecord;
use crate::stored::id_of;

/// The ciphertexts that the inner store lists.
#[derive(Debug, Default)]
pub(crate) struct Ciphertexts(BTreeMap<Id, FileEntry>);

impl Ciphertexts {
    /// The ciphertexts among the files of the inner store.
    pub(crate) fn among(stored: Vec<FileEntry>) -> Self {
        Self(stored.into_iter().filter_map(|file| Some((id_of(&file.path)?, file))).collect())
    }

    /// The size of a file in bytes. One whose ciphertext is gone or too short has 0: so it can be listed, and removed.
    pub(crate) fn size_of(&self, file: &FileRecord) -> u64 {
        file.size.or_else(|| self.sealed_bytes(file)).unwrap_or(0)
    }

    /// The entry of a listing for a file. It was modified when its ciphertext was; when it was created, nothing says.
    pub(crate) fn entry(&self, path: &MemoryPath, file: &FileRecord, is_damaged: bool) -> FileEntry {
        let size = self.size_of(file);
        let entry = if is_damaged || !self.may_be_whole(file) {
            FileEntry::damaged(path.clone(), size)
        } else {
            FileEntry::new(path.clone(), size)
        };
        entry.with_modified(self.0.get(&file.id).and_then(|ciphertext| ciphertext.modified))
    }

    /// Whether the ciphertext is there, and long enough for what the index says of it.
    fn may_be_whole(&self, file: &FileRecord) -> bool {
        // What is padded has at least one byte more.
        self.sealed_bytes(file).is_some_and(|sealed| file.size.is_none_or(|size| sealed > size))
    }

    /// The length of what is encrypted, with its padding.
    fn sealed_bytes(&self, file: &FileRecord) -> Option<u64> {
        self.0.get(&file.id)?.size.checked_sub(OVERHEAD_BYTES as u64)
    }
}
