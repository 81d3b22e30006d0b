//! The endpoints of memories, which are the files of a store.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use memory_tool::store::{Batch, Precondition, ReadOptions, StorePath, StoredFile};
use memory_tool::{Node, StoreError};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::index::{CREATE, DELETE, Operation, UPDATE};
use super::state::{MAX_ATTEMPTS, Opened};
use super::wire::{Asked, MAX_CONTENT_BYTES, View, api_path, body, format_time, nullable, page_after, parse_path};
use crate::access::{Caller, Right};
use crate::error::ApiError;
use crate::path::Path;
use crate::service::Service;

type Reply = Result<Json<Value>, ApiError>;

pub(super) fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The content, if the API can carry it.
pub(super) fn text(content: &[u8]) -> Result<&str, ApiError> {
    if content.len() > MAX_CONTENT_BYTES {
        let size = content.len();
        return Err(ApiError::invalid(format!("the memory has {size} bytes; the API carries up to 102,400")));
    }
    std::str::from_utf8(content).map_err(|_| ApiError::invalid("the memory is not UTF-8 text"))
}

fn no_such_memory(id: &str) -> ApiError {
    ApiError::not_found(format!("there is no memory {id:?} in this store"))
}

fn check_content(content: &str) -> Result<(), ApiError> {
    if content.len() > MAX_CONTENT_BYTES {
        let size = content.len();
        return Err(ApiError::invalid(format!("content: has {size} bytes; the limit is 102,400")));
    }
    if content.contains('\0') {
        return Err(ApiError::invalid("content: has a NUL character"));
    }
    Ok(())
}

fn check_sha256(given: &str) -> Result<(), ApiError> {
    let is_hash = given.len() == 64 && given.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let refused = || ApiError::invalid(format!("{given:?} is not a SHA-256 in 64 lowercase hexadecimal characters"));
    is_hash.then_some(()).ok_or_else(refused)
}

/// Refusals by a limit or by a policy name their reason.
fn refused(error: StoreError) -> ApiError {
    match error {
        StoreError::Refused { .. } | StoreError::OverQuota { .. } => ApiError::invalid(error.to_string()),
        error => error.into(),
    }
}

impl Opened {
    /// The memory at a path with these contents, after [`refresh`](Self::refresh). `None` if its id is not known.
    fn object(&self, path: &StorePath, content: &[u8], view: View) -> Result<Option<Value>, ApiError> {
        let shown = if view == View::Full { Some(text(content)?) } else { None };
        Ok(self.with(|index| {
            let file = index.at(path)?;
            let head = file.head.as_ref()?;
            let updated = index.versions.get(head).map_or(0, |version| version.time);
            Some(json!({
                "type": "memory", "id": file.id, "memory_store_id": self.id(), "path": api_path(path),
                "memory_version_id": head, "content": shown, "content_sha256": sha256(content),
                "content_size_bytes": content.len(), "created_at": format_time(file.created.unwrap_or(updated)),
                "updated_at": format_time(updated),
            }))
        }))
    }

    async fn object_now(&self, path: &StorePath, content: &[u8], view: View) -> Result<Option<Value>, ApiError> {
        self.refresh().await?;
        match self.object(path, content, view)? {
            Some(object) => Ok(Some(object)),
            None => {
                self.observe().await?;
                self.object(path, content, view)
            }
        }
    }

    async fn file(&self, path: &StorePath) -> Result<Option<StoredFile>, ApiError> {
        Ok(self.store.read_opts(path, ReadOptions::new()).await?.into_file())
    }

    /// The present path and file of a memory.
    async fn find(&self, id: &str) -> Result<(StorePath, StoredFile), ApiError> {
        self.refresh().await?;
        for attempt in 0..2 {
            if attempt == 1 {
                self.observe().await?;
            }
            let path = self.with(|index| index.file(id).and_then(|file| file.path.clone()));
            let Some(path) = path else { continue };
            if let Some(file) = self.file(&path).await? {
                return Ok((path, file));
            }
        }
        Err(no_such_memory(id))
    }

    async fn id_at(&self, path: &StorePath) -> Result<String, ApiError> {
        self.refresh().await?;
        let id = || self.with(|index| index.at(path).map(|file| file.id.to_string()));
        if let Some(id) = id() {
            return Ok(id);
        }
        self.observe().await?;
        Ok(id().unwrap_or_default())
    }

    /// The memory that occupies a path: at it, above it or below it. `None` if no memory does.
    async fn conflict(&self, path: &StorePath) -> Result<Option<ApiError>, ApiError> {
        let occupied = match self.store.read_opts(path, ReadOptions::new()).await? {
            Node::File(_) => Some(path.clone()),
            Node::Directory(listing) => listing.files.into_iter().map(|file| file.path).min(),
            Node::Absent => {
                let mut found = None;
                for above in path.parents().filter(|above| !above.is_root()) {
                    if self.file(&above).await?.is_some() {
                        found = Some(above);
                        break;
                    }
                }
                found
            }
        };
        let Some(occupied) = occupied else { return Ok(None) };
        let id = self.id_at(&occupied).await?;
        Ok(Some(ApiError::path_conflict(api_path(&occupied), &id)))
    }
}

#[derive(Deserialize)]
struct Create {
    path: String,
    content: Option<String>,
}

pub(super) async fn create(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path(id): Path<String>,
    asked: Asked,
    bytes: Bytes,
) -> Reply {
    let mut store = Opened::open(&service, &caller, &id, Right::Write).await?;
    let (view, create) = (asked.view(View::Basic)?, body::<Create>(&bytes)?);
    let (path, content) = (parse_path(&create.path)?, create.content.unwrap_or_default());
    check_content(&content)?;
    for _ in 0..MAX_ATTEMPTS {
        let batch = Batch::new().by(caller.actor().clone()).for_command(CREATE).require(&path, Precondition::Absent);
        let batch = store.require_unarchived(batch)?.write(&path, content.as_str());
        match store.store.apply(batch).await {
            Ok(()) => {
                let created = store.object_now(&path, content.as_bytes(), view).await?;
                return created.map(Json).ok_or_else(|| ApiError::not_found("the new memory was removed again"));
            }
            Err(StoreError::VersionMismatch { path } | StoreError::AlreadyExists { path }) if path.is_record() => {
                store.reload().await?;
            }
            Err(StoreError::AlreadyExists { .. } | StoreError::NotADirectory { .. }) => {
                let present = store.file(&path).await?.filter(|file| file.content == content.as_bytes());
                if let Some(file) = present.filter(|_| asked.is_retry)
                    && let Some(object) = store.object_now(&path, &file.content, view).await?
                {
                    return Ok(Json(object));
                }
                if let Some(conflict) = store.conflict(&path).await? {
                    return Err(conflict);
                }
            }
            Err(error) => return Err(refused(error)),
        }
    }
    Err(ApiError::storage())
}

pub(super) async fn read(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path((id, memory)): Path<(String, String)>,
    asked: Asked,
) -> Reply {
    let store = Opened::open(&service, &caller, &id, Right::Read).await?;
    let view = asked.view(View::Full)?;
    let (path, file) = store.find(&memory).await?;
    let found = store.object_now(&path, &file.content, view).await?;
    found.map(Json).ok_or_else(|| no_such_memory(&memory))
}

#[derive(Deserialize)]
struct Update {
    #[serde(default, deserialize_with = "nullable")]
    content: Option<Option<String>>,
    #[serde(default, deserialize_with = "nullable")]
    path: Option<Option<String>>,
    #[serde(default)]
    precondition: Option<Required>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Required {
    ContentSha256 { content_sha256: String },
}

pub(super) async fn update(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path((id, memory)): Path<(String, String)>,
    asked: Asked,
    bytes: Bytes,
) -> Reply {
    let mut store = Opened::open(&service, &caller, &id, Right::Write).await?;
    let (view, Update { content, path, precondition }) = (asked.view(View::Basic)?, body(&bytes)?);
    let (content, target) = (content.flatten(), path.flatten().map(|path| parse_path(&path)).transpose()?);
    content.as_deref().map_or(Ok(()), check_content)?;
    let required = precondition.map(|Required::ContentSha256 { content_sha256 }| content_sha256);
    required.as_deref().map_or(Ok(()), check_sha256)?;
    for _ in 0..MAX_ATTEMPTS {
        let (from, file) = store.find(&memory).await?;
        let to = target.clone().unwrap_or_else(|| from.clone());
        let new = content.as_ref().map_or(file.content.as_slice(), |content| content.as_bytes());
        let is_same = (&from, file.content.as_slice()) == (&to, new);
        if required.as_ref().is_some_and(|required| *required != sha256(&file.content)) && !(is_same && asked.is_retry)
        {
            return Err(ApiError::precondition_failed(format!("the content of {} is another", api_path(&from))));
        }
        let batch = store.require_unarchived(Batch::new().by(caller.actor().clone()).for_command(UPDATE))?;
        if is_same {
            let found = store.object_now(&to, new, view).await?;
            return found.map(Json).ok_or_else(|| no_such_memory(&memory));
        }
        if from != to && from.overlaps(&to) {
            return Err(ApiError::path_conflict(api_path(&from), &memory));
        }
        let batch = batch.require(&from, Precondition::Version(file.version));
        let batch = match (from == to, content.is_some() && new != file.content) {
            (true, _) => batch.write(&to, new),
            (false, false) => batch.require(&to, Precondition::Absent).rename(&from, &to),
            (false, true) => batch.require(&to, Precondition::Absent).write(&to, new).remove(&from),
        };
        match store.store.apply(batch).await {
            Ok(()) => {
                let found = store.object_now(&to, new, view).await?;
                return found.map(Json).ok_or_else(|| no_such_memory(&memory));
            }
            Err(StoreError::VersionMismatch { path } | StoreError::AlreadyExists { path }) if path.is_record() => {
                store.reload().await?;
            }
            Err(StoreError::VersionMismatch { .. } | StoreError::NotFound { .. }) => {}
            Err(StoreError::AlreadyExists { .. } | StoreError::NotADirectory { .. }) => {
                if let Some(conflict) = store.conflict(&to).await? {
                    return Err(conflict);
                }
            }
            Err(error) => return Err(refused(error)),
        }
    }
    Err(ApiError::precondition_failed("the memory kept changing"))
}

pub(super) async fn delete(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path((id, memory)): Path<(String, String)>,
    asked: Asked,
) -> Reply {
    let store = Opened::open(&service, &caller, &id, Right::Write).await?;
    let expected = asked.get("expected_content_sha256");
    expected.map_or(Ok(()), check_sha256)?;
    let deleted = || Ok(Json(json!({"id": memory, "type": "memory_deleted"})));
    for _ in 0..MAX_ATTEMPTS {
        let found = store.find(&memory).await;
        let was_deleted = |index: &super::index::Index| {
            let head = index.file(&memory).and_then(|file| index.versions.get(file.head.as_ref()?));
            head.is_some_and(|head| head.operation == Operation::Deleted)
        };
        if found.is_err() && asked.is_retry && store.with(was_deleted) {
            return deleted();
        }
        let (path, file) = found?;
        if expected.is_some_and(|expected| expected != sha256(&file.content)) {
            return Err(ApiError::precondition_failed(format!("the content of {} is another", api_path(&path))));
        }
        let batch = Batch::new().by(caller.actor().clone()).for_command(DELETE);
        match store.store.apply(batch.require(&path, Precondition::Version(file.version)).remove(&path)).await {
            Ok(()) => return deleted(),
            Err(StoreError::VersionMismatch { .. } | StoreError::NotFound { .. }) => {}
            Err(error) => return Err(refused(error)),
        }
    }
    Err(ApiError::precondition_failed("the memory kept changing"))
}

enum Item {
    Memory(StorePath),
    Prefix(StorePath),
}

impl Item {
    fn path(&self) -> &StorePath {
        match self {
            Self::Memory(path) | Self::Prefix(path) => path,
        }
    }
}

/// Sorted by path. A full list leaves out files that the API cannot carry; a basic one has them.
pub(super) async fn list(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path(id): Path<String>,
    asked: Asked,
) -> Reply {
    let store = Opened::open(&service, &caller, &id, Right::Read).await?;
    let view = asked.view(View::Basic)?;
    let depth = asked.get("depth").unwrap_or("0");
    if !["0", "1"].contains(&depth) {
        return Err(ApiError::invalid(format!("depth: {depth:?} is neither 0 nor 1")));
    }
    let list = asked.list("memories", &id, &["path_prefix", "depth"]);
    let (limit, after) = (asked.limit(view)?, asked.cursor(&list)?);
    let after = after.map(|after| after.parse::<StorePath>()).transpose();
    let after = after.map_err(|_| ApiError::invalid("page: not a page of this list"))?;
    let directory = match asked.get("path_prefix") {
        None | Some("/") => StorePath::memories(),
        Some(prefix) => {
            let directory = prefix
                .strip_suffix('/')
                .ok_or_else(|| ApiError::invalid(format!("path_prefix: {prefix:?} does not end with /")))?;
            parse_path(directory)?
        }
    };
    store.refresh().await?;
    let files = store.observe().await?.into_iter().map(|file| file.path).filter(|path| path.is_under(&directory));
    let level = directory.segments().count() + 1;
    let mut items: Vec<Item> = Vec::new();
    for path in files {
        let mut item = Item::Memory(path);
        if depth == "1" && item.path().segments().count() > level {
            let above = item.path().parents().find(|above| above.segments().count() == level);
            item = above.map_or(item, Item::Prefix);
        }
        let is_new = items.last().is_none_or(|last| last.path() != item.path());
        if is_new && after.as_ref().is_none_or(|after| item.path() > after) {
            items.push(item);
        }
    }
    let (mut data, mut next_page, mut last) = (Vec::new(), None, None);
    for item in items {
        if data.len() == limit {
            next_page = last.map(|last: StorePath| page_after(&list, last.as_str()));
            break;
        }
        match &item {
            Item::Prefix(path) => data.push(json!({"type": "memory_prefix", "path": format!("{}/", api_path(path))})),
            Item::Memory(path) => {
                let Some(file) = store.file(path).await? else { continue };
                if view == View::Full && text(&file.content).is_err() {
                    continue;
                }
                data.extend(store.object(path, &file.content, view)?);
            }
        }
        last = Some(item.path().clone());
    }
    Ok(Json(json!({"data": data, "next_page": next_page})))
}
