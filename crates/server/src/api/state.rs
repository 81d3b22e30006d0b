//! [`Opened`]: the memory of a request, with its record.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use memory_tool::command::{CommandName, TurnGuard};
use memory_tool::history::{Entry, History, LogFilter};
use memory_tool::store::{Batch, MemoryName, Precondition, ReadOptions, StorePath};
use memory_tool::{FileEntry, Node, Store, StoreError};
use serde::{Deserialize, Serialize};

use super::index::{Ids, Index, Redacted, VersionId, millis, rewrites};
use crate::access::{Caller, Right};
use crate::error::ApiError;
use crate::memories::OpenMemory;
use crate::service::Service;

/// Attempts of a change while others change the same memory.
pub(super) const MAX_ATTEMPTS: usize = 100;

/// The index of an open memory, in this process.
#[derive(Debug, Default)]
pub(crate) struct ApiState {
    index: Mutex<Option<Index>>,
    /// Whether the memory was found to exist, so that not every command looks.
    exists: AtomicBool,
}

/// The record of a store.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct StoreRecord {
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: String,
    #[serde(default)]
    pub(super) metadata: BTreeMap<String, String>,
    /// Milliseconds since 1970, as all times here.
    pub(super) created_at: u64,
    pub(super) updated_at: u64,
    #[serde(default)]
    pub(super) archived_at: Option<u64>,
}

fn record(name: &str) -> StorePath {
    let join = |path: StorePath, name: &str| path.join(name).unwrap_or(path);
    join(join(StorePath::records(), "memory-stores"), name)
}

async fn read_record<T: for<'a> Deserialize<'a>>(
    store: &dyn Store,
    name: &str,
) -> Result<(Option<T>, Precondition), ApiError> {
    match store.read_opts(&record(name), ReadOptions::new()).await? {
        Node::File(file) => {
            let value = serde_json::from_slice(&file.content).map_err(|_| ApiError::storage())?;
            Ok((Some(value), Precondition::Version(file.version)))
        }
        _ => Ok((None, Precondition::Absent)),
    }
}

/// Whether a memory has files, a history or a record.
pub(crate) async fn exists(memory: &Arc<OpenMemory>) -> Result<bool, ApiError> {
    if memory.api.exists.load(Ordering::Acquire) {
        return Ok(true);
    }
    let exists = Opened::new(Arc::clone(memory)).await?.is_some();
    memory.api.exists.store(exists, Ordering::Release);
    Ok(exists)
}

/// Refuses a command that may change an archived store.
///
/// # Errors
/// [`ApiError`] 400 if it is archived.
pub(crate) async fn refuse_archived(memory: &OpenMemory, command: Option<CommandName>) -> Result<(), ApiError> {
    if command == Some(CommandName::View) {
        return Ok(());
    }
    let (found, _) = read_record::<StoreRecord>(&*memory.memory.store(), "store").await?;
    if found.is_some_and(|found| found.archived_at.is_some()) { Err(archived()) } else { Ok(()) }
}

pub(super) fn archived() -> ApiError {
    ApiError::invalid("the memory store is archived, so it is read-only")
}

/// A memory that exists and that the caller may use.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) memory: Arc<OpenMemory>,
    pub(super) store: Arc<dyn Store>,
    pub(super) record: StoreRecord,
    /// The state of the record.
    required: Precondition,
    #[expect(dead_code, reason = "held, so that other changes wait")]
    turn: Option<TurnGuard>,
}

impl Opened {
    pub(super) async fn open(service: &Service, caller: &Caller, id: &str, right: Right) -> Result<Self, ApiError> {
        let name: MemoryName = id.parse().map_err(|_| ApiError::no_such_memory(id))?;
        caller.check(right, Some(&name))?;
        let memory = service.memories.open(&name).await?;
        // A store must not change, be archived or be deleted between a check and the change that it allows.
        let turn = if right == Right::Read { None } else { Some(memory.queue.enter(None).await) };
        let opened = Self::new(memory).await?.ok_or_else(|| ApiError::no_such_memory(id))?;
        Ok(Self { turn, ..opened })
    }

    pub(super) async fn create(service: &Service, name: &MemoryName) -> Result<Self, ApiError> {
        let memory = service.memories.create(name).await?;
        let store = memory.memory.store();
        Ok(Self { memory, store, record: StoreRecord::default(), required: Precondition::Absent, turn: None })
    }

    /// `None` if the memory has no files and no record, so that it does not exist. Directories can remain of it.
    pub(super) async fn new(memory: Arc<OpenMemory>) -> Result<Option<Self>, ApiError> {
        let store = memory.memory.store();
        let (found, required) = read_record(&*store, "store").await?;
        let record = match found {
            Some(record) => record,
            None => {
                let files = list(&*store).await?;
                if files.is_empty()
                    && memory.memory.history().ok_or_else(ApiError::storage)?.newest().await.map_err(failed)? == 0
                {
                    return Ok(None);
                }
                let times = files.iter().filter_map(|file| file.created.or(file.modified)).map(millis);
                let created_at = times.min().unwrap_or_default();
                StoreRecord { name: memory.name.to_string(), created_at, updated_at: created_at, ..Default::default() }
            }
        };
        Ok(Some(Self { memory, store, record, required, turn: None }))
    }

    pub(super) fn id(&self) -> &str {
        self.memory.name.as_str()
    }

    /// Makes a batch fail if the store is archived.
    pub(super) fn require_unarchived(&self, batch: Batch) -> Result<Batch, ApiError> {
        if self.record.archived_at.is_some() {
            return Err(archived());
        }
        Ok(batch.require(record("store"), self.required.clone()))
    }

    pub(super) async fn reload(&mut self) -> Result<(), ApiError> {
        let (found, required) = read_record(&*self.store, "store").await?;
        match (found, &self.required) {
            (Some(found), _) => self.record = found,
            // Another server deleted it.
            (None, Precondition::Version(_)) => return Err(ApiError::no_such_memory(self.id())),
            (None, _) => {}
        }
        self.required = required;
        Ok(())
    }

    /// Changes the record of the store. `change` returns `None` if nothing changes.
    pub(super) async fn change_record(
        &mut self,
        change: impl Fn(&StoreRecord) -> Result<Option<StoreRecord>, ApiError> + Send,
    ) -> Result<(), ApiError> {
        for _ in 0..MAX_ATTEMPTS {
            let Some(changed) = change(&self.record)? else { return Ok(()) };
            let bytes = serde_json::to_vec(&changed).map_err(|_| ApiError::storage())?;
            let batch = Batch::new().require(record("store"), self.required.clone()).write(record("store"), bytes);
            match self.store.apply(batch).await {
                Err(StoreError::VersionMismatch { .. } | StoreError::AlreadyExists { .. }) => self.reload().await?,
                outcome => {
                    outcome?;
                    self.record = changed;
                    return Ok(());
                }
            }
        }
        Err(ApiError::storage())
    }

    pub(super) fn history(&self) -> Result<History<Arc<dyn Store>>, ApiError> {
        self.memory.memory.history().ok_or_else(ApiError::storage)
    }

    fn index(&self) -> std::sync::MutexGuard<'_, Option<Index>> {
        self.memory.api.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn forget_index(&self) {
        *self.index() = None;
    }

    /// Forgets everything about a memory that was deleted.
    pub(super) fn forget_all(&self) {
        self.forget_index();
        self.memory.api.exists.store(false, Ordering::Release);
    }

    /// Uses the index after [`refresh`](Self::refresh).
    pub(super) fn with<T>(&self, use_it: impl FnOnce(&Index) -> T) -> T {
        use_it(self.index().get_or_insert_default())
    }

    /// Reads what was added to the log.
    pub(super) async fn refresh(&self) -> Result<(), ApiError> {
        let history = self.history()?;
        let newest = history.newest().await.map_err(failed)?;
        let known = self.index().as_ref().map(|index| (index.number(), index.last.clone()));
        if known.as_ref().is_some_and(|(number, _)| *number == newest) {
            return Ok(());
        }
        if let Some((number, last)) = known.filter(|(number, _)| (1..newest).contains(number)) {
            let limit = usize::try_from(newest - number + 1).unwrap_or(usize::MAX);
            let filter = LogFilter::new().before(newest + 1).limit(limit);
            let mut entries = history.entries(&filter).await.map_err(failed)?;
            let is_continued = entries.pop().is_some_and(|entry| Some(entry) == last);
            if is_continued && !entries.iter().any(rewrites) {
                self.extend_index(entries);
                return self.renew_record().await;
            }
        }
        self.rebuild().await?;
        self.renew_record().await
    }

    /// Another request may have added some of the entries.
    fn extend_index(&self, newest_first: Vec<Entry>) {
        if let Some(index) = self.index().as_mut() {
            for entry in newest_first.into_iter().rev() {
                if entry.number == index.number() + 1 {
                    index.extend(entry);
                }
            }
        }
    }

    /// Replaces the index, unless another request extended it.
    fn replace_index(&self, changed: Index) -> bool {
        let mut index = self.index();
        let is_current = index.as_ref().is_none_or(|index| index.number() == changed.number());
        if is_current {
            *index = Some(changed);
        }
        is_current
    }

    async fn rebuild(&self) -> Result<(), ApiError> {
        let (ids, _) = read_record::<Ids>(&*self.store, "ids").await?;
        let mut entries = self.history()?.entries(&LogFilter::new()).await.map_err(failed)?;
        entries.reverse();
        *self.index() = Some(Index::new(ids.unwrap_or_default(), entries));
        Ok(())
    }

    async fn renew_record(&self) -> Result<(), ApiError> {
        if self.with(Index::needs_record) { self.observe().await.map(drop) } else { Ok(()) }
    }

    /// Lists the files, and gives ids to those by other programs.
    pub(super) async fn observe(&self) -> Result<Vec<FileEntry>, ApiError> {
        for _ in 0..MAX_ATTEMPTS {
            let files = list(&*self.store).await?;
            let mut changed = self.with(Index::clone);
            if !changed.observe(&files) && !changed.needs_record() {
                return Ok(files);
            }
            let (stored, required) = read_record::<Ids>(&*self.store, "ids").await?;
            let mut ids = changed.record();
            let stored = stored.unwrap_or_default();
            if stored.number > ids.number {
                self.rebuild().await?;
                continue;
            }
            ids.redacted.extend(stored.redacted);
            if self.write_ids(&ids, required).await? {
                changed.ids.number = ids.number;
                changed.ids.redacted = ids.redacted;
                if !self.replace_index(changed) {
                    self.rebuild().await?;
                }
                return Ok(files);
            }
            self.rebuild().await?;
        }
        Err(ApiError::storage())
    }

    async fn write_ids(&self, ids: &Ids, required: Precondition) -> Result<bool, ApiError> {
        let bytes = serde_json::to_vec(ids).map_err(|_| ApiError::storage())?;
        let batch = Batch::new().require(record("ids"), required).write(record("ids"), bytes);
        match self.store.apply(batch).await {
            Err(StoreError::VersionMismatch { .. } | StoreError::AlreadyExists { .. }) => Ok(false),
            outcome => Ok(outcome.map(|()| true)?),
        }
    }

    /// Keeps what is not redacted of versions, before the log loses it.
    pub(super) async fn keep_redacted(&self, redacted: Vec<(VersionId, Redacted)>) -> Result<(), ApiError> {
        for _ in 0..MAX_ATTEMPTS {
            self.refresh().await?;
            let (stored, required) = read_record::<Ids>(&*self.store, "ids").await?;
            let mut ids = self.with(Index::record);
            ids.redacted.extend(stored.unwrap_or_default().redacted);
            ids.redacted.extend(redacted.iter().cloned());
            if self.write_ids(&ids, required).await? {
                return Ok(());
            }
        }
        Err(ApiError::storage())
    }
}

pub(super) async fn list(store: &dyn Store) -> Result<Vec<FileEntry>, ApiError> {
    let mut files = store.read_opts(&StorePath::memories(), ReadOptions::new()).await?.into_listing().files;
    files.sort_unstable_by(|left, right| left.path.cmp(&right.path));
    Ok(files)
}

/// The log has the reason; the client does not get it.
pub(super) fn failed<E>(_: E) -> ApiError {
    ApiError::storage()
}
