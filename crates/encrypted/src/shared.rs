//! [`Shared`]: what the clones of a store have in common, and how it is read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use memory_tool_core::{Batch, FailureKind, FileEntry, MemoryPath, Node, OpenMode, Store, StoreError, StoredFile};

use crate::failure::{Damage, EncryptionError, Failure};
use crate::header::{OVERHEAD_BYTES, Place, parse};
use crate::id::Id;
use crate::index::{FileRecord, Index};
use crate::keychain::Keychain;
use crate::naming::Naming;
use crate::object::{offload, open};
use crate::padding::Padding;
use crate::patience::Patience;
use crate::plaintext::Plaintext;
use crate::plan::version;
use crate::snapshot::Snapshot;

/// A store in use.
pub(crate) struct Shared {
    pub(crate) inner: Box<dyn Store>,
    pub(crate) keychain: Keychain,
    mode: OpenMode,
    pub(crate) naming: Naming,
    pub(crate) padding: Padding,
    pub(crate) busy_timeout: Duration,
    known: Mutex<Known>,
    /// The files that were found damaged when they were last read.
    damaged: Mutex<BTreeSet<Id>>,
}

/// What lies at a place in the store beneath.
pub(crate) enum Stored {
    Nothing,
    /// Something else than a file.
    Obstructed,
    /// A file that the store beneath found damaged, or refuses to read.
    Unreadable(StoreError),
    File(StoredFile),
}

impl Stored {
    fn of(read: Result<Node, StoreError>) -> Result<Self, Failure> {
        match read {
            Ok(Node::File(file)) => Ok(Self::File(file)),
            Ok(Node::Absent) => Ok(Self::Nothing),
            Err(reason @ (StoreError::Failure { kind: FailureKind::Damaged, .. } | StoreError::Refused { .. })) => {
                Ok(Self::Unreadable(reason))
            }
            Err(failure @ StoreError::Failure { .. }) => Err(failure.into()),
            // Such as a symbolic link.
            Ok(Node::Directory) | Err(_) => Ok(Self::Obstructed),
        }
    }
}

/// What was seen by a look that began with a snapshot.
struct Seen<T> {
    seen: Result<T, Failure>,
    /// Whether it is certain that the index was still that of the snapshot.
    index_held: bool,
}

/// What is known of the index from before. Others may have replaced it since.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// The latest snapshot.
    pub(crate) latest: Option<Arc<Snapshot>>,
    /// The store, once it exists: there will be no other in its place.
    pub(crate) store: Option<Id>,
    /// The highest revision of the index that was seen. Where it is lower, somebody put an older one back.
    pub(crate) revision: u64,
}

impl fmt::Debug for Shared {
    /// Without the index, which holds the names.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shared = f.debug_struct("Shared");
        shared.field("inner", &self.inner).field("keychain", &self.keychain).field("mode", &self.mode);
        shared
            .field("naming", &self.naming)
            .field("padding", &self.padding)
            .field("busy_timeout", &self.busy_timeout)
            .finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(
        inner: Box<dyn Store>,
        keychain: Keychain,
        mode: OpenMode,
        naming: Naming,
        padding: Padding,
        busy_timeout: Duration,
    ) -> Self {
        let (known, damaged) = (Mutex::default(), Mutex::default());
        Self { inner, keychain, mode, naming, padding, busy_timeout, known, damaged }
    }

    /// Refuses to change what was opened for reading.
    pub(crate) fn refuse_read_only(&self) -> Result<(), Failure> {
        match self.mode {
            OpenMode::ReadOnly => Err(Failure::new(FailureKind::AccessDenied, "the store was opened read-only")),
            _ => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // It holds a pointer and a number, which are whole even if a holder panicked.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn known(&self) -> Known {
        self.lock().clone()
    }

    pub(crate) fn keep(&self, snapshot: Arc<Snapshot>) {
        let mut known = self.lock();
        known.store = snapshot.index.exists().then_some(snapshot.index.store).or(known.store);
        // Another task may have seen a newer one in between.
        if snapshot.index.revision >= known.revision {
            known.revision = snapshot.index.revision;
            known.latest = Some(snapshot);
        }
    }

    /// Notes that this store wrote the index.
    pub(crate) fn note_write(&self, store: Id, revision: u64) {
        let mut known = self.lock();
        known.store = Some(store);
        known.revision = known.revision.max(revision);
    }

    /// A snapshot to begin with, which need not hold any more. After a write of this store it would not; and where there is no
    /// store yet, others may have put their files there.
    pub(crate) async fn likely_snapshot(&self) -> Result<Arc<Snapshot>, Failure> {
        let Known { latest, revision, .. } = self.known();
        match latest.filter(|latest| latest.index.exists() && latest.index.revision >= revision) {
            Some(latest) => Ok(latest),
            None => self.snapshot().await,
        }
    }

    /// What is at a path.
    pub(crate) async fn read(&self, path: &MemoryPath) -> Result<Node, Failure> {
        self.look_until_index_holds(|snapshot| async move { self.read_at(&snapshot, path).await }).await
    }

    /// The files beneath a directory.
    pub(crate) async fn list(&self, directory: &MemoryPath) -> Result<Vec<FileEntry>, Failure> {
        self.while_index_holds(|snapshot| async move { self.look_beneath(&snapshot.index, directory).await }).await
    }

    /// Looks until the index is the same before and after it: then what was seen, a failure or not, is from one moment.
    pub(crate) async fn while_index_holds<T, F>(&self, look: impl Fn(Arc<Snapshot>) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let look = |snapshot| look(snapshot).map(|seen| Seen { seen, index_held: false });
        self.look_until_index_holds(look).await
    }

    async fn look_until_index_holds<T, F>(&self, look: impl Fn(Arc<Snapshot>) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Seen<T>>,
    {
        let mut patience = Patience::of(self.busy_timeout);
        let mut snapshot = self.likely_snapshot().await?;
        loop {
            let Seen { seen, index_held } = look(Arc::clone(&snapshot)).await;
            if index_held {
                return seen;
            }
            let now = self.snapshot().await?;
            if Arc::ptr_eq(&now, &snapshot) {
                return seen;
            }
            snapshot = now;
            patience.pause().await?;
        }
    }

    /// What is at a path. The store beneath is asked at once whether the index still holds, where it can be.
    async fn read_at(&self, snapshot: &Snapshot, path: &MemoryPath) -> Seen<Node> {
        let Some(file) = snapshot.index.files.get(path) else {
            return Seen { seen: Ok(snapshot.index.node(path)), index_held: false };
        };
        let conditions = snapshot.require(Batch::new()).ok();
        let required = conditions.as_ref().map_or(&[][..], Batch::preconditions);
        let read = match self.inner.read_if(&Place::Content(file.id).path(), required).await {
            Err(unmet @ (StoreError::VersionMismatch { .. } | StoreError::AlreadyExists { .. })) => {
                return Seen { seen: Err(Failure::of_inner(unmet)), index_held: false };
            }
            // Such as a file that is too large to be read: the model knows it by its own path.
            Err(StoreError::Refused { reason, .. }) => {
                let refusal = StoreError::Refused { path: path.clone(), reason };
                return Seen { seen: Err(refusal.into()), index_held: false };
            }
            read => read,
        };
        let index_held = conditions.is_some() && read.is_ok();
        Seen { seen: self.open_file(&snapshot.index, file, read).await, index_held }
    }

    async fn open_file(
        &self,
        index: &Index,
        file: &FileRecord,
        read: Result<Node, StoreError>,
    ) -> Result<Node, Failure> {
        let stored = self.ciphertext(file.id, read)?;
        let content = self.open_content(index, file, stored.content).await?;
        Ok(Node::File(StoredFile::new(content, version(file.id, &stored.version))))
    }

    /// The ciphertext of a file.
    pub(crate) async fn fetch_content(&self, id: Id) -> Result<StoredFile, Failure> {
        self.ciphertext(id, self.inner.read(&Place::Content(id).path()).await)
    }

    /// The ciphertext of a file, of what was read at its place.
    fn ciphertext(&self, id: Id, read: Result<Node, StoreError>) -> Result<StoredFile, Failure> {
        let place = Place::Content(id);
        let failure = match Stored::of(read)? {
            Stored::File(stored) => return Ok(stored),
            Stored::Nothing => Failure::damaged(place.path(), Damage::Missing),
            Stored::Obstructed => Failure::damaged(place.path(), Damage::Obstructed),
            Stored::Unreadable(source) => EncryptionError::Unreadable { object: place.path(), source }.into(),
        };
        self.note_failure(id, &failure);
        Err(failure)
    }

    pub(crate) async fn fetch(&self, place: Place) -> Result<Stored, Failure> {
        Stored::of(self.inner.read(&place.path()).await)
    }

    /// Decrypts the content of a file.
    pub(crate) async fn open_content(
        &self,
        index: &Index,
        file: &FileRecord,
        stored: Vec<u8>,
    ) -> Result<Vec<u8>, Failure> {
        let opened = self.decrypt_content(index, file, stored).await;
        match &opened {
            Ok(_) => {
                self.lock_damaged().remove(&file.id);
            }
            Err(failure) => self.note_failure(file.id, failure),
        }
        opened
    }

    async fn decrypt_content(&self, index: &Index, file: &FileRecord, stored: Vec<u8>) -> Result<Vec<u8>, Failure> {
        let place = Place::Content(file.id);
        let damaged = |damage| Failure::damaged(place.path(), damage);
        let (header, head) = parse(&stored).map_err(damaged)?;
        header.expect_store(index.store).and_then(|()| header.expect_place(place)).map_err(damaged)?;
        let slot = index.slot(file.data_key).filter(|slot| slot.data_key == header.data_key);
        let slot = slot.ok_or_else(|| damaged(Damage::OtherDataKey))?;
        let cipher = self.keychain.open(slot).await?.cipher;
        let opening = offload(stored.len(), move || open(&header, &cipher, head, stored));
        let content = opening.await?.map_err(damaged)?;
        if file.size.is_some_and(|size| size != content.len() as u64) {
            return Err(damaged(Damage::Content("it has not the size that the index has for it")));
        }
        Ok(content)
    }

    async fn look_beneath(&self, index: &Index, directory: &MemoryPath) -> Result<Vec<FileEntry>, Failure> {
        if index.beneath(directory).next().is_none() {
            return Ok(Vec::new());
        }
        let sizes = self.sizes_of_ciphertexts().await?;
        let mut entries = Vec::new();
        for (path, file) in index.beneath(directory) {
            entries.push(if sizes.may_be_whole(file) && !self.is_damaged_still(index, file).await? {
                FileEntry::new(path.clone(), sizes.of(file))
            } else {
                FileEntry::damaged(path.clone(), sizes.of(file))
            });
        }
        Ok(entries)
    }

    /// Whether the file was found damaged before, and is: a listing reads no other.
    async fn is_damaged_still(&self, index: &Index, file: &FileRecord) -> Result<bool, Failure> {
        if !self.lock_damaged().contains(&file.id) {
            return Ok(false);
        }
        let opened = match self.fetch_content(file.id).await {
            Ok(stored) => self.open_content(index, file, stored.content).await.map(Plaintext::new),
            Err(failure) => Err(failure),
        };
        match opened {
            Ok(_) => Ok(false),
            Err(failure) if failure.is_damage() => Ok(true),
            Err(failure) => Err(failure),
        }
    }

    /// Remembers that a file is damaged, if that is why it could not be read.
    fn note_failure(&self, id: Id, failure: &Failure) {
        if failure.is_damage() {
            self.lock_damaged().insert(id);
        }
    }

    fn lock_damaged(&self) -> MutexGuard<'_, BTreeSet<Id>> {
        self.damaged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sizes of these files, if not of others.
    pub(crate) async fn sizes(&self, mut files: impl Iterator<Item = &FileRecord>) -> Result<Sizes, Failure> {
        if files.all(|file| file.size.is_some()) {
            return Ok(Sizes::default());
        }
        self.sizes_of_ciphertexts().await
    }

    async fn sizes_of_ciphertexts(&self) -> Result<Sizes, Failure> {
        let stored = self.inner.list(&MemoryPath::root()).await.map_err(Failure::of_inner)?;
        Ok(Sizes(stored.into_iter().filter_map(|file| Some((id_of(&file.path)?, file.size))).collect()))
    }
}

/// The sizes of ciphertexts, as far as they are needed to tell those of files.
#[derive(Debug, Default)]
pub(crate) struct Sizes(BTreeMap<Id, u64>);

impl Sizes {
    /// The size of a file in bytes. One whose ciphertext is gone or too short has 0: so it can be seen, and removed.
    pub(crate) fn of(&self, file: &FileRecord) -> u64 {
        file.size.or_else(|| self.of_sealed(file)).unwrap_or(0)
    }

    /// Whether the ciphertext is there, and long enough for what the index says of it.
    fn may_be_whole(&self, file: &FileRecord) -> bool {
        // What is padded has one byte more at the least.
        self.of_sealed(file).is_some_and(|sealed| file.size.is_none_or(|size| sealed > size))
    }

    /// The length of what is encrypted, with its padding.
    fn of_sealed(&self, file: &FileRecord) -> Option<u64> {
        self.0.get(&file.id)?.checked_sub(OVERHEAD_BYTES as u64)
    }
}

/// The id of the file whose ciphertext lies there.
pub(crate) fn id_of(path: &MemoryPath) -> Option<Id> {
    let mut names = path.segments();
    let id = names.next().and_then(Id::parse)?;
    names.next().is_none().then_some(id)
}
