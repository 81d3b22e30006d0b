//! [`respond`]: parses a request, runs it under the lock, and returns a response.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_RANGE, CONTENT_TYPE,
    ETAG, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH, LAST_MODIFIED, RANGE,
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use percent_encoding::percent_decode_str;
use serde::Serialize;

use super::objects::{Object, Objects, Rejection, Selection};
use super::xml::{self, List, UploadCompleted, UploadStarted};
use crate::server::BUCKET;

const GENERATION: &str = "x-goog-generation";
const GENERATION_CONDITION: &str = "x-goog-if-generation-match";
const COPY_SOURCE: &str = "x-goog-copy-source";
const METADATA_PREFIX: &str = "x-goog-meta-";
const KEPT: [HeaderName; 5] = [CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE];
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
        match (self.key.is_empty(), self.query.get("uploadId")) {
            (true, _) if method == Method::GET => document(&List::from(objects.list(&self.selection()?))),
            (true, _) => Err(Rejection::MethodNotAllowed),
            (false, Some(upload)) => self.of_upload(objects, upload, method, headers, content),
            (false, None) => self.of_object(objects, method, headers, content),
        }
    }

    fn of_object(
        &self,
        objects: &mut Objects,
        method: &Method,
        headers: &HeaderMap,
        content: Bytes,
    ) -> Result<HttpResponse, Rejection> {
        let key = self.key.as_str();
        match *method {
            Method::GET | Method::HEAD => read(objects.get(key)?, self.query.get("generation"), headers),
            Method::PUT => match text_of(headers, COPY_SOURCE) {
                None => objects.put(key, condition(headers)?, attributes(headers), content).map(written),
                Some(source) => {
                    let (_, source) = bucket_and_key(source)?;
                    objects.copy(&source, key, condition(headers)?).map(written)
                }
            },
            Method::DELETE => objects.delete(key, condition(headers)?).map(|()| empty(StatusCode::NO_CONTENT)),
            Method::POST if self.query.contains_key("uploads") => {
                let upload_id = objects.begin_upload(key, attributes(headers));
                document(&UploadStarted { bucket: BUCKET, key: key.to_owned(), upload_id })
            }
            _ => Err(Rejection::MethodNotAllowed),
        }
    }

    fn of_upload(
        &self,
        objects: &mut Objects,
        upload: &str,
        method: &Method,
        headers: &HeaderMap,
        content: Bytes,
    ) -> Result<HttpResponse, Rejection> {
        let key = self.key.as_str();
        match *method {
            Method::PUT => {
                let part = self.number("partNumber")?.ok_or(Rejection::InvalidArgument)?;
                objects.put_part(key, upload, part, content)?;
                Ok(with(empty(StatusCode::OK), ETAG, &format!("\"part-{part}\"")))
            }
            Method::POST => {
                let object = objects.complete_upload(key, upload, condition(headers)?)?;
                let body = UploadCompleted { bucket: BUCKET, key: key.to_owned(), e_tag: object.e_tag() };
                Ok(with(document(&body)?, HeaderName::from_static(GENERATION), &object.generation.to_string()))
            }
            Method::DELETE => objects.abort_upload(key, upload).map(|()| empty(StatusCode::NO_CONTENT)),
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

fn condition(headers: &HeaderMap) -> Result<Option<u64>, Rejection> {
    let text = text_of(headers, GENERATION_CONDITION);
    text.map(str::parse).transpose().map_err(|_| Rejection::InvalidArgument)
}

fn attributes(headers: &HeaderMap) -> HeaderMap {
    let kept = |name: &HeaderName| KEPT.contains(name) || name.as_str().starts_with(METADATA_PREFIX);
    headers.iter().filter(|(name, _)| kept(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn read(object: &Object, generation: Option<&String>, headers: &HeaderMap) -> Result<HttpResponse, Rejection> {
    if generation.is_some_and(|generation| *generation != object.generation.to_string()) {
        return Err(Rejection::NoSuchKey);
    }
    let matches = |tags: &str| tags == "*" || tags.split(',').any(|tag| tag.trim() == object.e_tag());
    if text_of(headers, IF_MATCH).is_some_and(|tags| !matches(tags)) {
        return Err(Rejection::PreconditionFailed);
    }
    if text_of(headers, IF_NONE_MATCH).is_some_and(matches) {
        return Err(Rejection::NotModified);
    }
    let size = object.content.len();
    let mut response = match text_of(headers, RANGE) {
        None => full(StatusCode::OK, object.content.clone()),
        Some(range) => {
            let Range { start, end } = range_within(range, size).ok_or(Rejection::InvalidRange)?;
            let part = full(StatusCode::PARTIAL_CONTENT, object.content.slice(start..end));
            with(part, CONTENT_RANGE, &format!("bytes {start}-{}/{size}", end - 1))
        }
    };
    response.headers_mut().extend(object.attributes.clone());
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
        Rejection::NoSuchBucket | Rejection::NoSuchKey | Rejection::NoSuchUpload => StatusCode::NOT_FOUND,
        Rejection::NotModified => return empty(StatusCode::NOT_MODIFIED),
        Rejection::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
        Rejection::SlowDown => StatusCode::TOO_MANY_REQUESTS,
        Rejection::Unauthorized => StatusCode::UNAUTHORIZED,
    };
    let body = format!("<?xml version='1.0' encoding='UTF-8'?><Error><Code>{rejection:?}</Code></Error>");
    with(full(status, body.into()), CONTENT_TYPE, "application/xml")
}
