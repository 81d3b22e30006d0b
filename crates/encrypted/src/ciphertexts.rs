//! [`Ciphertexts`]: a listing of ciphertexts, which gives the sizes and times of files.

use std::collections::BTreeMap;

use memory_tool_core::{FileEntry, StorePath};

use crate::header::OVERHEAD_BYTES;
use crate::id::Id;
use crate::index::FileRecord;
use crate::stored_object::id_of;

/// A listing of the ciphertexts in the inner store.
#[derive(Debug, Default)]
pub(crate) struct Ciphertexts(BTreeMap<Id, FileEntry>);

impl Ciphertexts {
    /// Selects the ciphertexts among the files of the inner store.
    pub(crate) fn among(stored: Vec<FileEntry>) -> Self {
        Self(stored.into_iter().filter_map(|file| Some((id_of(&file.path)?, file))).collect())
    }

    /// The size of a file in bytes. It is 0 if the ciphertext is missing or too short, so that the file can be listed
    /// and removed.
    pub(crate) fn size_of(&self, file: &FileRecord) -> u64 {
        file.size.or_else(|| self.sealed_bytes(file)).unwrap_or(0)
    }

    /// The list entry for a file, with the times of its ciphertext, whose path a write keeps.
    pub(crate) fn entry(&self, path: &StorePath, file: &FileRecord, is_damaged: bool) -> FileEntry {
        let size = self.size_of(file);
        let entry = if is_damaged || !self.may_be_whole(file) {
            FileEntry::damaged(path.clone(), size)
        } else {
            FileEntry::new(path.clone(), size)
        };
        match self.0.get(&file.id) {
            Some(ciphertext) => entry.with_created(ciphertext.created).with_modified(ciphertext.modified),
            None => entry,
        }
    }

    /// Whether the ciphertext exists and is long enough for the size in the index.
    fn may_be_whole(&self, file: &FileRecord) -> bool {
        // Padding adds at least one byte.
        self.sealed_bytes(file).is_some_and(|sealed| file.size.is_none_or(|size| sealed > size))
    }

    /// The length of the plaintext, including its padding.
    fn sealed_bytes(&self, file: &FileRecord) -> Option<u64> {
        self.0.get(&file.id)?.size.checked_sub(OVERHEAD_BYTES as u64)
    }
}
