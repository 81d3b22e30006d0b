//! [`MemoryStore`]: the memory store of a request.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use memory_tool::history::{History, Id, LogEnd, Versions};
use memory_tool::store::{Batch, MemoryName, ReadOptions, StorePath};
use memory_tool::{Node, Store, StoreError};
use serde_json::Value;

use super::wire::{ApiQuery, millis};
use crate::access::{Caller, Right};
use crate::http::error::ApiError;
use crate::http::path::Path;
use crate::memories::record::StoreRecord;
use crate::memories::visit::{Door, Purpose, Visit};
use crate::service::Service;

/// Attempts of an operation while others change the same memory.
pub(super) const MAX_ATTEMPTS: usize = 100;

pub(super) type Reply = Result<Json<Value>, ApiError>;

/// A request of the API for a memory store.
pub(super) struct ApiCall {
    service: Arc<Service>,
    caller: Caller,
    pub(super) query: ApiQuery,
    /// The id of the memory store.
    pub(super) store: String,
    /// The id of the memory or of the version, if the path has one.
    pub(super) item: String,
}

impl FromRequestParts<Arc<Service>> for ApiCall {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, ApiError> {
        let caller = parts.extensions.get().cloned().ok_or_else(ApiError::authentication)?;
        let Path(mut ids) = Path::<HashMap<String, String>>::from_request_parts(parts, service).await?;
        let query = ApiQuery::from_request_parts(parts, service).await?;
        let store = ids.remove("id").unwrap_or_default();
        let item = ids.into_values().next().unwrap_or_default();
        Ok(Self { service: Arc::clone(service), caller, query, store, item })
    }
}

impl ApiCall {
    /// The memory store, if the caller has a right in it.
    pub(super) async fn open(&self, right: Right, purpose: Purpose) -> Result<MemoryStore, ApiError> {
        MemoryStore::open(&self.service, &self.caller, &self.store, right, purpose).await
    }
}

/// A memory store of a request.
#[derive(Debug)]
pub(super) struct MemoryStore {
    pub(super) visit: Visit,
}

impl MemoryStore {
    pub(super) async fn open(
        service: &Service,
        caller: &Caller,
        id: &str,
        right: Right,
        purpose: Purpose,
    ) -> Result<Self, ApiError> {
        Ok(Self { visit: Door::find(&service.memories, caller, id, right).await?.enter(purpose).await? })
    }

    /// A new memory store. Its record is the first part.
    pub(super) async fn create(service: &Service, caller: &Caller, name: &MemoryName) -> Result<Self, ApiError> {
        Ok(Self { visit: Door::create(&service.memories, caller, name).await?.enter(Purpose::CHANGE).await? })
    }

    /// The record. A memory without one has its name, and is as old as its oldest file.
    pub(super) async fn record(&self) -> Result<StoreRecord, ApiError> {
        if let Some(record) = &self.visit.record {
            return Ok(record.clone());
        }
        let root = self.visit.memory.store().read_opts(&StorePath::memories(), ReadOptions::new()).await?;
        let times = root.into_listing().files.into_iter().filter_map(|file| file.created.or(file.modified)).map(millis);
        let created_at = times.min().unwrap_or_default();
        let name = self.id().to_owned();
        Ok(StoreRecord { name, created_at, updated_at: created_at, ..Default::default() })
    }

    pub(super) fn id(&self) -> &str {
        self.visit.name()
    }

    /// Reads a file of the memory at an end of the log. `None` if others changed the log since.
    pub(super) async fn read_at(&self, end: &LogEnd, path: &StorePath) -> Result<Option<Node>, StoreError> {
        match self.visit.memory.store().read_opts(path, end.require_in_read()).await {
            Err(error) if is_outdated(&error) => Ok(None),
            node => node.map(Some),
        }
    }

    pub(super) async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.visit.memory.store().apply(batch).await
    }

    /// Changes the record of the store, and returns it. `change` returns `None` if nothing changes.
    pub(super) async fn change_record(
        &self,
        command: &'static str,
        change: impl Fn(&StoreRecord) -> Result<Option<StoreRecord>, ApiError> + Send,
    ) -> Result<StoreRecord, ApiError> {
        for _ in 0..MAX_ATTEMPTS {
            let (found, state) = StoreRecord::read(&*self.visit.memory.store()).await?;
            let record = if let Some(record) = found { record } else { self.record().await? };
            let Some(changed) = change(&record)? else { return Ok(record) };
            let bytes = serde_json::to_vec(&changed).map_err(ApiError::internal)?;
            let batch = Batch::new().for_command(command).require(StoreRecord::path(), state);
            match self.apply(batch.write(StoreRecord::path(), bytes)).await {
                Err(StoreError::VersionMismatch { .. } | StoreError::AlreadyExists { .. }) => {}
                outcome => return outcome.map(|()| changed).map_err(ApiError::from),
            }
        }
        Err(ApiError::busy())
    }

    pub(super) fn history(&self) -> Result<History<Arc<dyn Store>>, ApiError> {
        self.visit.memory.history().ok_or_else(|| ApiError::not_found("the memory has no history"))
    }

    /// Brings the versions of all files up to date.
    pub(super) async fn refresh(&self) -> Result<LogEnd, ApiError> {
        Ok(self.history()?.refresh(&self.visit.open.versions).await?)
    }

    /// Uses the versions at an end of the log. `None` after a later refresh by another request.
    pub(super) fn at<T>(&self, end: &LogEnd, use_it: impl FnOnce(&Versions) -> T) -> Option<T> {
        self.visit.open.versions.at(end, use_it)
    }

    /// Uses the versions of this moment.
    pub(super) async fn now<T: Send>(
        &self,
        known: Known,
        use_it: impl Fn(&Versions) -> T + Send + Sync,
    ) -> Result<(LogEnd, T), ApiError> {
        for _ in 0..MAX_ATTEMPTS {
            let end = match known {
                Known::ToHistory => self.refresh().await?,
                Known::WithOutside => self.history()?.observe(&self.visit.open.versions).await?,
            };
            if let Some(found) = self.at(&end, &use_it) {
                return Ok((end, found));
            }
        }
        Err(ApiError::busy())
    }
}

/// The versions that an operation uses.
#[derive(Clone, Copy)]
pub(super) enum Known {
    /// Those that the history has.
    ToHistory,
    /// Also those of files by other programs, which takes a listing of all files.
    WithOutside,
}

/// Whether the log has another end than an operation required, so that it begins again.
pub(super) fn is_outdated(error: &StoreError) -> bool {
    match error {
        StoreError::VersionMismatch { path } | StoreError::AlreadyExists { path } => path.is_record(),
        _ => false,
    }
}

/// The identity of a memory in its text form.
pub(super) fn memory_id(id: Id) -> String {
    format!("mem_{id}")
}

pub(super) fn parse_memory_id(text: &str) -> Option<Id> {
    text.strip_prefix("mem_")?.to_owned().try_into().ok()
}
