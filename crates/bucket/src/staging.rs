//! [`Staging`]: uploads the contents of one batch. Small contents go into the commit, others into objects that are put
//! before it.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use memory_tool_core::{Batch, Change};

use crate::bucket::Bucket;
use crate::content::{Content, FileRecord, Slice, seconds};
use crate::deadline::Deadline;
use crate::digest::Digest;
use crate::failure::Failure;
use crate::id::Id;
use crate::keys::Keys;

/// The largest contents in bytes that are kept in a commit.
const MAX_INLINE_BYTES: usize = 16 * 1024;
/// The most bytes of contents that a batch adds to its commit. A larger batch puts its small contents into packs.
const MAX_BATCH_BYTES: usize = 1024 * 1024;
/// The approximate bytes of a pack.
const PACK_BYTES: usize = 4 * 1024 * 1024;

/// The objects of a batch that are put at a time. Each may need a connection.
const PARALLEL_PUTS: usize = 8;

/// The contents of a change, which a request sends without a copy.
struct SharedContent(Arc<Vec<u8>>);

impl AsRef<[u8]> for SharedContent {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The contents of a batch.
#[derive(Debug)]
pub(crate) struct Staging {
    write: Id,
    /// The number of times that the objects were put.
    generation: u32,
    /// The number of collections in the log when the objects were put. A later collection may have removed them as
    /// unused, so they are put again under other names.
    collections: u64,
    /// The location of the contents of each change.
    contents: Vec<Content>,
}

impl Staging {
    pub(crate) fn new() -> Result<Self, Failure> {
        Ok(Self { write: Id::random()?, generation: 0, collections: 0, contents: Vec::new() })
    }

    /// Puts the contents that do not go into the commit. `collections` is the number of collections in the log.
    pub(crate) async fn put(
        &mut self,
        bucket: &Bucket,
        batch: &Batch,
        collections: u64,
        deadline: &Deadline,
    ) -> Result<(), Failure> {
        (self.collections, self.contents) = (collections, Vec::new());
        self.generation += 1;
        let sizes = (0..batch.changes().len()).map(|number| batch.content(number).len());
        let small: usize = sizes.filter(|size| *size <= MAX_INLINE_BYTES).sum();
        let (mut packs, mut pack, mut puts) = (0, Vec::new(), Vec::new());
        for (number, change) in batch.changes().iter().enumerate() {
            let Change::Write { path, content, .. } = change else {
                self.contents.push(Content::Inline(Bytes::new()));
                continue;
            };
            let place = if content.len() > MAX_INLINE_BYTES {
                let key = bucket.keys.name_for(path, &self.unique(number));
                puts.push((key.clone(), Bytes::from_owner(SharedContent(Arc::clone(content)))));
                Content::Object(Slice { key, offset: 0, sha256: Digest::of(content) })
            } else if small > MAX_BATCH_BYTES && !content.is_empty() {
                let key = Keys::name_for_pack(&self.unique(packs));
                let slice = Slice { key: key.clone(), offset: pack.len() as u64, sha256: Digest::of(content) };
                pack.extend_from_slice(content);
                if pack.len() >= PACK_BYTES {
                    puts.push((key, std::mem::take(&mut pack).into()));
                    packs += 1;
                }
                Content::Object(slice)
            } else {
                Content::Inline(Bytes::copy_from_slice(content))
            };
            self.contents.push(place);
        }
        if !pack.is_empty() {
            puts.push((Keys::name_for_pack(&self.unique(packs)), pack.into()));
        }
        let put = |(key, content): (String, Bytes)| async move { bucket.put_content(&key, content, deadline).await };
        stream::iter(puts).map(put).buffer_unordered(PARALLEL_PUTS).try_collect().await
    }

    /// Whether objects were put before a collection that the log notes.
    pub(crate) fn is_outdated(&self, collections: u64) -> bool {
        self.collections != collections && self.contents.iter().any(|content| matches!(content, Content::Object(_)))
    }

    /// The record of the contents that a change of the batch writes.
    pub(crate) fn record(&self, batch: &Batch, number: usize, commit: u64) -> FileRecord {
        let content = self.contents.get(number).cloned().unwrap_or_else(|| Content::Inline(Bytes::new()));
        FileRecord {
            version: format!("{}-{number}", self.write),
            commit,
            size: batch.content(number).len() as u64,
            modified: batch.times(number).modified.map(seconds),
            created: batch.times(number).created.map(seconds),
            content,
        }
    }

    /// The bytes of contents in the commit.
    pub(crate) fn inline_bytes(&self) -> usize {
        let inline = |content: &Content| if let Content::Inline(bytes) = content { bytes.len() } else { 0 };
        self.contents.iter().map(inline).sum()
    }

    fn unique(&self, number: usize) -> String {
        format!("{}-{}-{number}", self.write, self.generation)
    }
}
