//! [`Opened`]: the memory of a request, with its record.

use std::sync::Arc;

use memory_tool::command::{CommandName, TurnGuard};
use memory_tool::history::{History, HistoryError, Id, LogEnd, VersionCache, Versions};
use memory_tool::store::{Batch, MemoryName, Precondition, ReadOptions, StorePath};
use memory_tool::{Memory, Store, StoreError};

use super::wire::millis;
use crate::access::{Caller, Right};
use crate::http::error::{ApiError, log_failure};
use crate::memories::OpenMemory;
use crate::memories::record::StoreRecord;
use crate::service::Service;

/// Attempts of an operation while others change the same memory.
pub(super) const MAX_ATTEMPTS: usize = 100;

/// The versions of all files of an open memory, in this process.
pub(crate) type ApiState = VersionCache;

/// Whether a memory has files, a history or a record.
pub(crate) async fn exists(memory: &Arc<OpenMemory>) -> Result<bool, ApiError> {
    let store = memory.memory.store();
    if StoreRecord::read(&*store).await?.0.is_some() {
        return Ok(true);
    }
    if let Some(history) = memory.memory.history()
        && history.is_started().await?
    {
        return Ok(true);
    }
    let files = store.read_opts(&StorePath::memories(), ReadOptions::new()).await?.into_listing().files;
    Ok(!files.is_empty())
}

/// Refuses a command that may change an archived store.
///
/// # Errors
/// [`ApiError`] 400 if it is archived.
pub(crate) async fn refuse_archived(memory: &OpenMemory, command: Option<CommandName>) -> Result<(), ApiError> {
    if command == Some(CommandName::View) {
        return Ok(());
    }
    let (found, _) = StoreRecord::read(&*memory.memory.store()).await?;
    if found.is_some_and(|found| found.archived_at.is_some()) { Err(archived()) } else { Ok(()) }
}

pub(super) fn archived() -> ApiError {
    ApiError::invalid("the memory store is archived, so it is read-only")
}

/// A memory that exists and that the caller may use.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) open: Arc<OpenMemory>,
    /// The memory for the caller. Changes are refused while it is archived.
    pub(super) memory: Memory,
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
        let open = service.memories.open(&name).await?;
        let turn = if right == Right::Read { None } else { Some(open.queue.enter(None).await) };
        let opened = Self::new(open, caller).await?.ok_or_else(|| ApiError::no_such_memory(id))?;
        Ok(Self { turn, ..opened })
    }

    pub(super) async fn create(service: &Service, caller: &Caller, name: &MemoryName) -> Result<Self, ApiError> {
        let open = service.memories.create(name).await?;
        let memory = open.unguarded_by(caller);
        let (store, record) = (memory.store(), StoreRecord::default());
        Ok(Self { open, memory, store, record, required: Precondition::Absent, turn: None })
    }

    /// `None` if the memory has no files, no history and no record, so that it does not exist. Directories can remain.
    pub(super) async fn new(open: Arc<OpenMemory>, caller: &Caller) -> Result<Option<Self>, ApiError> {
        let memory = open.by(caller);
        let store = memory.store();
        let (found, required) = StoreRecord::read(&*store).await?;
        let record = match found {
            Some(record) => record,
            None if !exists(&open).await? => return Ok(None),
            None => {
                let files = store.read_opts(&StorePath::memories(), ReadOptions::new()).await?.into_listing().files;
                let times = files.iter().filter_map(|file| file.created.or(file.modified)).map(millis);
                let created_at = times.min().unwrap_or_default();
                StoreRecord { name: open.name.to_string(), created_at, updated_at: created_at, ..Default::default() }
            }
        };
        Ok(Some(Self { open, memory, store, record, required, turn: None }))
    }

    pub(super) fn id(&self) -> &str {
        self.open.name.as_str()
    }

    async fn reload(&mut self) -> Result<(), ApiError> {
        let (found, required) = StoreRecord::read(&*self.store).await?;
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
        command: &'static str,
        change: impl Fn(&StoreRecord) -> Result<Option<StoreRecord>, ApiError> + Send,
    ) -> Result<(), ApiError> {
        for _ in 0..MAX_ATTEMPTS {
            let Some(changed) = change(&self.record)? else { return Ok(()) };
            let bytes = serde_json::to_vec(&changed).map_err(ApiError::internal)?;
            let batch = Batch::new().for_command(command).require(StoreRecord::path(), self.required.clone());
            match self.memory.store().apply(batch.write(StoreRecord::path(), bytes)).await {
                Err(StoreError::VersionMismatch { .. } | StoreError::AlreadyExists { .. }) => self.reload().await?,
                outcome => {
                    outcome?;
                    self.record = changed;
                    return Ok(());
                }
            }
        }
        Err(ApiError::busy())
    }

    pub(super) fn history(&self) -> Result<History<Arc<dyn Store>>, ApiError> {
        self.memory.history().ok_or_else(|| ApiError::not_found("the memory has no history"))
    }

    /// Brings the versions of all files up to date.
    pub(super) async fn refresh(&self) -> Result<LogEnd, ApiError> {
        Ok(self.history()?.refresh(&self.open.api).await?)
    }

    /// Uses the versions at an end of the log. `None` after a later refresh by another request.
    pub(super) fn at<T>(&self, end: &LogEnd, use_it: impl FnOnce(&Versions) -> T) -> Option<T> {
        self.open.api.at(end, use_it)
    }

    /// Uses the versions of this moment that the history has.
    pub(super) async fn now<T: Send>(
        &self,
        use_it: impl Fn(&Versions) -> T + Send + Sync,
    ) -> Result<(LogEnd, T), ApiError> {
        for _ in 0..MAX_ATTEMPTS {
            let end = self.refresh().await?;
            if let Some(found) = self.at(&end, &use_it) {
                return Ok((end, found));
            }
        }
        Err(ApiError::busy())
    }

    /// Uses the versions of this moment, with the files of other programs, which takes a listing of all files.
    pub(super) async fn now_with_outside<T: Send>(
        &self,
        use_it: impl Fn(&Versions) -> T + Send + Sync,
    ) -> Result<(LogEnd, T), ApiError> {
        for _ in 0..MAX_ATTEMPTS {
            let end = self.history()?.observe(&self.open.api).await?;
            if let Some(found) = self.at(&end, &use_it) {
                return Ok((end, found));
            }
        }
        Err(ApiError::busy())
    }
}

/// Whether the log has another end than an operation required, so that it begins again.
pub(super) fn is_outdated(error: &StoreError) -> bool {
    match error {
        StoreError::VersionMismatch { path } | StoreError::AlreadyExists { path } => path.is_record(),
        _ => false,
    }
}

impl From<HistoryError> for ApiError {
    fn from(error: HistoryError) -> Self {
        match error {
            HistoryError::Store(error) => error.into(),
            error @ (HistoryError::Forgotten { .. } | HistoryError::NoEntry { .. }) => {
                Self::not_found(error.to_string())
            }
            error => {
                log_failure(&error);
                Self::storage()
            }
        }
    }
}

/// The identity of a memory in its text form.
pub(super) fn memory_id(id: Id) -> String {
    format!("mem_{id}")
}

pub(super) fn parse_memory_id(text: &str) -> Option<Id> {
    text.strip_prefix("mem_")?.to_owned().try_into().ok()
}
