//! XML bodies of responses.

use serde::Serialize;

use super::objects::{Object, Page, Rejection};
use crate::server::BUCKET;

#[derive(Serialize)]
#[serde(rename = "ListBucketResult", rename_all = "PascalCase")]
pub(super) struct List {
    name: &'static str,
    is_truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_continuation_token: Option<String>,
    contents: Vec<Entry>,
    common_prefixes: Vec<Prefix>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    key: String,
    last_modified: String,
    #[serde(rename = "ETag")]
    e_tag: String,
    size: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Prefix {
    prefix: String,
}

impl From<Page> for List {
    fn from(page: Page) -> Self {
        Self {
            name: BUCKET,
            is_truncated: page.next.is_some(),
            next_continuation_token: page.next,
            contents: page.objects.into_iter().map(Entry::from).collect(),
            common_prefixes: page.prefixes.into_iter().map(|prefix| Prefix { prefix }).collect(),
        }
    }
}

impl From<(String, Object)> for Entry {
    fn from((key, object): (String, Object)) -> Self {
        let last_modified = object.modified.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
        Self { key, last_modified, e_tag: object.e_tag(), size: object.content.len() }
    }
}

/// Serializes a body.
pub(super) fn text(body: &impl Serialize) -> Result<String, Rejection> {
    quick_xml::se::to_string(body).map_err(|_| Rejection::Internal)
}
