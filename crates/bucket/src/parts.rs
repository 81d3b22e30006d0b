//! [`WaitingParts`]: reads of parts of objects, which share requests. A search waits for thousands of small files at
//! once, and many of them are in one pack.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Mutex;

use bytes::Bytes;
use memory_tool_core::lock;
use object_store::path::Path;
use tokio::sync::oneshot;

use crate::bucket::Bucket;
use crate::deadline::Deadline;

/// The bytes between parts that may be read in vain instead of making another request.
const MOST_BETWEEN: u64 = 64 * 1024;
/// The most bytes that a request reads, which is more than a pack.
const MOST_BYTES: u64 = 16 * 1024 * 1024;

/// The parts that wait to be read, by the names of their objects.
#[derive(Debug, Default)]
pub(crate) struct WaitingParts(Mutex<HashMap<String, Vec<Part>>>);

/// A part that waits.
#[derive(Debug)]
pub(crate) struct Part {
    range: Range<u64>,
    bytes: oneshot::Sender<Bytes>,
}

/// The caller that waits for a part.
#[derive(Debug)]
pub(crate) struct PartReader<'a> {
    waiting: &'a WaitingParts,
    name: &'a str,
    bytes: oneshot::Receiver<Bytes>,
}

impl WaitingParts {
    /// Adds a part of the object with a name.
    pub(crate) fn add<'a>(&'a self, name: &'a str, range: Range<u64>) -> PartReader<'a> {
        let (sender, bytes) = oneshot::channel();
        lock(&self.0).entry(name.to_owned()).or_default().push(Part { range, bytes: sender });
        PartReader { waiting: self, name, bytes }
    }
}

impl PartReader<'_> {
    /// Reads all waiting parts of the object in one request, or waits for the caller that does. Returns `None` if the
    /// part needs a separate request: no other part is near it, or the common request failed.
    pub(crate) async fn read(mut self, bucket: &Bucket, key: &Path, deadline: &Deadline) -> Option<Bytes> {
        let parts = lock(&self.waiting.0).remove(self.name).unwrap_or_default();
        if let Some(range) = range_of(&parts)
            && let Ok(Some(object)) = bucket.get_range(key, range.clone(), deadline).await
        {
            for part in parts {
                let (begin, end) = (part.range.start - range.start, part.range.end - range.start);
                if end <= object.len() as u64 {
                    let bytes = object.slice(begin as usize..end as usize);
                    let _ = part.bytes.send(bytes); // its reader may have been dropped
                }
            }
        } else {
            drop(parts); // tells all readers, also this one
        }
        (&mut self.bytes).await.ok()
    }
}

impl Drop for PartReader<'_> {
    /// Forgets the part, unless it was taken.
    fn drop(&mut self) {
        self.bytes.close();
        let mut waiting = lock(&self.waiting.0);
        if let Some(parts) = waiting.get_mut(self.name) {
            parts.retain(|part| !part.bytes.is_closed());
            if parts.is_empty() {
                waiting.remove(self.name);
            }
        }
    }
}

/// The range of several parts, if one request for it costs less than one for each.
fn range_of(parts: &[Part]) -> Option<Range<u64>> {
    let [_, _, ..] = parts else { return None };
    let (start, end) =
        (parts.iter().map(|part| part.range.start).min()?, parts.iter().map(|part| part.range.end).max()?);
    if end - start > MOST_BYTES {
        return None;
    }
    let wanted: u64 = parts.iter().map(|part| part.range.end - part.range.start).sum();
    ((end - start).saturating_sub(wanted) <= MOST_BETWEEN * parts.len() as u64).then_some(start..end)
}
