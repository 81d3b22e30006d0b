//! [`respond`]: parses a request, runs it under the lock, and returns a response.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, LAST_MODIFIED, RANGE};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use percent_encoding::percent_decode_str;
use serde::Serialize;

use super::objects::{Object, Objects, Rejection, Selection};
use super::xml::{self, List};
use crate::server::BUCKET;

const GENERATION: &str = "x-goog-generation";
const GENERATION_CONDITION: &str = "x-goog-if-generation-match";
const COPY_SOURCE: &str = "x-goog-copy-source";
const LARGEST_PAGE: usize = 1000;

type HttpResponse = Response<Full<Bytes>>;

/// Processes a request. Reads the body before taking the lock, so a slow body blocks no other request, and an
/// incomplete one has no effect.
pub(super) async fn respond(
    objects: &Mutex<Objects>,
    token: Option<&str>,
    request: Request<Incoming>,
) -> Result<HttpResponse, hyper::Error> {
    let (head, body) = request.into_parts();
    let content = body.collect().await?.to_bytes();
    let is_allowed =
        token.is_none_or(|token| text_of(&head.headers, AUTHORIZATION) == Some(&format!("Bearer {token}")));
    if !is_allowed {
        return Ok(reject(Rejection::Unauthorized));
    }
    let call = ApiCall::parse(head.uri.path(), head.uri.query().unwrap_or_default());
    // The objects are consistent after a panic, because each change is a single step.
    let mut objects = objects.lock().unwrap_or_else(PoisonError::into_inner);
    let response = call.and_then(|call| call.run(&mut objects, &head.method, &head.headers, content));
    Ok(response.unwrap_or_else(reject))
}

struct ApiCall {
    bucket: String,
    /// Empty for requests on the bucket.
    key: String,
    query: HashMap<String, String>,
}

impl ApiCall {
    fn parse(path: &str, query: &str) -> Result<Self, Rejection> {
        let (bucket, key) = bucket_and_key(path.strip_prefix('/').ok_or(Rejection::InvalidArgument)?)?;
        Ok(Self { bucket, key, query: form_urlencoded::parse(query.as_bytes()).into_owned().collect() })
    }

    fn run(
        &self,
        objects: &mut Objects,
        method: &Method,
        headers: &HeaderMap,
        content: Bytes,
    ) -> Result<HttpResponse, Rejection> {
        if self.bucket != BUCKET {
            return Err(Rejection::NoSuchBucket);
        }
        let key = self.key.as_str();
        match *method {
            Method::GET if key.is_empty() => document(&List::from(objects.list(&self.selection()?))),
            _ if key.is_empty() => Err(Rejection::MethodNotAllowed),
            Method::GET | Method::HEAD => read(objects.get(key)?, headers),
            Method::PUT => {
                let content = match text_of(headers, COPY_SOURCE) {
                    None => content,
                    Some(source) => objects.get(&bucket_and_key(source)?.1)?.content.clone(),
                };
                objects.put(key, is_for_new_object(headers)?, content).map(written)
            }
            Method::DELETE => objects.delete(key).map(|()| empty(StatusCode::NO_CONTENT)),
            _ => Err(Rejection::MethodNotAllowed),
        }
    }

    fn selection(&self) -> Result<Selection, Rejection> {
        let text = |name| self.query.get(name).cloned().unwrap_or_default();
        Ok(Selection {
            prefix: text("prefix"),
            delimiter: self.query.get("delimiter").cloned(),
            after: text("start-after"),
            token: text("continuation-token"),
            limit: self.number("max-keys")?.unwrap_or(LARGEST_PAGE).min(LARGEST_PAGE),
        })
    }

    fn number(&self, name: &str) -> Result<Option<usize>, Rejection> {
        self.query.get(name).map(|text| text.parse()).transpose().map_err(|_| Rejection::InvalidArgument)
    }
}

/// Splits and decodes `bucket/key`. Slashes in the key are also encoded.
fn bucket_and_key(path: &str) -> Result<(String, String), Rejection> {
    let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
    let decode =
        |text| percent_decode_str(text).decode_utf8().map(String::from).map_err(|_| Rejection::InvalidArgument);
    Ok((decode(bucket)?, decode(key)?))
}

fn text_of(headers: &HeaderMap, name: impl hyper::header::AsHeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

fn is_for_new_object(headers: &HeaderMap) -> Result<bool, Rejection> {
    match text_of(headers, GENERATION_CONDITION) {
        None => Ok(false),
        Some("0") => Ok(true),
        Some(_) => Err(Rejection::InvalidArgument),
    }
}

fn read(object: &Object, headers: &HeaderMap) -> Result<HttpResponse, Rejection> {
    let size = object.content.len();
    let response = match text_of(headers, RANGE) {
        None => full(StatusCode::OK, object.content.clone()),
        Some(range) => {
            let Range { start, end } = range_within(range, size).ok_or(Rejection::InvalidRange)?;
            let part = full(StatusCode::PARTIAL_CONTENT, object.content.slice(start..end));
            with(part, CONTENT_RANGE, &format!("bytes {start}-{}/{size}", end - 1))
        }
    };
    let response = with(response, LAST_MODIFIED, &object.modified.format("%a, %d %b %Y %H:%M:%S GMT").to_string());
    Ok(described(response, object))
}

/// Resolves `bytes=first-last`, `bytes=first-` or `bytes=-count`. Returns `None` if the object has none of these bytes.
fn range_within(range: &str, size: usize) -> Option<Range<usize>> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let range = match (first, last) {
        ("", count) => size.saturating_sub(count.parse().ok()?)..size,
        (first, "") => first.parse().ok()?..size,
        (first, last) => first.parse().ok()?..last.parse::<usize>().ok()?.saturating_add(1).min(size),
    };
    (!range.is_empty()).then_some(range)
}

fn written(object: &Object) -> HttpResponse {
    described(empty(StatusCode::OK), object)
}

fn described(response: HttpResponse, object: &Object) -> HttpResponse {
    let response = with(response, ETAG, &object.e_tag());
    with(response, HeaderName::from_static(GENERATION), &object.generation.to_string())
}

fn document(body: &impl Serialize) -> Result<HttpResponse, Rejection> {
    Ok(with(full(StatusCode::OK, xml::text(body)?.into()), CONTENT_TYPE, "application/xml"))
}

fn empty(status: StatusCode) -> HttpResponse {
    full(status, Bytes::new())
}

fn full(status: StatusCode, body: Bytes) -> HttpResponse {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response
}

fn with(mut response: HttpResponse, name: HeaderName, value: &str) -> HttpResponse {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
    response
}

fn reject(rejection: Rejection) -> HttpResponse {
    let status = match rejection {
        Rejection::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        Rejection::InvalidArgument => StatusCode::BAD_REQUEST,
        Rejection::InvalidRange => StatusCode::RANGE_NOT_SATISFIABLE,
        Rejection::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        Rejection::NoSuchBucket | Rejection::NoSuchKey => StatusCode::NOT_FOUND,
        Rejection::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
        Rejection::Unauthorized => StatusCode::UNAUTHORIZED,
    };
    let body = format!("<?xml version='1.0' encoding='UTF-8'?><Error><Code>{rejection:?}</Code></Error>");
    with(full(status, body.into()), CONTENT_TYPE, "application/xml")
}
