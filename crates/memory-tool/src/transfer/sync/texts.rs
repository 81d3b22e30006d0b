//! Earlier texts of files, for merges: from the history of a memory, or else from records.

use std::collections::{BTreeMap, BTreeSet};

use memory_tool_core::{Node, ReadOptions, StoreError, StorePath};
use memory_tool_history::{Digest, EntryRef, FileChange, Hash, Id, LogFilter};

use crate::transfer::sync::side::{Side, View};
use crate::transfer::sync::table::{Base, NotedFile, Table, pack, record_of_texts, unpack};

/// The longest text that a record keeps. Longer ones are rarely merged.
const MAX_TEXT_BYTES: usize = 256 * 1024;

/// The entries of the history that are searched for an earlier text.
const MAX_ENTRIES: usize = 500;

/// More records than this are put together.
const MAX_RECORDS: usize = 8;

/// The texts of a new record by their digests.
#[derive(Debug)]
pub(super) struct Texts {
    pub(super) id: Id,
    texts: BTreeMap<Hash, String>,
    pub(super) bytes: usize,
}

impl Texts {
    pub(super) fn new() -> Result<Self, StoreError> {
        Ok(Self { id: Id::random()?, texts: BTreeMap::new(), bytes: 0 })
    }

    /// Adds contents. Returns the record, unless they are not kept.
    pub(super) fn add(&mut self, digest: Digest, content: &[u8]) -> Option<Id> {
        let text = std::str::from_utf8(content).ok().filter(|text| text.len() <= MAX_TEXT_BYTES)?;
        self.bytes += text.len();
        self.texts.insert(digest.sha256, text.to_owned());
        Some(self.id)
    }

    /// The identity of the record, unless it is empty.
    pub(super) fn record(&self) -> Option<Id> {
        (!self.texts.is_empty()).then_some(self.id)
    }

    /// The record, unless it is empty.
    pub(super) fn to_record(&self) -> Result<Option<(StorePath, Vec<u8>)>, StoreError> {
        if self.texts.is_empty() {
            return Ok(None);
        }
        Ok(Some((record_of_texts(self.id), pack(&self.texts)?)))
    }
}

/// The records that the states of a table refer to, with the number of bytes of their texts.
pub(super) fn records_of(table: &Table) -> BTreeMap<Id, u64> {
    let of_base = |base: &Base| Some((base.texts?, base.digest.size));
    let of_file = |file: &NotedFile| Some((file.texts?, file.digest.size));
    let mut records = BTreeMap::<_, u64>::new();
    for noted in table.files.values() {
        for (record, bytes) in noted.base.iter().filter_map(of_base).chain(noted.file().and_then(of_file)) {
            *records.entry(record).or_default() += bytes;
        }
    }
    records
}

impl Side {
    /// The text of an earlier state. `None` if it is not known any more.
    ///
    /// # Errors
    /// [`StoreError::Failure`].
    pub(super) async fn earlier_text(&self, path: &StorePath, base: &Base) -> Result<Option<String>, StoreError> {
        if let Some(record) = base.texts {
            return Ok(self.texts(record).await?.remove(&base.digest.sha256));
        }
        let Some(history) = self.kept_history().await? else { return Ok(None) };
        // Texts that were erased or forgotten are not known.
        let entries =
            history.entries(&LogFilter::new().path(path.clone()).limit(MAX_ENTRIES)).await.unwrap_or_default();
        for entry in &entries {
            for (index, change) in entry.changes.iter().enumerate() {
                let is_before = change.before().is_some_and(|before| before.digest == Some(base.digest));
                let content = match change {
                    _ if is_before => history.replaced_by(EntryRef::from(entry), index).await,
                    FileChange::Write { path, after, .. } if *after == base.digest => {
                        history.read(path, entry.number).await
                    }
                    _ => continue,
                };
                if let Some(content) = content.ok().filter(|content| Digest::of(content) == base.digest) {
                    return Ok(String::from_utf8(content).ok());
                }
            }
        }
        Ok(None)
    }

    /// The texts of a record. Without them, changes of both sides are kept beside each other, and not merged.
    async fn texts(&self, record: Id) -> Result<BTreeMap<Hash, String>, StoreError> {
        match self.store.read_opts(&record_of_texts(record), ReadOptions::new()).await? {
            Node::File(file) => Ok(unpack(&file.content).unwrap_or_default()),
            _ => Ok(BTreeMap::new()),
        }
    }

    /// Puts the smallest of many records together.
    ///
    /// # Errors
    /// [`StoreError::Failure`].
    pub(super) async fn collect_texts(&self, view: &mut View) -> Result<Texts, StoreError> {
        let table = &mut view.table;
        let mut records: Vec<_> = records_of(table).into_iter().map(|(record, bytes)| (bytes, record)).collect();
        records.sort_unstable();
        let mut collected = Texts::new()?;
        if records.len() > MAX_RECORDS {
            records.truncate(MAX_RECORDS);
            for (_, record) in records {
                collected.texts.append(&mut self.texts(record).await?);
                table.replace_texts(record, collected.id);
            }
            // Not all are used any more.
            let used: BTreeSet<_> = table.digests_in(collected.id).collect();
            collected.texts.retain(|digest, _| used.contains(digest));
            view.is_changed = true;
        }
        Ok(collected)
    }
}
