//! Where contents are kept: small ones in the index, others in objects of their own or together in a pack.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use memory_tool_core::{Batch, Change, Expected, MemoryPath};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::bucket::Bucket;
use crate::deadline::Deadline;
use crate::failure::Failure;
use crate::id::Id;
use crate::index::{FileRecord, Index};
use crate::keys::Keys;

/// The largest contents in bytes that are kept in the index.
const MAX_INLINE_BYTES: usize = 16 * 1024;
/// How much contents the index may hold before a write that is no edit moves the oldest into a pack.
const SOFT_BOUND: usize = 128 * 1024;
/// How much it may hold before an edit does so, too.
const HARD_BOUND: usize = 1024 * 1024;
/// How much is left in the index then.
const LEFT_AFTER_PACKING: usize = SOFT_BOUND / 2;

/// Where the bytes of a file are.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Content {
    /// Here, as text.
    Text(String),
    /// Here, as they are not UTF-8.
    Base64(String),
    /// In an object.
    Object(Slice),
}

/// A part of an object.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Slice {
    /// The object's key beneath `contents/`.
    pub(crate) key: String,
    /// Where the bytes begin in it.
    pub(crate) offset: u64,
    /// Their digest in hexadecimal.
    pub(crate) sha256: String,
}

/// What is wrong with the contents of a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ContentError {
    #[error("the object {key:?} with the contents is gone")]
    Gone { key: Option<String> },
    #[error("the object {key} does not hold the contents that were put there")]
    Changed { key: String },
    #[error("the contents in the index are not of the size that it says")]
    WrongSize,
    #[error("the contents in the index are not base64")]
    NotBase64(#[source] base64::DecodeError),
    #[error("the index names an impossible object")]
    ImpossibleKey(#[source] object_store::path::Error),
}

impl Content {
    fn inline(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Base64(BASE64_STANDARD.encode(bytes)),
        }
    }

    /// How many characters of the index the contents are, about.
    fn inline_len(&self) -> usize {
        match self {
            Self::Text(text) | Self::Base64(text) => text.len(),
            Self::Object(_) => 0,
        }
    }

    /// The bytes, where they are in the index.
    fn inline_bytes(&self) -> Result<Option<Vec<u8>>, ContentError> {
        match self {
            Self::Text(text) => Ok(Some(text.clone().into_bytes())),
            Self::Base64(text) => BASE64_STANDARD.decode(text).map(Some).map_err(ContentError::NotBase64),
            Self::Object(_) => Ok(None),
        }
    }
}

impl FileRecord {
    /// The object that the contents are in, as the index names it.
    pub(crate) fn object(&self) -> Option<&str> {
        match &self.content {
            Content::Object(slice) => Some(&slice.key),
            Content::Text(_) | Content::Base64(_) => None,
        }
    }

    /// The bytes where they are in the index, checked.
    fn inline_bytes(&self) -> Result<Option<Vec<u8>>, ContentError> {
        let bytes = self.content.inline_bytes()?;
        match &bytes {
            Some(bytes) if bytes.len() as u64 != self.size => Err(ContentError::WrongSize),
            _ => Ok(bytes),
        }
    }
}

/// The bytes of a file, or `None` where the object that should hold them is not there.
pub(crate) async fn load(bucket: &Bucket, file: &FileRecord, deadline: &Deadline) -> Result<Option<Vec<u8>>, Failure> {
    let Content::Object(Slice { key, offset, sha256 }) = &file.content else {
        return Ok(file.inline_bytes()?);
    };
    let object = bucket.keys.content(key).map_err(ContentError::ImpossibleKey)?;
    let range = *offset..offset.saturating_add(file.size);
    match bucket.get_range(&object, range, deadline).await? {
        None => Ok(None),
        Some(bytes) if bytes.len() as u64 == file.size && digest(&bytes) == *sha256 => Ok(Some(bytes.into())),
        Some(_) => Err(ContentError::Changed { key: key.clone() }.into()),
    }
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The contents of one write, and which of them are in the bucket already. It outlasts the attempts of the write, so that each
/// is put once.
#[derive(Debug)]
pub(crate) struct Staging {
    write: Id,
    /// The count of collections in the index that the first attempt was planned on. Contents that were put before a later
    /// collection may have been taken for garbage, so they are put anew, under other names.
    collections: u64,
    /// How often they were put anew.
    generation: u32,
    /// The objects that were put, by the number of the change.
    objects: BTreeMap<usize, Slice>,
    /// What was moved into a pack, by the version of the contents.
    pack: Option<BTreeMap<String, Slice>>,
}

impl Staging {
    pub(crate) fn new(write: Id) -> Self {
        Self { write, collections: 0, generation: 0, objects: BTreeMap::new(), pack: None }
    }

    /// Puts the large contents of the batch that are not in the bucket yet, before a write that is planned on `base`.
    pub(crate) async fn put_large(
        &mut self,
        bucket: &Bucket,
        base: &Index,
        batch: &Batch,
        deadline: &Deadline,
    ) -> Result<(), Failure> {
        self.forget_what_may_be_collected(base);
        for (number, change) in batch.changes().iter().enumerate() {
            if let Change::Write { path, content } = change
                && is_large(change)
                && !self.objects.contains_key(&number)
            {
                let slice = self.put_one(bucket, path, number, content, deadline).await?;
                self.objects.insert(number, slice);
            }
        }
        Ok(())
    }

    fn forget_what_may_be_collected(&mut self, base: &Index) {
        let put_anything = !self.objects.is_empty() || self.pack.is_some();
        if put_anything && base.collections() != self.collections {
            self.objects.clear();
            self.pack = None;
            self.generation += 1;
        }
        self.collections = base.collections();
    }

    async fn put_one(
        &self,
        bucket: &Bucket,
        path: &MemoryPath,
        number: usize,
        content: &[u8],
        deadline: &Deadline,
    ) -> Result<Slice, Failure> {
        let key = bucket.keys.name_for(path, &self.unique(&self.version(number)));
        self.put(bucket, &key, Bytes::copy_from_slice(content), deadline).await?;
        Ok(Slice { key, offset: 0, sha256: digest(content) })
    }

    async fn put(&self, bucket: &Bucket, key: &str, content: Bytes, deadline: &Deadline) -> Result<(), Failure> {
        let object = bucket.keys.content(key).map_err(ContentError::ImpossibleKey)?;
        bucket.put_content(&object, content, deadline).await
    }

    /// The version of the contents that a change writes.
    fn version(&self, number: usize) -> String {
        format!("{}-{number}", self.write)
    }

    fn unique(&self, name: &str) -> String {
        match self.generation {
            0 => name.to_owned(),
            generation => format!("{name}-again-{generation}"),
        }
    }

    /// The record of the file that a change writes.
    pub(crate) fn record(&self, batch: &Batch, number: usize, revision: u64) -> FileRecord {
        let content = match batch.changes().get(number) {
            Some(Change::Write { content, .. }) => content.as_slice(),
            _ => &[],
        };
        let kept = match self.objects.get(&number) {
            Some(slice) => Content::Object(slice.clone()),
            None => Content::inline(content),
        };
        FileRecord { version: self.version(number), revision, size: content.len() as u64, content: kept }
    }

    /// Moves the oldest contents out of an index that holds too much of them. At most one pack is put for a write.
    pub(crate) async fn pack(
        &mut self,
        bucket: &Bucket,
        next: &mut Index,
        bound: usize,
        deadline: &Deadline,
    ) -> Result<(), Failure> {
        let held: usize = next.files().map(|file| file.content.inline_len()).sum();
        if held > bound && self.pack.is_none() {
            self.pack = Some(self.put_pack(bucket, next, held, deadline).await?);
        }
        let Some(pack) = &self.pack else { return Ok(()) };
        for file in next.files_mut() {
            if let Some(slice) = pack.get(&file.version) {
                file.content = Content::Object(slice.clone());
            }
        }
        Ok(())
    }

    async fn put_pack(
        &self,
        bucket: &Bucket,
        next: &Index,
        held: usize,
        deadline: &Deadline,
    ) -> Result<BTreeMap<String, Slice>, Failure> {
        let key = Keys::name_for_pack(&self.unique(&self.write.to_string()));
        let mut pack = Vec::new();
        let mut slices = BTreeMap::new();
        for file in oldest_inline(next, held.saturating_sub(LEFT_AFTER_PACKING)) {
            let bytes = file.inline_bytes()?.unwrap_or_default();
            let slice = Slice { key: key.clone(), offset: pack.len() as u64, sha256: digest(&bytes) };
            slices.insert(file.version.clone(), slice);
            pack.extend(bytes);
        }
        self.put(bucket, &key, pack.into(), deadline).await?;
        Ok(slices)
    }
}

/// The files whose contents are in the index, oldest first, until they are as much as is `wanted`. An empty file stays: an
/// object holds no part without bytes.
fn oldest_inline(index: &Index, wanted: usize) -> Vec<&FileRecord> {
    let mut inline: Vec<_> = index.files().filter(|file| file.content.inline_len() > 0).collect();
    inline.sort_by_key(|file| file.revision);
    let mut found = 0;
    inline.retain(|file| {
        let take = found < wanted;
        found += file.content.inline_len();
        take
    });
    inline
}

/// How much contents the index may hold after a write of the batch. An edit has read the index and the contents already, and
/// large contents are an object by themselves: such a write puts a pack only when that cannot wait.
pub(crate) fn bound_for(batch: &Batch) -> usize {
    if is_edit(batch) || batch.changes().iter().any(is_large) { HARD_BOUND } else { SOFT_BOUND }
}

/// Whether the batch depends on contents that its author has read.
pub(crate) fn is_edit(batch: &Batch) -> bool {
    batch.preconditions().iter().any(|(_, expected)| matches!(expected, Expected::Version(_)))
}

fn is_large(change: &Change) -> bool {
    matches!(change, Change::Write { content, .. } if content.len() > MAX_INLINE_BYTES)
}
