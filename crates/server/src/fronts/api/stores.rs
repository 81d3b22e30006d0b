//! The endpoints of memory stores.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use memory_tool::store::MemoryName;
use serde::Deserialize;
use serde_json::{Value, json};

use super::state::{ApiCall, MemoryStore, Reply};
use super::wire::{ApiQuery, View, body, format_time, millis, nullable, page_after, time};
use crate::access::{Caller, Right};
use crate::http::error::ApiError;
use crate::memories::record::StoreRecord;
use crate::memories::visit::Purpose;
use crate::service::Service;

fn object(store: &MemoryStore, record: &StoreRecord) -> Value {
    let StoreRecord { name, description, metadata, created_at, updated_at, archived_at } = record;
    json!({
        "type": "memory_store", "id": store.id(), "name": name, "description": description, "metadata": metadata,
        "created_at": format_time(*created_at), "updated_at": format_time(*updated_at),
        "archived_at": archived_at.map(format_time),
    })
}

fn now() -> u64 {
    millis(SystemTime::now())
}

#[derive(Deserialize)]
struct Create {
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    metadata: Option<BTreeMap<String, String>>,
}

/// A field that is null changes nothing, except in the metadata.
#[derive(Deserialize)]
struct Update {
    #[serde(default, deserialize_with = "nullable")]
    name: Option<Option<String>>,
    #[serde(default, deserialize_with = "nullable")]
    description: Option<Option<String>>,
    #[serde(default, deserialize_with = "nullable")]
    metadata: Option<Option<BTreeMap<String, Option<String>>>>,
}

fn check(record: &StoreRecord) -> Result<(), ApiError> {
    let refuse = |reason: &str| Err(ApiError::invalid(reason));
    if !(1..=255).contains(&record.name.chars().count()) || record.name.chars().any(char::is_control) {
        return refuse("name: must have 1 to 255 characters, without control characters");
    }
    if record.description.chars().count() > 1024 {
        return refuse("description: must have at most 1,024 characters");
    }
    if record.metadata.len() > 16 {
        return refuse("metadata: must have at most 16 pairs");
    }
    let is_legal =
        |(key, value): (&String, &String)| (1..=64).contains(&key.chars().count()) && value.chars().count() <= 512;
    if !record.metadata.iter().all(is_legal) {
        return refuse("metadata: keys must have 1 to 64 characters, and values at most 512");
    }
    Ok(())
}

/// The time in milliseconds and 80 random bits, so that names sort by their time.
fn new_name() -> Result<MemoryName, ApiError> {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes[6..]).map_err(ApiError::internal)?;
    bytes[..6].copy_from_slice(&now().to_be_bytes()[2..]);
    let number = u128::from_be_bytes(bytes);
    let digits: String = (0..26).rev().map(|digit| char::from(DIGITS[(number >> (5 * digit)) as usize % 32])).collect();
    format!("memstore_{digits}").parse().map_err(ApiError::internal)
}

pub(super) async fn create(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    bytes: Bytes,
) -> Reply {
    caller.check(Right::Admin, None)?;
    let Create { name, description, metadata } = body(&bytes)?;
    let (created_at, metadata) = (now(), metadata.unwrap_or_default());
    let description = description.unwrap_or_default();
    let record = StoreRecord { name, description, metadata, created_at, updated_at: created_at, archived_at: None };
    check(&record)?;
    let id = new_name()?;
    let store = MemoryStore::create(&service, &caller, &id).await?;
    let record = store.change_record("api_create_store", |_| Ok(Some(record.clone()))).await?;
    Ok(Json(object(&store, &record)))
}

pub(super) async fn read(call: ApiCall) -> Reply {
    let store = call.open(Right::Read, Purpose::Look).await?;
    Ok(Json(object(&store, &store.record().await?)))
}

pub(super) async fn update(call: ApiCall, bytes: Bytes) -> Reply {
    let store = call.open(Right::Admin, Purpose::Remove).await?;
    let Update { name, description, metadata } = body(&bytes)?;
    let (name, description, metadata) = (name.flatten(), description.flatten(), metadata.flatten().unwrap_or_default());
    let change = |record: &StoreRecord| {
        record.refuse_archived()?;
        let mut changed = record.clone();
        changed.name.clone_from(name.as_ref().unwrap_or(&record.name));
        changed.description.clone_from(description.as_ref().unwrap_or(&record.description));
        for (key, value) in &metadata {
            match value {
                Some(value) => _ = changed.metadata.insert(key.clone(), value.clone()),
                None => _ = changed.metadata.remove(key),
            }
        }
        check(&changed)?;
        changed.updated_at = now();
        Ok(Some(changed))
    };
    let record = store.change_record("api_update_store", change).await?;
    Ok(Json(object(&store, &record)))
}

pub(super) async fn archive(call: ApiCall) -> Reply {
    let store = call.open(Right::Admin, Purpose::Remove).await?;
    let change = |record: &StoreRecord| {
        let now = now();
        let archived = StoreRecord { archived_at: Some(now), updated_at: now, ..record.clone() };
        Ok(record.archived_at.is_none().then_some(archived))
    };
    let record = store.change_record("api_archive_store", change).await?;
    Ok(Json(object(&store, &record)))
}

pub(super) async fn delete(call: ApiCall) -> Reply {
    let store = call.open(Right::Admin, Purpose::Remove).await?;
    store.visit.memory.forget().await?;
    Ok(Json(json!({"id": call.store, "type": "memory_store_deleted"})))
}

/// Newest first for the names that this API generates.
pub(super) async fn list(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    query: ApiQuery,
) -> Reply {
    if !caller.has(Right::Read) {
        return Err(ApiError::permission());
    }
    let (since, until) = (query.time("created_at[gte]")?, query.time("created_at[lte]")?);
    let with_archived = query.flag("include_archived")?;
    let list = query.list("stores", "", &["created_at[gte]", "created_at[lte]", "include_archived"]);
    let (limit, after) = (query.limit(View::Basic)?, query.cursor(&list)?);
    let mut names = service.memories.names().await?;
    names.retain(|name| caller.reaches(name) && after.as_deref().is_none_or(|after| name.as_str() < after));
    let (mut data, mut last, mut next_page) = (Vec::new(), String::new(), None);
    for name in names.into_iter().rev() {
        let opened = async {
            let store = MemoryStore::open(&service, &caller, name.as_str(), Right::Read, Purpose::Look).await?;
            let record = store.record().await?;
            Ok::<_, ApiError>((store, record))
        };
        let (store, record) = match opened.await {
            Ok(opened) => opened,
            Err(busy) if busy.status() == StatusCode::SERVICE_UNAVAILABLE => return Err(busy),
            // It was deleted, or it is damaged, which is in the log.
            Err(_) => continue,
        };
        let created = time(record.created_at);
        let is_shown = (with_archived || record.archived_at.is_none())
            && since.is_none_or(|since| created >= since)
            && until.is_none_or(|until| created <= until);
        if !is_shown {
            continue;
        }
        if data.len() == limit {
            next_page = Some(page_after(&list, &last));
            break;
        }
        last = name.to_string();
        data.push(object(&store, &record));
    }
    Ok(Json(json!({"data": data, "next_page": next_page})))
}
