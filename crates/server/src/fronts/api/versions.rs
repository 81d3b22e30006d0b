//! The endpoints of memory versions, which are entries of the history.

use std::time::SystemTime;

use axum::Json;
use memory_tool::history::{Digest, EntryRef, FileVersion, HistoryError, LogEnd, Operation, VersionId, Versions};
use memory_tool::store::StorePath;
use serde::Serialize;
use serde_json::{Value, json};

use super::state::{ApiCall, Known, MemoryStore, Reply, memory_id, parse_memory_id};
use super::wire::{ApiQuery, COMMAND_PREFIX, View, api_path, format_time, millis, not_a_page, page_after, text};
use crate::access::Right;
use crate::access::tokens::sha256;
use crate::http::error::ApiError;
use crate::memories::visit::Purpose;

fn no_such_version(id: &str) -> ApiError {
    ApiError::not_found(format!("there is no memory version {id:?} in this store"))
}

/// The author of a change.
#[derive(Debug, Serialize)]
#[serde(tag = "type")]
enum ActorRef<'a> {
    #[serde(rename = "api_actor")]
    Api { api_key_id: &'a str },
    #[serde(rename = "session_actor")]
    Session { session_id: &'a str },
    #[serde(rename = "user_actor")]
    User { user_id: &'a str },
}

impl<'a> ActorRef<'a> {
    /// The commands of the tool are by an agent, those of the API by a token, and all others by a person or a program.
    fn of(version: &'a FileVersion) -> Option<Self> {
        let name = version.actor.as_deref()?;
        Some(match version.command.as_deref() {
            Some(command) if command.starts_with(COMMAND_PREFIX) => Self::Api { api_key_id: name },
            Some("create" | "str_replace" | "insert" | "delete" | "rename") => Self::Session { session_id: name },
            _ => Self::User { user_id: name },
        })
    }
}

pub(super) fn version_id(id: &VersionId) -> String {
    format!("memver_{id}")
}

fn parse_version_id(text: &str) -> Option<VersionId> {
    text.strip_prefix("memver_")?.parse().ok()
}

/// A version, and the places of its contents.
struct Found {
    id: VersionId,
    version: FileVersion,
    keeper: Option<(EntryRef, usize)>,
    /// The present path of the file, if no later version changed its contents.
    present: Option<StorePath>,
    /// The time and the actor of its redaction.
    redaction: Option<(SystemTime, Option<String>)>,
}

impl Found {
    fn in_versions(versions: &Versions, id: &VersionId) -> Option<Self> {
        let (version, keeper) = (versions.get(id)?.clone(), versions.keeper(id));
        let present = versions.file(version.file)?.path.clone().filter(|_| keeper.is_none());
        let redaction = version.redacted_by.map(|by| versions.redaction(by).cloned().unwrap_or((version.time, None)));
        Some(Self { id: *id, version, keeper, present, redaction })
    }
}

impl MemoryStore {
    /// The contents of a version. `None` if it is a removal, or if they are not kept.
    async fn content(&self, end: &LogEnd, found: &Found) -> Result<Option<Vec<u8>>, ApiError> {
        let version = &found.version;
        if version.operation == Operation::Deleted || found.redaction.is_some() {
            return Ok(None);
        }
        let content = if let Some((entry, index)) = found.keeper {
            match self.history()?.replaced_by(entry, index).await {
                Ok(content) => Some(content),
                Err(HistoryError::Store(error)) => return Err(error.into()),
                Err(_) => None,
            }
        } else if let Some(path) = &found.present {
            self.read_at(end, path).await?.and_then(|node| node.into_file()).map(|file| file.content)
        } else {
            None
        };
        // Another program may have changed the file since.
        let is_same =
            |content: &Vec<u8>| version.digest.is_none_or(|digest| digest.sha256.to_string() == sha256(content));
        Ok(content.filter(is_same))
    }

    async fn version(&self, end: &LogEnd, found: &Found, view: View, is_listed: bool) -> Result<Value, ApiError> {
        let Found { id, version, redaction, .. } = found;
        let is_unknown = version.digest.is_none() && redaction.is_none();
        let content = if view == View::Full || is_unknown { self.content(end, found).await? } else { None };
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
        let by = redaction.as_ref().and_then(|(_, actor)| actor.as_deref());
        Ok(json!({
            "type": "memory_version", "id": version_id(id), "memory_id": memory_id(version.file),
            "memory_store_id": self.id(), "operation": version.operation,
            "path": version.path.as_ref().map(api_path), "content": shown, "content_sha256": sha,
            "content_size_bytes": size, "created_at": format_time(millis(version.time)),
            "created_by": ActorRef::of(version),
            "redacted_at": redaction.as_ref().map(|(at, _)| format_time(millis(*at))),
            "redacted_by": by.map(|api_key_id| ActorRef::Api { api_key_id }),
        }))
    }

    async fn find_version(&self, id: &str) -> Result<(LogEnd, Found), ApiError> {
        let parsed = parse_version_id(id).ok_or_else(|| no_such_version(id))?;
        let find = |versions: &Versions| Found::in_versions(versions, &parsed);
        let known = if parsed.number == 0 { Known::WithOutside } else { Known::ToHistory };
        let (end, found) = self.now(known, find).await?;
        Ok((end, found.ok_or_else(|| no_such_version(id))?))
    }
}

pub(super) async fn read(call: ApiCall) -> Reply {
    let store = call.open(Right::Read, Purpose::Look).await?;
    let view = call.query.view(View::Full)?;
    let (end, found) = store.find_version(&call.item).await?;
    Ok(Json(store.version(&end, &found, view, false).await?))
}

const FILTERS: [&str; 7] =
    ["memory_id", "operation", "session_id", "api_key_id", "service_account_id", "created_at[gte]", "created_at[lte]"];

/// The filter of a list.
fn filter(query: &ApiQuery) -> Result<impl Fn(&FileVersion) -> bool, ApiError> {
    let operation = match query.get("operation") {
        None => None,
        Some("created") => Some(Operation::Created),
        Some("modified") => Some(Operation::Modified),
        Some("deleted") => Some(Operation::Deleted),
        Some(other) => return Err(ApiError::invalid(format!("operation: {other:?} is not an operation"))),
    };
    let (since, until) = (query.time("created_at[gte]")?, query.time("created_at[lte]")?);
    let memory = query.get("memory_id").map(parse_memory_id);
    Ok(move |version: &FileVersion| {
        let by = |name: &str, id: Option<&str>| query.get(name).is_none_or(|wanted| id == Some(wanted));
        let (session, key) = match ActorRef::of(version) {
            Some(ActorRef::Session { session_id }) => (Some(session_id), None),
            Some(ActorRef::Api { api_key_id }) => (None, Some(api_key_id)),
            _ => (None, None),
        };
        by("session_id", session)
            && by("api_key_id", key)
            && by("service_account_id", None)
            && memory.is_none_or(|memory| memory == Some(version.file))
            && operation.is_none_or(|operation| version.operation == operation)
            && since.is_none_or(|since| version.time >= since)
            && until.is_none_or(|until| version.time <= until)
    })
}

pub(super) async fn list(call: ApiCall) -> Reply {
    let store = call.open(Right::Read, Purpose::Look).await?;
    let view = call.query.view(View::Basic)?;
    let list = call.query.list("versions", &call.store, &FILTERS);
    let (limit, after) = (call.query.limit(view)?, call.query.cursor(&list)?);
    let after = after.map(|after| parse_version_id(&after).ok_or_else(not_a_page)).transpose()?;
    let is_listed = filter(&call.query)?;
    let (end, mut found) = store
        .now(Known::WithOutside, |versions| {
            let newest_first = versions
                .iter()
                .rev()
                .filter(|&(id, version)| after.as_ref().is_none_or(|after| id < after) && is_listed(version));
            let page = newest_first.take(limit + 1);
            page.filter_map(|(id, _)| Found::in_versions(versions, id)).collect::<Vec<_>>()
        })
        .await?;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let last = found.last().map(|found| version_id(&found.id));
    let mut data = Vec::new();
    for found in &found {
        data.push(store.version(&end, found, view, true).await?);
    }
    let next_page = last.filter(|_| has_more).map(|last| page_after(&list, &last));
    Ok(Json(json!({"data": data, "next_page": next_page})))
}

/// Redacts a version, and the other versions of the same change, which a rename of a directory has.
pub(super) async fn redact(call: ApiCall) -> Reply {
    let store = call.open(Right::Write, Purpose::Remove).await?;
    let (end, found) = store.find_version(&call.item).await?;
    if found.redaction.is_some() {
        return Ok(Json(store.version(&end, &found, View::Basic, false).await?));
    }
    let (number, index) = (found.id.number, found.id.index);
    if number == 0 {
        let message = "this version cannot be redacted: another program wrote it, so the history does not have it";
        return Err(ApiError::invalid(message));
    }
    let (has_head, keeping) = store
        .at(&end, |versions| {
            let ids: Vec<_> = versions.of_change(number, index).map(|(id, _)| *id).collect();
            let keeping = if found.version.operation == Operation::Deleted {
                Vec::new()
            } else {
                ids.iter().filter_map(|id| versions.keeper(id)).collect()
            };
            (ids.iter().any(|id| versions.is_head(id)), keeping)
        })
        .ok_or_else(ApiError::busy)?;
    if has_head {
        let message = "the current version of a memory cannot be redacted: update or delete the memory first";
        return Err(ApiError::invalid(message));
    }
    let history = store.visit.memory.history().ok_or_else(ApiError::storage)?;
    let entry = EntryRef::with_id(number, found.version.entry);
    match history.redact_version((entry, index), &keeping).await {
        Err(HistoryError::OtherEntry { .. } | HistoryError::NoEntry { .. }) => return Err(no_such_version(&call.item)),
        redacted => redacted?,
    };
    // The identity of a file by another program is new after a redaction.
    let (end, found) = store
        .now(Known::ToHistory, |versions| {
            let (id, _) = versions.of_change(number, index).next()?;
            Found::in_versions(versions, id)
        })
        .await?;
    let found = found.ok_or_else(|| no_such_version(&call.item))?;
    Ok(Json(store.version(&end, &found, View::Basic, false).await?))
}
