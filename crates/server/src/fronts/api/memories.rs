//! The endpoints of memories, which are the files of a store.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Bytes;
use futures::stream::{self, StreamExt as _};
use memory_tool::StoreError;
use memory_tool::history::{Entry, FileVersion, Id, LogEnd, Operation, TrackedFile, VersionId, Versions};
use memory_tool::store::{Batch, Precondition, StorePath, StoredFile};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::state::{ApiCall, Known, MAX_ATTEMPTS, MemoryStore, Reply, is_outdated, memory_id, parse_memory_id};
use super::versions::version_id;
use super::wire::{
    COMMAND_PREFIX, MAX_CONTENT_BYTES, View, api_path, body, format_time, millis, not_a_page, nullable, page_after,
    parse_path, text,
};
use crate::access::Right;
use crate::access::tokens::sha256;
use crate::http::error::ApiError;
use crate::memories::visit::Purpose;

const CREATE: &str = "api_create";
/// Moves a memory with new contents, if it writes one file and removes another one.
const UPDATE: &str = Entry::MOVE;
const DELETE: &str = "api_delete";

/// The files that a list reads at a time, also in a bucket far away.
const PARALLEL_READS: usize = 16;

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

/// A memory that exists, at an end of the log.
struct Found {
    end: LogEnd,
    id: Id,
    path: StorePath,
    file: StoredFile,
}

impl MemoryStore {
    async fn was_deleted(&self, id: &str) -> Result<bool, ApiError> {
        let Some(id) = parse_memory_id(id) else { return Ok(false) };
        let was_deleted = |versions: &Versions| {
            let head = versions.file(id).and_then(TrackedFile::head).and_then(|head| versions.get(&head));
            head.is_some_and(|head| head.operation == Operation::Deleted)
        };
        Ok(self.now(Known::ToHistory, was_deleted).await?.1)
    }

    /// A memory in a version.
    fn object(&self, file: &TrackedFile, id: VersionId, version: &FileVersion, content: &[u8], view: View) -> Reply {
        let shown = if view == View::Full { Some(text(content)?) } else { None };
        let path = version.path.as_ref().or(file.path.as_ref());
        Ok(Json(json!({
            "type": "memory", "id": memory_id(file.id), "memory_store_id": self.id(), "path": path.map(api_path),
            "memory_version_id": version_id(&id), "content": shown, "content_sha256": sha256(content),
            "content_size_bytes": content.len(),
            "created_at": format_time(millis(file.created.unwrap_or(version.time))),
            "updated_at": format_time(millis(version.time)),
        })))
    }

    /// A memory in its newest version at this end of the log. `None` after a later refresh by another request.
    fn newest(&self, found: &Found, view: View) -> Result<Option<Value>, ApiError> {
        let object = self.at(&found.end, |versions| {
            let file = versions.file(found.id)?;
            let head = file.head()?;
            Some(self.object(file, head, versions.get(&head)?, &found.file.content, view))
        });
        Ok(object.flatten().transpose()?.map(|Json(object)| object))
    }

    /// The memory that a change of this request wrote, which others may have changed since. The change is among the
    /// entries after `end`.
    async fn written(&self, end: &LogEnd, path: &StorePath, content: &[u8], view: View) -> Reply {
        let sha256 = sha256(content);
        let wrote = |version: &FileVersion| {
            let is_of_api = version.command.as_deref().is_some_and(|command| command.starts_with(COMMAND_PREFIX));
            let digest = version.digest.filter(|digest| digest.size == content.len() as u64);
            is_of_api && version.path.as_ref() == Some(path) && digest.is_some_and(|it| it.sha256.to_string() == sha256)
        };
        let (_, found) = self
            .now(Known::ToHistory, |versions| {
                let new = versions.iter().skip_while(|(id, _)| id.number <= end.number());
                let (id, version) = new.into_iter().find(|(_, version)| wrote(version))?;
                Some(self.object(versions.file(version.file)?, *id, version, content, view))
            })
            .await?;
        match found {
            Some(written) => written,
            // Without a history, only the present is known.
            None => {
                let now = self.id_at(path).await?.map(|id| self.show(id, view));
                let now = if let Some(now) = now { now.await? } else { None };
                let gone = || Err(ApiError::not_found("the memory was changed or removed again"));
                now.map_or_else(gone, |(_, object)| object.map(Json))
            }
        }
    }

    /// The present path and file of a memory.
    async fn find(&self, id: &str) -> Result<Found, ApiError> {
        let parsed = parse_memory_id(id).ok_or_else(|| no_such_memory(id))?;
        self.find_by_id(parsed).await?.ok_or_else(|| no_such_memory(id))
    }

    /// The path and the file are of the same end of the log, because the path can belong to another memory right after.
    async fn find_by_id(&self, id: Id) -> Result<Option<Found>, ApiError> {
        for _ in 0..MAX_ATTEMPTS {
            let path_of = |versions: &Versions| versions.file(id).and_then(|file| file.path.clone());
            let mut found = self.now(Known::ToHistory, path_of).await?;
            if found.1.is_none() {
                found = self.now(Known::WithOutside, path_of).await?;
            }
            let (end, Some(path)) = found else { return Ok(None) };
            if let Some(node) = self.read_at(&end, &path).await? {
                return Ok(node.into_file().map(|file| Found { end, id, path, file }));
            }
        }
        Err(ApiError::busy())
    }

    /// A memory at this end of the log, or now if others changed the log.
    async fn show_at(&self, end: &LogEnd, id: Id, view: View) -> Result<Option<Value>, ApiError> {
        if let Some(Some(path)) = self.at(end, |versions| versions.file(id).and_then(|file| file.path.clone()))
            && let Some(node) = self.read_at(end, &path).await?
        {
            let Some(file) = node.into_file() else { return Ok(None) };
            if let Some(object) = self.newest(&Found { end: end.clone(), id, path, file }, view)? {
                return Ok(Some(object));
            }
        }
        Ok(self.show(id, view).await?.and_then(|(_, object)| object.ok()))
    }

    /// An item of a list. `None` for a file that the API cannot carry in this view.
    async fn show_item(&self, end: &LogEnd, item: Item, view: View) -> Result<(Item, Option<Value>), ApiError> {
        let object = match &item {
            Item::Prefix(path) => Some(json!({"type": "memory_prefix", "path": format!("{}/", api_path(path))})),
            Item::Memory(_, id) => self.show_at(end, *id, view).await.or_else(ApiError::skip_invalid)?,
        };
        Ok((item, object))
    }

    /// A memory now. `None` if it does not exist.
    async fn show(&self, id: Id, view: View) -> Result<Option<(StoredFile, Result<Value, ApiError>)>, ApiError> {
        for _ in 0..MAX_ATTEMPTS {
            let Some(found) = self.find_by_id(id).await? else { return Ok(None) };
            match self.newest(&found, view) {
                Ok(None) => {}
                Ok(Some(object)) => return Ok(Some((found.file, Ok(object)))),
                Err(error) => return Ok(Some((found.file, Err(error)))),
            }
        }
        Err(ApiError::busy())
    }

    async fn id_at(&self, path: &StorePath) -> Result<Option<Id>, ApiError> {
        Ok(self.now(Known::WithOutside, |versions| versions.at(path).map(|file| file.id)).await?.1)
    }

    /// The memory that occupies a path: at it, above it or below it. `None` if no memory does.
    async fn conflict(&self, path: &StorePath) -> Result<Option<ApiError>, ApiError> {
        let occupies = |other: &StorePath| other == path || other.is_under(path) || path.is_under(other);
        let find = |versions: &Versions| {
            let mut present = versions.present().filter(|(other, _)| occupies(other));
            present.next().map(|(path, id)| (path.clone(), id))
        };
        let (_, found) = self.now(Known::WithOutside, find).await?;
        Ok(found.map(|(occupied, id)| ApiError::path_conflict(api_path(&occupied), &memory_id(id))))
    }
}

#[derive(Deserialize)]
struct Create {
    path: String,
    content: Option<String>,
}

pub(super) async fn create(call: ApiCall, bytes: Bytes) -> Reply {
    let store = call.open(Right::Write, Purpose::CHANGE).await?;
    let (view, create) = (call.query.view(View::Basic)?, body::<Create>(&bytes)?);
    let (path, content) = (parse_path(&create.path)?, create.content.unwrap_or_default());
    check_content(&content)?;
    for _ in 0..MAX_ATTEMPTS {
        let end = store.refresh().await?;
        let batch = Batch::new().for_command(CREATE).require(&path, Precondition::Absent);
        match store.apply(batch.write(&path, content.as_str())).await {
            Ok(()) => return store.written(&end, &path, content.as_bytes(), view).await,
            Err(StoreError::AlreadyExists { .. } | StoreError::NotADirectory { .. }) => {
                if call.query.is_retry
                    && let Some(present) = store.id_at(&path).await?
                    && let Some((file, object)) = store.show(present, view).await?
                    && file.content == content.as_bytes()
                {
                    return object.map(Json);
                }
                if let Some(conflict) = store.conflict(&path).await? {
                    return Err(conflict);
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(ApiError::busy())
}

pub(super) async fn read(call: ApiCall) -> Reply {
    let store = call.open(Right::Read, Purpose::Look).await?;
    let view = call.query.view(View::Full)?;
    let parsed = parse_memory_id(&call.item).ok_or_else(|| no_such_memory(&call.item))?;
    let (_, object) = store.show(parsed, view).await?.ok_or_else(|| no_such_memory(&call.item))?;
    object.map(Json)
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

pub(super) async fn update(call: ApiCall, bytes: Bytes) -> Reply {
    let store = call.open(Right::Write, Purpose::CHANGE).await?;
    let (view, Update { content, path, precondition }) = (call.query.view(View::Basic)?, body(&bytes)?);
    let (content, target) = (content.flatten(), path.flatten().map(|path| parse_path(&path)).transpose()?);
    content.as_deref().map_or(Ok(()), check_content)?;
    let required = precondition.map(|Required::ContentSha256 { content_sha256 }| content_sha256);
    required.as_deref().map_or(Ok(()), check_sha256)?;
    for _ in 0..MAX_ATTEMPTS {
        let found = store.find(&call.item).await?;
        let Found { end, path: from, file, .. } = &found;
        let to = target.clone().unwrap_or_else(|| from.clone());
        let new = content.as_ref().map_or(file.content.as_slice(), |content| content.as_bytes());
        let is_same = (from, file.content.as_slice()) == (&to, new);
        if required.as_ref().is_some_and(|required| *required != sha256(&file.content))
            && !(is_same && call.query.is_retry)
        {
            return Err(ApiError::conflict(format!("the content of {} is another", api_path(from))));
        }
        if is_same {
            match store.newest(&found, view)? {
                Some(object) => return Ok(Json(object)),
                None => continue,
            }
        }
        if *from != to && from.overlaps(&to) {
            return Err(ApiError::path_conflict(api_path(from), &call.item));
        }
        let batch =
            end.require(Batch::new().for_command(UPDATE)).require(from, Precondition::Version(file.version.clone()));
        let batch = match (*from == to, content.is_some() && new != file.content) {
            (true, _) => batch.write(&to, new),
            (false, false) => batch.require(&to, Precondition::Absent).rename(from, &to),
            (false, true) => batch.require(&to, Precondition::Absent).write(&to, new).remove(from),
        };
        match store.apply(batch).await {
            Ok(()) => return store.written(end, &to, new, view).await,
            Err(error) if is_outdated(&error) => {}
            Err(StoreError::VersionMismatch { .. } | StoreError::NotFound { .. }) => {}
            Err(StoreError::AlreadyExists { .. } | StoreError::NotADirectory { .. }) => {
                if let Some(conflict) = store.conflict(&to).await? {
                    return Err(conflict);
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(ApiError::conflict("the memory kept changing"))
}

pub(super) async fn delete(call: ApiCall) -> Reply {
    let store = call.open(Right::Write, Purpose::Remove).await?;
    let expected = call.query.get("expected_content_sha256");
    expected.map_or(Ok(()), check_sha256)?;
    let deleted = || Ok(Json(json!({"id": call.item, "type": "memory_deleted"})));
    for _ in 0..MAX_ATTEMPTS {
        let found = store.find(&call.item).await;
        if found.is_err() && call.query.is_retry && store.was_deleted(&call.item).await? {
            return deleted();
        }
        let Found { end, path, file, .. } = found?;
        if expected.is_some_and(|expected| expected != sha256(&file.content)) {
            return Err(ApiError::conflict(format!("the content of {} is another", api_path(&path))));
        }
        let batch = end.require(Batch::new().for_command(DELETE)).require(&path, Precondition::Version(file.version));
        match store.apply(batch.remove(&path)).await {
            Ok(()) => return deleted(),
            Err(error) if is_outdated(&error) => {}
            Err(StoreError::VersionMismatch { .. } | StoreError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(ApiError::conflict("the memory kept changing"))
}

enum Item {
    Memory(StorePath, Id),
    Prefix(StorePath),
}

impl Item {
    fn path(&self) -> &StorePath {
        match self {
            Self::Memory(path, _) | Self::Prefix(path) => path,
        }
    }
}

/// The position in a list of memories. All pages use the names after one entry, so that no page repeats or omits a
/// memory that was renamed since the first page.
#[derive(Deserialize, Serialize)]
struct Cursor {
    history: Id,
    number: u64,
    after: StorePath,
}

/// The items of a list after an entry, sorted by path.
fn items(files: BTreeMap<StorePath, Id>, directory: &StorePath, is_shallow: bool) -> Vec<Item> {
    let level = directory.segments().count() + 1;
    let mut items: Vec<Item> = Vec::new();
    for (path, id) in files.into_iter().filter(|(path, _)| path.is_under(directory)) {
        let above = path.parents().find(|above| is_shallow && above.segments().count() == level);
        let item = above.map_or(Item::Memory(path, id), Item::Prefix);
        if items.last().is_none_or(|last| last.path() != item.path()) {
            items.push(item);
        }
    }
    items
}

/// Sorted by path. A full list leaves out files that the API cannot carry; a basic one has them.
pub(super) async fn list(call: ApiCall) -> Reply {
    let store = call.open(Right::Read, Purpose::Look).await?;
    let view = call.query.view(View::Basic)?;
    let depth = call.query.get("depth").unwrap_or("0");
    if !["0", "1"].contains(&depth) {
        return Err(ApiError::invalid(format!("depth: {depth:?} is neither 0 nor 1")));
    }
    let list = call.query.list("memories", &call.store, &["path_prefix", "depth"]);
    let (limit, cursor) = (call.query.limit(view)?, call.query.cursor(&list)?);
    let cursor = cursor.map(|cursor| serde_json::from_str::<Cursor>(&cursor)).transpose().map_err(|_| not_a_page())?;
    let directory = match call.query.get("path_prefix") {
        None | Some("/") => StorePath::memories(),
        Some(prefix) => {
            let directory = prefix
                .strip_suffix('/')
                .ok_or_else(|| ApiError::invalid(format!("path_prefix: {prefix:?} does not end with /")))?;
            parse_path(directory)?
        }
    };
    let end = store.refresh().await?;
    if cursor.as_ref().is_some_and(|cursor| cursor.history != end.history()) {
        return Err(not_a_page());
    }
    let number = cursor.as_ref().map_or(end.number(), |cursor| cursor.number);
    let (end, files) = store.now(Known::WithOutside, |versions| versions.live_after(number)).await?;
    let page_of = |after: &StorePath| {
        let cursor = Cursor { history: end.history(), number, after: after.clone() };
        serde_json::to_string(&cursor).map(|cursor| page_after(&list, &cursor)).map_err(ApiError::internal)
    };
    let is_next = |item: &Item| cursor.as_ref().is_none_or(|cursor| *item.path() > cursor.after);
    let items = items(files, &directory, depth == "1").into_iter().filter(is_next);
    let mut shown = stream::iter(items).map(|item| store.show_item(&end, item, view)).buffered(PARALLEL_READS);
    let (mut data, mut next_page, mut last) = (Vec::new(), None, None);
    while let Some(shown) = shown.next().await {
        if data.len() == limit {
            next_page = last.map(|last: Item| page_of(last.path())).transpose()?;
            break;
        }
        let (item, object) = shown?;
        data.extend(object);
        last = Some(item);
    }
    Ok(Json(json!({"data": data, "next_page": next_page})))
}
