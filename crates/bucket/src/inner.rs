//! [`Inner`]: what the clones of a store have in common.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memory_tool_core::{
    FailureKind, MemoryPath, Node, OpenMode, OpenOptions, PathMapEntry, Problem, ReadOptions, RecordName, StoreError,
    StoredFile,
};
use object_store::UpdateVersion;

use crate::blocking::run_maybe_blocking;
use crate::bucket::{Bucket, Fetched};
use crate::content::{ContentError, FileRecord};
use crate::deadline::{Backoff, Deadline};
use crate::failure::Failure;
use crate::id::Id;
use crate::index::{Index, IndexError, MAX_INDEX_BYTES};
use crate::staging;

/// What the bucket held at one moment.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) index: Index,
    /// The version of the object that is the index; `None` where there is none.
    pub(crate) version: Option<UpdateVersion>,
    /// How many bytes that object has.
    pub(crate) size: usize,
}

/// A store in use.
pub(crate) struct Inner {
    pub(crate) bucket: Bucket,
    pub(crate) options: OpenOptions,
    /// Tells this store from all others that write to the bucket.
    pub(crate) writer: Id,
    /// The latest snapshot that is known. Others may have replaced the index since.
    latest: Mutex<Option<Arc<Snapshot>>>,
    /// Whose turn it is to replace the index, until it is known whether that was done: the index remembers one write of a
    /// writer, and requests in vain are spared.
    pub(crate) turn: tokio::sync::Mutex<()>,
    pub(crate) backoff: Backoff,
}

impl fmt::Debug for Inner {
    /// Without the client, which may show its credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut inner = f.debug_struct("Inner");
        inner.field("keys", &self.bucket.keys).field("options", &self.options).finish_non_exhaustive()
    }
}

impl Inner {
    pub(crate) fn new(bucket: Bucket, options: OpenOptions) -> Result<Self, getrandom::Error> {
        Ok(Self {
            bucket,
            options,
            writer: Id::random()?,
            latest: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            backoff: Backoff::default(),
        })
    }

    /// Refuses a change of a store that was opened to be read.
    pub(crate) fn refuse_read_only(&self) -> Result<(), Failure> {
        match self.options.mode {
            OpenMode::ReadOnly => {
                Err(Failure::new(FailureKind::AccessDenied, "the store was opened in read-only mode"))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn latest(&self) -> Option<Arc<Snapshot>> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Snapshot>>> {
        // It holds a pointer, which is whole even if a holder panicked.
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a snapshot for later, unless a later one is known: answers may come in another order than they were made. An older
    /// one than that which was `known` before the request says that somebody put a copy of the index back.
    pub(crate) fn keep(&self, snapshot: Arc<Snapshot>, known: Option<&Arc<Snapshot>>) {
        let mut latest = self.lock();
        let is_overtaken = latest.as_ref().is_some_and(|latest| {
            latest.index.is_of_the_store_of(&snapshot.index)
                && latest.index.revision() > snapshot.index.revision()
                && !known.is_some_and(|known| Arc::ptr_eq(known, latest))
        });
        if !is_overtaken {
            *latest = Some(snapshot);
        }
    }

    /// What the bucket holds at a moment between the call and the answer: one request, and a cheap one where nothing changed.
    pub(crate) async fn fetch(&self, deadline: &Deadline) -> Result<Arc<Snapshot>, Failure> {
        let known = self.latest();
        let known_version = known.as_ref().and_then(|known| known.version.as_ref());
        let fetched =
            self.bucket.get_unless(&self.bucket.keys.index(), MAX_INDEX_BYTES, known_version, deadline).await?;
        let snapshot = match (fetched, &known) {
            (Fetched::Unchanged, Some(known)) => return Ok(Arc::clone(known)),
            (Fetched::Found(bytes, version), _) => {
                let size = bytes.len();
                let index = run_maybe_blocking(size, move || Index::decode(&bytes)).await??;
                Arc::new(Snapshot { index, version: Some(version), size })
            }
            (Fetched::TooLarge, _) => return Err(IndexError::Oversized.into()),
            (Fetched::Missing | Fetched::Unchanged, _) => Arc::default(),
        };
        self.keep(Arc::clone(&snapshot), known.as_ref());
        Ok(snapshot)
    }

    /// What is at a path, under the preconditions of the options.
    pub(crate) async fn read(&self, path: &MemoryPath, options: &ReadOptions) -> Result<Node, Failure> {
        let loading = self.load(|index| {
            options.check(&index.files)?;
            let file = index.files.files().get(path);
            match file.map(|file| file.size).filter(|size| *size > self.options.max_file_bytes) {
                Some(size) => Err(StoreError::too_large_to_read(path, size, self.options.max_file_bytes)),
                None => Ok(file),
            }
        });
        let (snapshot, file) = loading.await?;
        let files = &snapshot.index.files;
        Ok(match file {
            Some(file) => Node::File(file),
            None if files.is_directory(path) => Node::Directory(files.entries(path)),
            None => Node::Absent,
        })
    }

    /// A record, if there is one of that name.
    pub(crate) async fn read_record(&self, name: &RecordName) -> Result<Option<StoredFile>, Failure> {
        let loading = self.load(|index| {
            let record = index.files.records().get(name);
            match record.map(|record| record.size).filter(|size| *size > self.options.max_file_bytes) {
                Some(size) => Err(StoreError::record_too_large(size, self.options.max_file_bytes)),
                None => Ok(record),
            }
        });
        Ok(loading.await?.1)
    }

    /// The file or record that `find` finds in the index, read as of the snapshot that comes with it.
    async fn load(
        &self,
        find: impl Fn(&Index) -> Result<Option<&FileRecord>, StoreError>,
    ) -> Result<(Arc<Snapshot>, Option<StoredFile>), Failure> {
        let deadline = Deadline::after(self.options.timeout);
        let mut snapshot = self.fetch(&deadline).await?;
        loop {
            let Some(file) = find(&snapshot.index)? else { return Ok((snapshot, None)) };
            if let Some(bytes) = staging::load(&self.bucket, file, &deadline).await? {
                let stored = StoredFile::new(bytes, file.version());
                return Ok((snapshot, Some(stored)));
            }
            // It was replaced or removed since, and its old contents were collected; otherwise they are lost.
            let later = self.fetch(&deadline).await?;
            if find(&later.index)?.is_some_and(|later| later.content == file.content) {
                return Err(ContentError::Gone { key: file.object().map(str::to_owned) }.into());
            }
            snapshot = later;
        }
    }

    /// The records that cannot be read. An index that cannot be read has none: that is a problem of the files.
    pub(crate) async fn verify_records(&self) -> Result<Vec<Problem>, Failure> {
        let snapshot = match self.fetch(&Deadline::after(self.options.timeout)).await {
            Err(Failure::Failed { kind: FailureKind::Damaged, .. }) => return Ok(Vec::new()),
            fetched => fetched?,
        };
        let mut problems = Vec::new();
        for name in snapshot.index.files.records().keys() {
            match self.read_record(name).await {
                Ok(_) => {}
                Err(busy @ Failure::Failed { kind: FailureKind::Busy, .. }) => return Err(busy),
                Err(failure) => {
                    let error = failure.during("reading");
                    problems.push(Problem::new(format!("the record {name} cannot be read: {}", Problem::of(&error))));
                }
            }
        }
        Ok(problems)
    }
}
