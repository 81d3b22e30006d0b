//! How contents get into the bucket and out of it: small ones in the index, others in objects of their own or together in a pack.

use std::collections::BTreeMap;

use bytes::Bytes;
use memory_tool_core::{Batch, Change, Precondition};

use crate::bucket::Bucket;
use crate::content::{Content, ContentError, FileRecord, Slice, digest};
use crate::deadline::Deadline;
use crate::failure::Failure;
use crate::id::Id;
use crate::index::Index;
use crate::keys::Keys;

/// The largest contents in bytes that are kept in the index.
const MAX_INLINE_BYTES: usize = 16 * 1024;
/// How much contents the index may hold before a write that is no edit moves the oldest into a pack.
const SOFT_BOUND: usize = 128 * 1024;
/// How much it may hold before an edit does so, too.
const HARD_BOUND: usize = 1024 * 1024;
/// How much is left in the index then.
const LEFT_AFTER_PACKING: usize = SOFT_BOUND / 2;

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

/// The contents of one write, and which of them are in the bucket already. It outlasts the attempts of the write, so that each
/// is put once.
#[derive(Debug)]
pub(crate) struct Staging {
    write: Id,
    /// The count of collections in the index that the first attempt was planned on. Contents that were put before a later
    /// collection may have been taken for garbage, so they are put again, under other names.
    collections: u64,
    /// How often they were put again.
    generation: u32,
    /// The objects of large contents, by the number of the change.
    objects: BTreeMap<usize, StagedObject>,
    /// What was moved into a pack, by the version of the contents.
    pack: Option<BTreeMap<String, Slice>>,
}

/// An object for large contents.
#[derive(Debug)]
struct StagedObject {
    slice: Slice,
    is_put: bool,
}

impl Staging {
    pub(crate) fn new(write: Id) -> Self {
        Self { write, collections: 0, generation: 0, objects: BTreeMap::new(), pack: None }
    }

    /// Prepares an attempt that is planned on `base`: forgets the objects that may be collected.
    pub(crate) fn begin(&mut self, base: &Index) {
        let put_anything = self.objects.values().any(|object| object.is_put) || self.pack.is_some();
        if put_anything && base.collections() != self.collections {
            self.objects.clear();
            self.pack = None;
            self.generation += 1;
        }
        self.collections = base.collections();
    }

    /// The index's entry of what a change of the batch writes. Large contents are still to be [put](Self::put_large).
    pub(crate) fn record(&mut self, keys: &Keys, batch: &Batch, number: usize, revision: u64) -> FileRecord {
        let bytes = batch.content(number);
        let content =
            if is_large(bytes) { Content::Object(self.slice(keys, batch, number)) } else { Content::inline(bytes) };
        FileRecord { version: self.version(number), revision, size: bytes.len() as u64, content }
    }

    /// Where the large contents of a change are to lie.
    fn slice(&mut self, keys: &Keys, batch: &Batch, number: usize) -> Slice {
        let unique = self.unique(&self.version(number));
        let new = || {
            let key = match batch.changes().get(number) {
                Some(Change::Write { path, .. }) => keys.name_for(path, &unique),
                _ => Keys::name_for_record(&unique),
            };
            StagedObject { slice: Slice { key, offset: 0, sha256: digest(batch.content(number)) }, is_put: false }
        };
        self.objects.entry(number).or_insert_with(new).slice.clone()
    }

    /// Puts the large contents of the batch that are not in the bucket yet.
    pub(crate) async fn put_large(
        &mut self,
        bucket: &Bucket,
        batch: &Batch,
        deadline: &Deadline,
    ) -> Result<(), Failure> {
        for (number, object) in self.objects.iter_mut().filter(|(_, object)| !object.is_put) {
            put(bucket, &object.slice.key, Bytes::copy_from_slice(batch.content(*number)), deadline).await?;
            object.is_put = true;
        }
        Ok(())
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

    /// Moves the oldest contents out of an index that holds too much of them. At most one pack is put for a write.
    pub(crate) async fn pack(
        &mut self,
        bucket: &Bucket,
        next: &mut Index,
        bound: usize,
        deadline: &Deadline,
    ) -> Result<(), Failure> {
        let held: usize = next.files.values().map(|file| file.content.inline_len()).sum();
        if held > bound && self.pack.is_none() {
            self.pack = Some(self.put_pack(bucket, next, held, deadline).await?);
        }
        let Some(pack) = &self.pack else { return Ok(()) };
        for file in next.files.values_mut() {
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
        put(bucket, &key, pack.into(), deadline).await?;
        Ok(slices)
    }
}

async fn put(bucket: &Bucket, key: &str, content: Bytes, deadline: &Deadline) -> Result<(), Failure> {
    let object = bucket.keys.content(key).map_err(ContentError::ImpossibleKey)?;
    bucket.put_content(&object, content, deadline).await
}

/// The files and records whose contents are in the index, oldest first, until they are as much as is `wanted`. An empty file stays: an
/// object holds no part without bytes.
fn oldest_inline(index: &Index, wanted: usize) -> Vec<&FileRecord> {
    let mut inline: Vec<_> = index.files.values().filter(|file| file.content.inline_len() > 0).collect();
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
    let changes = batch.changes().len() + batch.record_changes().len();
    let is_large = (0..changes).any(|number| is_large(batch.content(number)));
    if is_edit(batch) || is_large { HARD_BOUND } else { SOFT_BOUND }
}

/// Whether the batch depends on contents that its author has read.
pub(crate) fn is_edit(batch: &Batch) -> bool {
    let of_files = batch.preconditions().iter().map(|(_, precondition)| precondition);
    let of_records = batch.record_preconditions().iter().map(|(_, precondition)| precondition);
    of_files.chain(of_records).any(|precondition| matches!(precondition, Precondition::Version(_)))
}

fn is_large(content: &[u8]) -> bool {
    content.len() > MAX_INLINE_BYTES
}
