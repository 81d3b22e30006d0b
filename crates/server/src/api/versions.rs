//! The endpoints of memory versions, which are entries of the history.

use std::sync::Arc;
use std::time::SystemTime;

use axum::Json;
use axum::extract::State;
use memory_tool::history::{Digest, HistoryError};
use memory_tool::store::{ReadOptions, StorePath};
use serde_json::{Value, json};

use super::index::{ActorRef, Index, Operation, Redacted, Version, VersionId, millis, time};
use super::memories::{sha256, text};
use super::state::{Opened, failed};
use super::wire::{Asked, View, api_path, format_time, page_after};
use crate::access::{Caller, Right};
use crate::error::ApiError;
use crate::path::Path;
use crate::service::Service;

type Reply = Result<Json<Value>, ApiError>;

fn no_such_version(id: &str) -> ApiError {
    ApiError::not_found(format!("there is no memory version {id:?} in this store"))
}

/// A version, and the places of its contents.
struct Found {
    id: VersionId,
    version: Version,
    memory_id: Arc<str>,
    keeper: Option<(u64, usize)>,
    /// The present path of the file, if no later version changed its contents.
    present: Option<StorePath>,
}

impl Found {
    fn in_index(index: &Index, id: &VersionId) -> Option<Self> {
        let version = index.versions.get(id)?.clone();
        let (file, keeper) = (&index.files[version.file], index.keeper(id));
        let present = file.path.clone().filter(|_| keeper.is_none());
        Some(Self { id: id.clone(), memory_id: Arc::clone(&file.id), version, keeper, present })
    }
}

impl Opened {
    /// The contents of a version. `None` if it is a removal, or if they are not kept.
    async fn content(&self, found: &Found) -> Result<Option<Vec<u8>>, ApiError> {
        let version = &found.version;
        if version.operation == Operation::Deleted || version.redacted.is_some() {
            return Ok(None);
        }
        let content = if let Some((number, index)) = found.keeper {
            match self.history()?.replaced_by(number, index).await {
                Ok(content) => Some(content),
                Err(HistoryError::Store(error)) => return Err(error.into()),
                Err(_) => None,
            }
        } else if let Some(path) = &found.present {
            self.store.read_opts(path, ReadOptions::new()).await?.into_file().map(|file| file.content)
        } else {
            None
        };
        // Another program may have changed the file since.
        let is_same =
            |content: &Vec<u8>| version.digest.is_none_or(|digest| digest.sha256.to_string() == sha256(content));
        Ok(content.filter(is_same))
    }

    async fn version(&self, found: &Found, view: View, is_listed: bool) -> Result<Value, ApiError> {
        let Found { id, version, memory_id, .. } = found;
        let is_unknown = version.digest.is_none() && version.redacted.is_none();
        let content = if view == View::Full || is_unknown { self.content(found).await? } else { None };
        let (mut shown, mut sha, mut size) = (None, None, None);
        if let Some(Digest { size: bytes, sha256, .. }) = version.digest {
            (sha, size) = (Some(sha256.to_string()), Some(bytes));
        } else if let Some(content) = &content {
            (sha, size) = (Some(sha256(content)), Some(content.len() as u64));
        }
        if let (View::Full, Some(content)) = (view, &content) {
            shown = match text(content) {
                Err(_) if is_listed => None,
                text => Some(text?),
            };
        }
        Ok(json!({
            "type": "memory_version", "id": id, "memory_id": memory_id, "memory_store_id": self.id(),
            "operation": version.operation, "path": version.path.as_ref().map(api_path), "content": shown,
            "content_sha256": sha, "content_size_bytes": size, "created_at": format_time(version.time),
            "created_by": version.actor, "redacted_at": version.redacted.as_ref().map(|it| format_time(it.at)),
            "redacted_by": version.redacted.as_ref().map(|it| &it.by),
        }))
    }

    async fn find_version(&self, id: &str) -> Result<Found, ApiError> {
        let parsed = VersionId::try_from(id.to_owned()).map_err(|_| no_such_version(id))?;
        self.refresh().await?;
        self.with(|index| Found::in_index(index, &parsed)).ok_or_else(|| no_such_version(id))
    }
}

pub(super) async fn read(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path((id, version)): Path<(String, String)>,
    asked: Asked,
) -> Reply {
    let store = Opened::open(&service, &caller, &id, Right::Read).await?;
    let view = asked.view(View::Full)?;
    let found = store.find_version(&version).await?;
    Ok(Json(store.version(&found, view, false).await?))
}

pub(super) async fn list(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path(id): Path<String>,
    asked: Asked,
) -> Reply {
    const FILTERS: [&str; 7] = [
        "memory_id",
        "operation",
        "session_id",
        "api_key_id",
        "service_account_id",
        "created_at[gte]",
        "created_at[lte]",
    ];
    let store = Opened::open(&service, &caller, &id, Right::Read).await?;
    let view = asked.view(View::Basic)?;
    let list = asked.list("versions", &id, &FILTERS);
    let (limit, after) = (asked.limit(view)?, asked.cursor(&list)?);
    let after = after.map(VersionId::try_from).transpose();
    let after = after.map_err(|_| ApiError::invalid("page: not a page of this list"))?;
    let (since, until) = (asked.time("created_at[gte]")?, asked.time("created_at[lte]")?);
    let operation = match asked.get("operation") {
        None => None,
        Some("created") => Some(Operation::Created),
        Some("modified") => Some(Operation::Modified),
        Some("deleted") => Some(Operation::Deleted),
        Some(other) => return Err(ApiError::invalid(format!("operation: {other:?} is not an operation"))),
    };
    let is_by = |version: &Version| {
        let by = |name: &str, id: Option<&String>| asked.get(name).is_none_or(|asked| id.is_some_and(|id| id == asked));
        let (session, key) = match &version.actor {
            Some(ActorRef::Session { session_id }) => (Some(session_id), None),
            Some(ActorRef::Api { api_key_id }) => (None, Some(api_key_id)),
            _ => (None, None),
        };
        by("session_id", session) && by("api_key_id", key) && by("service_account_id", None)
    };
    store.refresh().await?;
    store.observe().await?;
    let mut found: Vec<_> = store.with(|index| {
        let newest_first = index.versions.iter().rev().filter(|(id, version)| {
            after.as_ref().is_none_or(|after| *id < after)
                && asked.get("memory_id").is_none_or(|memory| &*index.files[version.file].id == memory)
                && operation.is_none_or(|operation| version.operation == operation)
                && since.is_none_or(|since| time(version.time) >= since)
                && until.is_none_or(|until| time(version.time) <= until)
                && is_by(version)
        });
        newest_first.take(limit + 1).filter_map(|(id, _)| Found::in_index(index, id)).collect()
    });
    let has_more = found.len() > limit;
    found.truncate(limit);
    let last = found.last().map(|found| String::from(found.id.clone()));
    let mut data = Vec::new();
    for found in &found {
        data.push(store.version(found, view, true).await?);
    }
    let next_page = last.filter(|_| has_more).map(|last| page_after(&list, &last));
    Ok(Json(json!({"data": data, "next_page": next_page})))
}

/// Redacts a version, and the other versions of the same change, which a rename of a directory has.
pub(super) async fn redact(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path((id, version)): Path<(String, String)>,
) -> Reply {
    let store = Opened::open(&service, &caller, &id, Right::Write).await?;
    let found = store.find_version(&version).await?;
    if found.version.redacted.is_some() {
        return Ok(Json(store.version(&found, View::Basic, false).await?));
    }
    let is_same = |other: &VersionId| (other.number, other.index) == (found.id.number, found.id.index);
    let (has_head, redacted, keeping) = store.with(|index| {
        let ids: Vec<_> = index.versions.keys().filter(|other| is_same(other)).cloned().collect();
        let has_head = ids.iter().any(|id| index.is_head(id));
        let keeping: Vec<_> = if found.version.operation == Operation::Deleted {
            Vec::new()
        } else {
            ids.iter().filter_map(|id| index.keeper(id)).collect()
        };
        let by = ActorRef::Api { api_key_id: caller.actor().name().to_owned() };
        let redacted = ids.into_iter().filter_map(|id| {
            let version = index.versions.get(&id)?;
            let memory_id = Arc::clone(&index.files[version.file].id);
            let at = millis(SystemTime::now());
            Some((id, Redacted { memory_id, operation: version.operation, at, by: by.clone() }))
        });
        (has_head, redacted.collect::<Vec<_>>(), keeping)
    });
    if has_head {
        let message = "the current version of a memory cannot be redacted: update or delete the memory first";
        return Err(ApiError::invalid(message));
    }
    store.keep_redacted(redacted).await?;
    let history = store.history()?.by(caller.actor().clone());
    history.redact_change((found.id.number, found.id.index), &keeping).await.map_err(failed)?;
    store.forget_index();
    let found = store.find_version(&version).await?;
    Ok(Json(store.version(&found, View::Basic, false).await?))
}
