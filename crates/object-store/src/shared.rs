//! [`Shared`]: what the clones of a store have in common.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use memory_tool_core::{Expected, FailureKind, FileEntry, Found, MemoryPath, Node, OpenMode, StoredFile};
use object_store::UpdateVersion;

use crate::bucket::{Bucket, Fetched};
use crate::content::{self, ContentError};
use crate::deadline::{Backoff, Deadline};
use crate::failure::Failure;
use crate::id::Id;
use crate::index::Index;
use crate::large::off_the_thread_if_large;

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
pub(crate) struct Shared {
    pub(crate) bucket: Bucket,
    pub(crate) deadline: Duration,
    mode: OpenMode,
    /// Tells this store from all others that write to the bucket.
    pub(crate) writer: Id,
    /// The latest snapshot that is known. Others may have replaced the index since.
    latest: Mutex<Option<Arc<Snapshot>>>,
    /// Whose turn it is to replace the index, until it is known whether that was done: the index remembers one write of a
    /// writer, and requests in vain are spared.
    pub(crate) turn: tokio::sync::Mutex<()>,
    pub(crate) backoff: Backoff,
}

impl fmt::Debug for Shared {
    /// Without the client, which may show its credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("keys", &self.bucket.keys)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(bucket: Bucket, deadline: Duration, mode: OpenMode) -> Result<Self, Failure> {
        Ok(Self {
            bucket,
            deadline,
            mode,
            writer: Id::random()?,
            latest: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            backoff: Backoff::default(),
        })
    }

    /// Refuses a change of a store that was opened to be read.
    pub(crate) fn refuse_read_only(&self) -> Result<(), Failure> {
        match self.mode {
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
        let fetched = self.bucket.get_unless(&self.bucket.keys.index(), known_version, deadline).await?;
        let snapshot = match (fetched, &known) {
            (Fetched::Unchanged, Some(known)) => return Ok(Arc::clone(known)),
            (Fetched::Found(bytes, version), _) => {
                let size = bytes.len();
                let index = off_the_thread_if_large(size, move || Index::decode(&bytes)).await??;
                Arc::new(Snapshot { index, version: Some(version), size })
            }
            (Fetched::Missing | Fetched::Unchanged, _) => Arc::default(),
        };
        self.keep(Arc::clone(&snapshot), known.as_ref());
        Ok(snapshot)
    }

    /// What is at a path.
    pub(crate) async fn read(&self, path: &MemoryPath) -> Result<Node, Failure> {
        self.read_if(path, &[]).await
    }

    /// What is at a path, at a moment at which the preconditions hold.
    pub(crate) async fn read_if(
        &self,
        path: &MemoryPath,
        preconditions: &[(MemoryPath, Expected)],
    ) -> Result<Node, Failure> {
        Ok(match self.read_or_list_if(path, preconditions).await? {
            Found::Absent => Node::Absent,
            Found::Directory(_) => Node::Directory,
            Found::File(file) => Node::File(file),
        })
    }

    /// What is at a path, with the files beneath a directory.
    pub(crate) async fn read_or_list(&self, path: &MemoryPath) -> Result<Found, Failure> {
        self.read_or_list_if(path, &[]).await
    }

    async fn read_or_list_if(
        &self,
        path: &MemoryPath,
        preconditions: &[(MemoryPath, Expected)],
    ) -> Result<Found, Failure> {
        let deadline = Deadline::after(self.deadline);
        let mut snapshot = self.fetch(&deadline).await?;
        loop {
            for (required, expected) in preconditions {
                expected.check(required, &snapshot.index.node(required))?;
            }
            let Some(file) = snapshot.index.file(path) else {
                let files = entries_beneath(&snapshot, path);
                return Ok(if path.is_root() || !files.is_empty() { Found::Directory(files) } else { Found::Absent });
            };
            if let Some(bytes) = content::load(&self.bucket, file, &deadline).await? {
                return Ok(Found::File(StoredFile::new(bytes, file.version())));
            }
            // The file was replaced or removed since, and its old contents were collected; otherwise they are lost.
            let later = self.fetch(&deadline).await?;
            if later.index.file(path).is_some_and(|later| later.content == file.content) {
                return Err(ContentError::Gone { key: file.object().map(str::to_owned) }.into());
            }
            snapshot = later;
        }
    }

    /// The files beneath a directory.
    pub(crate) async fn list(&self, directory: &MemoryPath) -> Result<Vec<FileEntry>, Failure> {
        let snapshot = self.fetch(&Deadline::after(self.deadline)).await?;
        Ok(entries_beneath(&snapshot, directory))
    }
}

fn entries_beneath(snapshot: &Snapshot, directory: &MemoryPath) -> Vec<FileEntry> {
    let beneath = snapshot.index.beneath(directory);
    beneath.map(|(path, file)| FileEntry::new(path.clone(), file.size)).collect()
}
