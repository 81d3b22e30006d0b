//! Reading files, records and listings. Each result is consistent with one revision of the index.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::TryFutureExt;
use memory_tool_core::{FileEntry, Listing, Node, ReadOptions, StoreError, StorePath, StoredFile, Version};

use crate::backoff::Backoff;
use crate::ciphertexts::Ciphertexts;
use crate::failure::{Damage, Failure};
use crate::header::{IndexCopy, ObjectName, parse};
use crate::id::Id;
use crate::index::{FileRecord, Index};
use crate::inner::Inner;
use crate::object::{offload, open};
use crate::plaintext::Plaintext;
use crate::snapshot::{IndexHistory, Snapshot};
use crate::state::{Condition, State};
use crate::stored_object::StoredObject;
use crate::version;

/// The result of a read of a snapshot. `is_current` is whether the read confirmed that the index is unchanged.
type Observation<T> = (T, bool);

/// A read of the inner store with preconditions.
struct InnerRead {
    options: ReadOptions,
    /// Whether the options require the index of the snapshot.
    requires_index: bool,
    conditions: Vec<Condition>,
}

impl InnerRead {
    fn new(snapshot: &Snapshot, conditions: Vec<Condition>) -> Self {
        let of_index = snapshot.preconditions();
        let requires_index = of_index.is_ok();
        let of_conditions = conditions.iter().map(Condition::precondition);
        let all = of_index.unwrap_or_default().into_iter().chain(of_conditions);
        Self { options: ReadOptions::new().require_all(all), requires_index, conditions }
    }

    fn unmet(&self, error: StoreError) -> Failure {
        match &error {
            StoreError::VersionMismatch { path } => {
                let condition = self.conditions.iter().find(|condition| condition.object() == *path);
                condition.map_or_else(|| Failure::of_inner(error), |condition| condition.mismatch().into())
            }
            _ => Failure::of_inner(error),
        }
    }
}

impl Inner {
    /// A snapshot for the first attempt, which may be outdated. The latest snapshot is not used if this store has
    /// written the index since, or if the store did not exist yet.
    pub(crate) async fn likely_snapshot(&self) -> Result<Arc<Snapshot>, Failure> {
        let IndexHistory { latest, revision, .. } = self.history();
        match latest.filter(|latest| latest.index.exists() && latest.index.revision >= revision) {
            Some(latest) => Ok(latest),
            None => self.snapshot().await,
        }
    }

    /// Reads a path under the preconditions of the options.
    pub(crate) async fn read(&self, path: &StorePath, options: &ReadOptions) -> Result<Node, Failure> {
        self.observe_until_stable(|snapshot| async move { self.read_at(&snapshot, path, options).await }).await
    }

    /// Repeats `observe` until the index is the same before and after it. The result is then consistent, even if it is
    /// a failure.
    pub(crate) async fn with_stable_index<T, F>(&self, observe: impl Fn(Arc<Snapshot>) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        self.observe_until_stable(|snapshot| observe(snapshot).map_ok(|found| (found, false))).await
    }

    async fn observe_until_stable<T, F>(&self, observe: impl Fn(Arc<Snapshot>) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<Observation<T>, Failure>>,
    {
        let mut backoff = Backoff::new(self.options.timeout);
        let mut snapshot = self.likely_snapshot().await?;
        loop {
            let observed = match observe(Arc::clone(&snapshot)).await {
                Ok((found, true)) => return Ok(found),
                observed => observed,
            };
            let now = self.snapshot().await?;
            if Arc::ptr_eq(&now, &snapshot) {
                return observed.map(|(found, _)| found);
            }
            // With steady writers, a snapshot from before the wait would be outdated every time.
            let waited = backoff.pause().await?;
            snapshot = if waited { self.snapshot().await? } else { now };
        }
    }

    /// Reads a path. If possible, the same call to the inner store checks that the index is unchanged.
    async fn read_at(
        &self,
        snapshot: &Snapshot,
        path: &StorePath,
        options: &ReadOptions,
    ) -> Result<Observation<Node>, Failure> {
        let index = &snapshot.index;
        let conditions = Condition::of(options.preconditions(), index);
        let ciphertexts = Ciphertexts::default();
        if let Err(refusal) = options.check(&State::new(index, &ciphertexts, &conditions)) {
            let check = |state: &State<'_>| options.check(state);
            return Err(self.first_failure(index, &ciphertexts, &conditions, check, refusal).await);
        }
        let mut read = InnerRead::new(snapshot, conditions);
        if let Some(file) = index.files.files().get(path) {
            if options.allows_stale() {
                read.options = read.options.allow_stale();
            }
            return self.read_content(index, path, file, read).await;
        }
        if index.files.under(path).next().is_some() {
            return self.list_at(index, path, read).await;
        }
        let nothing = if path.is_root() { Node::Directory(Listing::default()) } else { Node::Absent };
        if read.conditions.is_empty() {
            return Ok((nothing, false));
        }
        // Read the first copy of the index, because there is nothing else to read under the preconditions.
        match self.inner_store.read_opts(&ObjectName::Index(IndexCopy::First).path(), read.options.clone()).await {
            Ok(_) => Ok((nothing, read.requires_index)),
            Err(error) => Err(read.unmet(error)),
        }
    }

    async fn read_content(
        &self,
        index: &Index,
        path: &StorePath,
        file: &FileRecord,
        read: InnerRead,
    ) -> Result<Observation<Node>, Failure> {
        let object = match self.inner_store.read_opts(&ObjectName::Content(file.id).path(), read.options.clone()).await
        {
            Err(error @ (StoreError::VersionMismatch { .. } | StoreError::AlreadyExists { .. })) => {
                return Err(read.unmet(error));
            }
            Err(StoreError::Refused { policy, reason, .. }) => return Err(Failure::refused(path, policy, reason)),
            object => object,
        };
        let stored = self.ciphertext(file.id, object)?;
        let content = self.open_content(index, file, stored.content).await?;
        let found = StoredFile::new(content, version::outer(file.id, &stored.version));
        Ok((Node::File(found), read.requires_index))
    }

    /// Reads the plaintext of a file or record, with the version of its ciphertext.
    pub(crate) async fn read_plaintext(
        &self,
        index: &Index,
        file: &FileRecord,
    ) -> Result<(Plaintext, Version), Failure> {
        let object = self.inner_store.read_opts(&ObjectName::Content(file.id).path(), ReadOptions::new()).await;
        let stored = self.ciphertext(file.id, object)?;
        Ok((Plaintext::new(self.open_content(index, file, stored.content).await?), stored.version))
    }

    /// Extracts the ciphertext from the result of reading its path.
    fn ciphertext(&self, id: Id, object: Result<Node, StoreError>) -> Result<StoredFile, Failure> {
        let object = StoredObject::of(object)?.into_object(ObjectName::Content(id));
        if object.is_err() {
            self.note_read(id, &object);
        }
        object
    }

    /// Decrypts the content of a file or record.
    async fn open_content(&self, index: &Index, file: &FileRecord, stored: Vec<u8>) -> Result<Vec<u8>, Failure> {
        let opened = self.decrypt_content(index, file, stored).await;
        self.note_read(file.id, &opened);
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
            return Err(damaged(Damage::Content("its size differs from the index")));
        }
        Ok(content)
    }

    async fn list_at(
        &self,
        index: &Index,
        directory: &StorePath,
        read: InnerRead,
    ) -> Result<Observation<Node>, Failure> {
        let stored = match self.inner_store.read_opts(&StorePath::memories(), read.options.clone()).await {
            Ok(stored) => stored.into_listing().files,
            Err(error) => return Err(read.unmet(error)),
        };
        let ciphertexts = Ciphertexts::among(stored);
        let is_read_again = index.files.under(directory).any(|(_, file)| self.was_damaged(file.id));
        let mut entries: Vec<FileEntry> = Vec::new();
        for (path, file) in index.files.under(directory) {
            let is_damaged = self.is_damaged_still(index, file).await?;
            entries.push(ciphertexts.entry(path, file, is_damaged));
        }
        Ok((Node::Directory(entries.into()), read.requires_index && !is_read_again))
    }

    /// Whether the file is still damaged, if an earlier read found it damaged. A listing reads no other files.
    async fn is_damaged_still(&self, index: &Index, file: &FileRecord) -> Result<bool, Failure> {
        if !self.was_damaged(file.id) {
            return Ok(false);
        }
        match self.read_plaintext(index, file).await {
            Ok(_) => Ok(false),
            Err(failure) if failure.is_damage() => Ok(true),
            Err(failure) => Err(failure),
        }
    }

    /// Lists the ciphertexts, unless the index has the size of every file.
    pub(crate) async fn ciphertexts_of(&self, files: &BTreeMap<StorePath, FileRecord>) -> Result<Ciphertexts, Failure> {
        if files.values().all(|file| file.size.is_some()) {
            return Ok(Ciphertexts::default());
        }
        Ok(Ciphertexts::among(self.list_inner().await?))
    }

    /// The failure to report if a check refuses the state even though all conditions are assumed to hold. A condition
    /// that does not hold may be checked earlier, so the check is repeated with the actual versions.
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
                Ok(StoredObject::File(file)) => actual.push(Condition { version: file.version, ..condition.clone() }),
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
