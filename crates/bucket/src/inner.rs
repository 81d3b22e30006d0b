//! [`Inner`]: the common part of the clones of a store, and reading.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;
use memory_tool_core::{
    ErrorKind, Node, OpenMode, OpenOptions, PathMapEntry, ReadOptions, StoreError, StorePath, StoredFile, random_number,
};
use tokio::sync::Semaphore;
use tokio::task::yield_now;

use crate::background::{Collector, Warnings};
use crate::bucket::Bucket;
use crate::contact::Contact;
use crate::content::{Content, ContentError, FileRecord, Slice};
use crate::contention::Contention;
use crate::deadline::Deadline;
use crate::failure::Failure;
use crate::parts::WaitingParts;
use crate::polls::Polls;
use crate::queue::Queue;
use crate::state::State;

/// The number of contents that are read at a time. Callers may read thousands of files at once, to share one poll.
const CONTENT_READS: usize = 64;

/// A store in use.
pub(crate) struct Inner {
    pub(crate) bucket: Bucket,
    pub(crate) options: OpenOptions,
    /// The latest known state. Others may have written since.
    state: RwLock<State>,
    pub(crate) queue: Queue,
    pub(crate) contention: Contention,
    pub(crate) contact: Contact,
    pub(crate) polls: Polls,
    /// Held by the task that writes a checkpoint.
    pub(crate) checkpointing: Semaphore,
    content_reads: Semaphore,
    waiting_parts: WaitingParts,
    pub(crate) collector: Collector,
    pub(crate) warnings: Warnings,
}

impl fmt::Debug for Inner {
    /// Without the client, which may show its credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut inner = f.debug_struct("Inner");
        inner.field("keys", &self.bucket.keys).field("options", &self.options).finish_non_exhaustive()
    }
}

impl Inner {
    pub(crate) fn new(bucket: Bucket, options: OpenOptions) -> Self {
        Self {
            bucket,
            options,
            state: RwLock::default(),
            queue: Queue::default(),
            // Without randomness there are no ids, so every commit fails.
            contention: Contention::new(random_number().unwrap_or_default()),
            contact: Contact::default(),
            polls: Polls::default(),
            checkpointing: Semaphore::new(1),
            content_reads: Semaphore::new(CONTENT_READS),
            waiting_parts: WaitingParts::default(),
            collector: Collector::default(),
            warnings: Warnings::default(),
        }
    }

    /// Refuses a change of a store that was opened to be read.
    pub(crate) fn refuse_read_only(&self) -> Result<(), Failure> {
        match self.options.mode {
            OpenMode::ReadOnly => Err(Failure::new(ErrorKind::AccessDenied, "the store was opened in read-only mode")),
            _ => Ok(()),
        }
    }

    /// The deadline of an operation that begins now.
    pub(crate) fn deadline(&self) -> Deadline {
        Deadline::after(self.options.timeout)
    }

    /// The latest state that is known.
    pub(crate) fn state(&self) -> RwLockReadGuard<'_, State> {
        // Each change of a state is complete, even if its author panicked later.
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file or directory at a path, under the preconditions of the options.
    pub(crate) async fn read(self: &Arc<Self>, path: &StorePath, options: &ReadOptions) -> Result<Node, Failure> {
        let deadline = self.deadline();
        let mut is_stale = options.allows_stale();
        let mut gone: Option<Slice> = None;
        loop {
            is_stale &= matches!(self.find(path, options), Ok(Ok(_)));
            if !is_stale {
                self.poll(&deadline).await?;
            }
            let file = match self.find(path, options)? {
                Ok(file) => file,
                Err(other) => return Ok(other),
            };
            if let Some(bytes) = self.contents_in_turn(&file, &deadline).await? {
                return Ok(Node::File(StoredFile::new(bytes, file.version())));
            }
            if std::mem::take(&mut is_stale) {
                continue;
            }
            // The file was replaced or removed since, or a checkpoint moved its contents, and a collection removed the
            // old ones. Otherwise they are lost.
            if let Some(lost) = gone.filter(|gone| file.slice() == Some(gone)) {
                return Err(ContentError::Missing { key: lost.key }.into());
            }
            gone = file.slice().cloned();
            self.reload(&deadline).await?;
        }
    }

    /// The file at a path in the known state, or the directory or absence.
    fn find(&self, path: &StorePath, options: &ReadOptions) -> Result<Result<FileRecord, Node>, StoreError> {
        let (state, limit) = (self.state(), self.options.max_file_bytes);
        options.check(&state.files)?;
        match state.files.files().get(path) {
            Some(file) if file.size > limit => Err(StoreError::too_large_to_read(path, file.size, limit)),
            Some(file) => Ok(Ok(file.clone())),
            None if state.files.is_directory(path) => Ok(Err(Node::Directory(state.files.entries(path).into()))),
            None => Ok(Err(Node::Absent)),
        }
    }

    /// The start of an object, up to the last of these parts of it.
    pub(crate) async fn parts_of<'a>(
        &self,
        name: &str,
        parts: impl Iterator<Item = &'a FileRecord>,
    ) -> Result<Bytes, Failure> {
        let end_of = |file: &FileRecord| Some(file.slice()?.offset.saturating_add(file.size));
        let end = parts.filter_map(end_of).max().unwrap_or_default();
        if end == 0 {
            return Ok(Bytes::new());
        }
        let key = self.bucket.keys.content(name)?;
        let object = self.bucket.get_range(&key, 0..end, &self.deadline()).await?;
        object.ok_or_else(|| ContentError::Missing { key: name.to_owned() }.into())
    }

    /// The same as [`contents`](Self::contents), after earlier reads. The time until then does not count.
    async fn contents_in_turn(&self, file: &FileRecord, deadline: &Deadline) -> Result<Option<Vec<u8>>, Failure> {
        let Some(slice) = file.slice() else { return self.contents(file, deadline).await };
        let part = self.waiting_parts.add(&slice.key, slice.range(file.size));
        yield_now().await; // lets reads that began at the same time add their parts
        let _permit = self.content_reads.acquire().await; // it is never closed
        let deadline = self.deadline();
        match part.read(&self.bucket, &self.bucket.keys.content(&slice.key)?, &deadline).await {
            Some(bytes) => Ok(Some(slice.check(file.size, bytes)?)),
            None => self.contents(file, &deadline).await,
        }
    }

    /// The bytes of a file, or `None` if the object that should hold them is missing.
    pub(crate) async fn contents(&self, file: &FileRecord, deadline: &Deadline) -> Result<Option<Vec<u8>>, Failure> {
        let slice = match &file.content {
            Content::Inline(bytes) if bytes.len() as u64 == file.size => return Ok(Some(bytes.to_vec())),
            Content::Inline(_) => return Err(ContentError::WrongSize.into()),
            Content::Object(slice) => slice,
        };
        let key = self.bucket.keys.content(&slice.key)?;
        match self.bucket.get_range(&key, slice.range(file.size), deadline).await? {
            None => Ok(None),
            Some(bytes) => Ok(Some(slice.check(file.size, bytes)?)),
        }
    }
}
