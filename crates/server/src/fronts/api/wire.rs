//! The wire of the API: queries, cursors, times and paths.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use memory_tool::MemoryPath;
use memory_tool::store::{MAX_SEGMENT_BYTES, StorePath, is_unprintable};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::http::error::ApiError;
use crate::http::json::refuse_many_values;

/// The limit on the content of a memory in bytes.
pub(super) const MAX_CONTENT_BYTES: usize = 102_400;
/// The prefix of the commands of this API in the history.
pub(super) const COMMAND_PREFIX: &str = "api_";
const MAX_SEGMENTS: usize = 20;

/// The query and the headers of a request.
#[derive(Debug)]
pub(super) struct ApiQuery {
    query: HashMap<String, String>,
    /// Whether the client sent the same request before.
    pub(super) is_retry: bool,
}

impl<S: Send + Sync> FromRequestParts<S> for ApiQuery {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let query = Query::from_request_parts(parts, state).await;
        let Query(query) = query.map_err(|_| ApiError::invalid("the query is not valid"))?;
        let retries = parts.headers.get("x-stainless-retry-count").and_then(|count| count.to_str().ok());
        Ok(Self { query, is_retry: retries.is_some_and(|count| count.parse::<u64>().is_ok_and(|count| count > 0)) })
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum View {
    Basic,
    Full,
}

impl ApiQuery {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str)
    }

    pub(super) fn view(&self, default: View) -> Result<View, ApiError> {
        match self.get("view") {
            None => Ok(default),
            Some("basic") => Ok(View::Basic),
            Some("full") => Ok(View::Full),
            Some(other) => Err(ApiError::invalid(format!("view: {other:?} is neither \"basic\" nor \"full\""))),
        }
    }

    /// The number of items of a page.
    pub(super) fn limit(&self, view: View) -> Result<usize, ApiError> {
        let max = if view == View::Full { 20 } else { 100 };
        let Some(given) = self.get("limit") else { return Ok(20) };
        let limit = given.parse().ok().filter(|limit| (1..=100).contains(limit));
        let limit: usize = limit.ok_or_else(|| ApiError::invalid(format!("limit: {given:?} is not from 1 to 100")))?;
        Ok(limit.min(max))
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, ApiError> {
        match self.get(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => Err(ApiError::invalid(format!("{name}: {other:?} is neither true nor false"))),
        }
    }

    pub(super) fn time(&self, name: &str) -> Result<Option<SystemTime>, ApiError> {
        let Some(given) = self.get(name) else { return Ok(None) };
        parse_time(given)
            .map(Some)
            .ok_or_else(|| ApiError::invalid(format!("{name}: {given:?} is not an RFC 3339 time")))
    }

    /// The position of the page in the list with these parameters.
    pub(super) fn cursor(&self, list: &str) -> Result<Option<String>, ApiError> {
        let Some(page) = self.get("page") else { return Ok(None) };
        let decode = || {
            let bytes = URL_SAFE_NO_PAD.decode(page.strip_prefix("page_")?).ok()?;
            let (of, after): (String, String) = serde_json::from_slice(&bytes).ok()?;
            (of == list).then_some(after)
        };
        decode().map(Some).ok_or_else(not_a_page)
    }

    /// The list that a cursor belongs to: its name and these parameters of the query.
    pub(super) fn list(&self, name: &str, store: &str, parameters: &[&str]) -> String {
        let values: Vec<_> = parameters.iter().map(|parameter| self.get(parameter)).collect();
        format!("{name} {store:?} {values:?}")
    }
}

pub(super) fn not_a_page() -> ApiError {
    ApiError::invalid("page: not a page of this list")
}

pub(super) fn page_after(list: &str, after: &str) -> String {
    let text = serde_json::json!([list, after]).to_string();
    format!("page_{}", URL_SAFE_NO_PAD.encode(text))
}

/// Parses an RFC 3339 time. Without an offset it is UTC.
fn parse_time(text: &str) -> Option<SystemTime> {
    let text = text.replace(' ', "+"); // a plus sign that a client did not encode
    if !text.is_ascii() {
        return None;
    }
    let offset_at = text.get(10..)?.rfind(['+', '-']).map(|at| at + 10);
    let Some(at) = offset_at else { return humantime::parse_rfc3339_weak(&text).ok() };
    let local = humantime::parse_rfc3339_weak(&text[..at]).ok()?;
    let (hours, minutes) = text[at + 1..].split_once(':')?;
    let offset =
        Duration::from_secs(hours.parse::<u64>().ok()?.checked_mul(3600)? + minutes.parse::<u64>().ok()? % 60 * 60);
    if text[at..].starts_with('+') { local.checked_sub(offset) } else { local.checked_add(offset) }
}

pub(super) fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis().try_into().unwrap_or(0)
}

pub(super) fn time(millis: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_millis(millis)).unwrap_or(UNIX_EPOCH)
}

pub(super) fn format_time(millis: u64) -> String {
    // Later times have no text.
    const LAST_OF_9999: u64 = 253_402_300_799_999;
    humantime::format_rfc3339_millis(time(millis.min(LAST_OF_9999))).to_string()
}

/// Parses a body. Unknown fields are ignored, as future SDKs may send more.
pub(super) fn body<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    refuse_many_values(bytes)?;
    serde_json::from_slice(bytes).map_err(|error| ApiError::invalid(format!("the body is not valid: {error}")))
}

/// The content, if the API can carry it.
pub(super) fn text(content: &[u8]) -> Result<&str, ApiError> {
    if content.len() > MAX_CONTENT_BYTES {
        let size = content.len();
        return Err(ApiError::invalid(format!("the memory has {size} bytes; the API carries up to 102,400")));
    }
    std::str::from_utf8(content).map_err(|_| ApiError::invalid("the memory is not UTF-8 text"))
}

/// Parses a field that can be missing, null or a value.
pub(super) fn nullable<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// `/a/b.md` of the API is `/memories/a/b.md` of the store.
pub(super) fn parse_path(given: &str) -> Result<StorePath, ApiError> {
    let refuse = |reason: &str| ApiError::invalid(format!("path: {given:?} {reason}"));
    let Some(names) = given.strip_prefix('/') else { return Err(refuse("does not start with /")) };
    if given.chars().any(is_unprintable) {
        return Err(refuse("has a control or format character"));
    }
    let names: Vec<_> = names.split('/').collect();
    if names.iter().any(|name| ["", ".", ".."].contains(name)) {
        return Err(refuse("has a segment that is empty, . or .."));
    }
    if names.len() > MAX_SEGMENTS {
        return Err(refuse("has more than 20 segments"));
    }
    if names.iter().any(|name| name.len() > MAX_SEGMENT_BYTES) {
        return Err(refuse("has a segment of more than 255 bytes"));
    }
    let path = MemoryPath::parse(&format!("/memories{given}"));
    path.map(StorePath::from).map_err(|_| refuse("is longer than 1,015 bytes, not in NFC, or has a backslash"))
}

pub(super) fn api_path(path: &StorePath) -> &str {
    path.as_str().strip_prefix("/memories").unwrap_or(path.as_str())
}
