//! How files, records and listings are read: each from one moment, in which the index is the one that they were found by.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt;
use memory_tool_core::{FileEntry, MemoryPath, Node, Precondition, ReadOptions, RecordName, StoreError, StoredFile};

use crate::backoff::Backoff;
use crate::ciphertexts::Ciphertexts;
use crate::failure::{Damage, Failure};
use crate::header::{IndexCopy, ObjectName, parse};
use crate::id::Id;
use crate::index::{FileRecord, Index};
use crate::inner::Inner;
use crate::object::{offload, open};
use crate::plaintext::Plaintext;
use crate::snapshot::{Known, Snapshot};
use crate::state::{Condition, State};
use crate::stored::Stored;
use crate::target::Target;
use crate::version;

/// What came of reading, on the basis of a snapshot.
struct Observed<T> {
    result: Result<T, Failure>,
    /// Whether it is certain that the index was still that of the snapshot.
    index_held: bool,
}

impl<T> Observed<T> {
    fn unconfirmed(result: Result<T, Failure>) -> Self {
        Self { result, index_held: false }
    }
}

/// A file of the inner store to read, under preconditions.
struct InnerRead {
    options: ReadOptions,
    /// Whether the options require that the index is still that of the snapshot.
    requires_index: bool,
    conditions: Vec<Condition>,
}

impl InnerRead {
    fn new(snapshot: &Snapshot, conditions: Vec<Condition>) -> Self {
        let of_index = snapshot.preconditions();
        let requires_index = of_index.is_ok();
        let of_conditions = conditions.iter().map(Condition::precondition);
        let all = of_index.unwrap_or_default().into_iter().chain(of_conditions);
        let require = |options: ReadOptions, (path, precondition): (MemoryPath, Precondition)| {
            options.require(path, precondition)
        };
        Self { options: all.fold(ReadOptions::new(), require), requires_index, conditions }
    }

    /// The failure that an unmet precondition comes to.
    fn unmet(&self, error: StoreError) -> Failure {
        match &error {
            StoreError::VersionMismatch { path } => {
                let condition = self.conditions.iter().find(|condition| condition.object() == *path);
                condition.map_or_else(|| Failure::of_inner(error), |condition| condition.target.mismatch().into())
            }
            _ => Failure::of_inner(error),
        }
    }
}

impl Inner {
    /// A snapshot to begin with, which need not hold any more. After a write of this store it would not; and where there is no
    /// store yet, others may have put their files there.
    pub(crate) async fn likely_snapshot(&self) -> Result<Arc<Snapshot>, Failure> {
        let Known { latest, revision, .. } = self.known();
        match latest.filter(|latest| latest.index.exists() && latest.index.revision >= revision) {
            Some(latest) => Ok(latest),
            None => self.snapshot().await,
        }
    }

    /// What is at a path, under the preconditions of the options.
    pub(crate) async fn read(&self, path: &MemoryPath, options: &ReadOptions) -> Result<Node, Failure> {
        self.observe_until_index_holds(|snapshot| async move { self.read_at(&snapshot, path, options).await }).await
    }

    /// A record, if there is one of that name.
    pub(crate) async fn read_record(&self, name: &RecordName) -> Result<Option<StoredFile>, Failure> {
        let target = Target::Record(name.clone());
        let read = |snapshot: Arc<Snapshot>| {
            let target = &target;
            async move {
                match snapshot.index.get(target) {
                    Some(record) => {
                        let read = InnerRead::new(&snapshot, Vec::new());
                        let Observed { result, index_held } =
                            self.read_content(&snapshot.index, target, record, read).await;
                        Observed { result: result.map(Some), index_held }
                    }
                    None => Observed::unconfirmed(Ok(None)),
                }
            }
        };
        self.observe_until_index_holds(read).await
    }

    /// Observes until the index is the same before and after it: then the result, a failure or not, is from one moment.
    pub(crate) async fn while_index_holds<T, F>(&self, observe: impl Fn(Arc<Snapshot>) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        self.observe_until_index_holds(|snapshot| observe(snapshot).map(Observed::unconfirmed)).await
    }

    async fn observe_until_index_holds<T, F>(&self, observe: impl Fn(Arc<Snapshot>) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Observed<T>>,
    {
        let mut backoff = Backoff::within(self.options.timeout);
        let mut snapshot = self.likely_snapshot().await?;
        loop {
            let Observed { result, index_held } = observe(Arc::clone(&snapshot)).await;
            if index_held {
                return result;
            }
            let now = self.snapshot().await?;
            if Arc::ptr_eq(&now, &snapshot) {
                return result;
            }
            snapshot = now;
            backoff.pause().await?;
        }
    }

    /// What is at a path. The inner store is asked in the same step whether the index still holds, where it can be.
    async fn read_at(&self, snapshot: &Snapshot, path: &MemoryPath, options: &ReadOptions) -> Observed<Node> {
        let index = &snapshot.index;
        let conditions = Condition::of_read(options, index);
        let ciphertexts = Ciphertexts::default();
        if let Err(refusal) = options.check(&State::new(index, &ciphertexts, &conditions)) {
            let check = |state: &State<'_>| options.check(state);
            return Observed::unconfirmed(Err(self
                .first_failure(index, &ciphertexts, &conditions, check, refusal)
                .await));
        }
        let read = InnerRead::new(snapshot, conditions);
        if let Some(file) = index.files.files().get(path) {
            let Observed { result, index_held } =
                self.read_content(index, &Target::File(path.clone()), file, read).await;
            return Observed { result: result.map(Node::File), index_held };
        }
        if index.files.under(path).next().is_some() {
            return self.list_at(index, path, read).await;
        }
        let nothing = if path.is_root() { Node::Directory(Vec::new()) } else { Node::Absent };
        if read.conditions.is_empty() {
            return Observed::unconfirmed(Ok(nothing));
        }
        // Nothing is to be read, so the first copy of the index is.
        match self.inner.read_opts(&ObjectName::Index(IndexCopy::First).path(), read.options.clone()).await {
            Ok(_) => Observed { result: Ok(nothing), index_held: read.requires_index },
            Err(error) => Observed::unconfirmed(Err(read.unmet(error))),
        }
    }

    /// The content of a file or record.
    async fn read_content(
        &self,
        index: &Index,
        target: &Target,
        file: &FileRecord,
        read: InnerRead,
    ) -> Observed<StoredFile> {
        let object = match self.inner.read_opts(&ObjectName::Content(file.id).path(), read.options.clone()).await {
            Err(error @ (StoreError::VersionMismatch { .. } | StoreError::AlreadyExists { .. })) => {
                return Observed::unconfirmed(Err(read.unmet(error)));
            }
            Err(StoreError::Refused { policy, reason, .. }) => {
                return Observed::unconfirmed(Err(target.refused(policy, reason)));
            }
            object => object,
        };
        let index_held = read.requires_index && object.is_ok();
        Observed { result: self.open_file(index, file, object).await, index_held }
    }

    async fn open_file(
        &self,
        index: &Index,
        file: &FileRecord,
        object: Result<Node, StoreError>,
    ) -> Result<StoredFile, Failure> {
        let stored = self.ciphertext(file.id, object)?;
        let content = self.open_content(index, file, stored.content).await?;
        Ok(StoredFile::new(content, version::outer(file.id, &stored.version)))
    }

    /// The ciphertext of a file or record.
    pub(crate) async fn fetch_content(&self, id: Id) -> Result<StoredFile, Failure> {
        self.ciphertext(id, self.inner.read_opts(&ObjectName::Content(id).path(), ReadOptions::new()).await)
    }

    /// The ciphertext, of what was read at its path.
    fn ciphertext(&self, id: Id, object: Result<Node, StoreError>) -> Result<StoredFile, Failure> {
        let object = Stored::of(object)?.into_object(ObjectName::Content(id));
        if object.is_err() {
            self.note_reading(id, &object);
        }
        object
    }

    /// Decrypts the content of a file or record.
    pub(crate) async fn open_content(
        &self,
        index: &Index,
        file: &FileRecord,
        stored: Vec<u8>,
    ) -> Result<Vec<u8>, Failure> {
        let opened = self.decrypt_content(index, file, stored).await;
        self.note_reading(file.id, &opened);
        opened
    }

    async fn decrypt_content(&self, index: &Index, file: &FileRecord, stored: Vec<u8>) -> Result<Vec<u8>, Failure> {
        let name = ObjectName::Content(file.id);
        let damaged = |damage| Failure::damaged(name.path(), damage);
        let (header, head) = parse(&stored).map_err(damaged)?;
        header.expect_store(index.store).and_then(|()| header.expect_name(name)).map_err(damaged)?;
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

    /// The files under a directory.
    async fn list_at(&self, index: &Index, directory: &MemoryPath, read: InnerRead) -> Observed<Node> {
        let stored = match self.inner.read_opts(&MemoryPath::root(), read.options.clone()).await {
            Ok(stored) => stored.into_entries(),
            Err(error) => return Observed::unconfirmed(Err(read.unmet(error))),
        };
        let ciphertexts = Ciphertexts::among(stored);
        let is_read_again = index.files.under(directory).any(|(_, file)| self.was_damaged(file.id));
        let entries = self.entries(index, directory, &ciphertexts).await;
        Observed { result: entries.map(Node::Directory), index_held: read.requires_index && !is_read_again }
    }

    async fn entries(
        &self,
        index: &Index,
        directory: &MemoryPath,
        ciphertexts: &Ciphertexts,
    ) -> Result<Vec<FileEntry>, Failure> {
        let mut entries = Vec::new();
        for (path, file) in index.files.under(directory) {
            let is_damaged = self.is_damaged_still(index, file).await?;
            entries.push(ciphertexts.entry(path, file, is_damaged));
        }
        Ok(entries)
    }

    /// Whether the file was found damaged before, and is: a listing reads no other.
    async fn is_damaged_still(&self, index: &Index, file: &FileRecord) -> Result<bool, Failure> {
        if !self.was_damaged(file.id) {
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

    /// The ciphertexts of these files, if one of them is needed for its size.
    pub(crate) async fn ciphertexts_of(
        &self,
        files: &BTreeMap<MemoryPath, FileRecord>,
    ) -> Result<Ciphertexts, Failure> {
        if files.values().all(|file| file.size.is_some()) {
            return Ok(Ciphertexts::default());
        }
        Ok(Ciphertexts::among(self.list_inner().await?))
    }

    /// The first failure of a check that refused the state in which all conditions hold: one of them may come before it.
    pub(crate) async fn first_failure<E: Into<Failure>>(
        &self,
        index: &Index,
        ciphertexts: &Ciphertexts,
        conditions: &[Condition],
        check: impl Fn(&State<'_>) -> Result<(), StoreError>,
        refusal: E,
    ) -> Failure {
        let mut actual = Vec::new();
        for condition in conditions {
            match self.fetch(ObjectName::Content(condition.id)).await {
                Ok(Stored::File(file)) => actual.push(Condition { version: file.version, ..condition.clone() }),
                Ok(_) => {}
                Err(failure) => return failure,
            }
        }
        match check(&State::new(index, ciphertexts, &actual)) {
            Ok(()) => refusal.into(),
            Err(error) => error.into(),
        }
    }
}
