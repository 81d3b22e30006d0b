//! [`answer`]: a request of HTTP taken apart, carried out under the lock, and answered.

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

use super::TOKEN;
use super::objects::{Object, Objects, Refused, Selection};
use super::xml::{self, Begun, Completed, List};
use crate::server::BUCKET;

const GENERATION: &str = "x-goog-generation";
const GENERATION_CONDITION: &str = "x-goog-if-generation-match";
const COPY_SOURCE: &str = "x-goog-copy-source";
const METADATA_PREFIX: &str = "x-goog-meta-";
const KEPT: [HeaderName; 5] = [CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE];
const LARGEST_PAGE: usize = 1000;

type Answer = Response<Full<Bytes>>;

/// Answers one request. Its body is read before the lock is taken, so a slow one holds up nobody and a broken one has no
/// effect.
pub(super) async fn answer(objects: &Mutex<Objects>, request: Request<Incoming>) -> Result<Answer, hyper::Error> {
    let (head, body) = request.into_parts();
    let content = body.collect().await?.to_bytes();
    let asked = Asked::of(head.uri.path(), head.uri.query().unwrap_or_default());
    // A panic leaves the objects whole, as each change of them is one step.
    let mut objects = objects.lock().unwrap_or_else(PoisonError::into_inner);
    let answer = asked.and_then(|asked| asked.carry_out(&mut objects, &head.method, &head.headers, content));
    Ok(answer.unwrap_or_else(refuse))
}

/// What a request is about.
struct Asked {
    bucket: String,
    /// Empty where the request is about the bucket.
    key: String,
    query: HashMap<String, String>,
}

impl Asked {
    fn of(path: &str, query: &str) -> Result<Self, Refused> {
        let (bucket, key) = bucket_and_key(path.strip_prefix('/').ok_or(Refused::InvalidArgument)?)?;
        Ok(Self { bucket, key, query: form_urlencoded::parse(query.as_bytes()).into_owned().collect() })
    }

    fn carry_out(
        &self,
        objects: &mut Objects,
        method: &Method,
        headers: &HeaderMap,
        content: Bytes,
    ) -> Result<Answer, Refused> {
        if text_of(headers, AUTHORIZATION) != Some(&format!("Bearer {TOKEN}")) {
            return Err(Refused::Unauthorized);
        }
        if self.bucket != BUCKET {
            return Err(Refused::NoSuchBucket);
        }
        match (self.key.is_empty(), self.query.get("uploadId")) {
            (true, _) if method == Method::GET => document(&List::from(objects.list(&self.selection()?))),
            (true, _) => Err(Refused::MethodNotAllowed),
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
    ) -> Result<Answer, Refused> {
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
                document(&Begun { bucket: BUCKET, key: key.to_owned(), upload_id })
            }
            _ => Err(Refused::MethodNotAllowed),
        }
    }

    fn of_upload(
        &self,
        objects: &mut Objects,
        upload: &str,
        method: &Method,
        headers: &HeaderMap,
        content: Bytes,
    ) -> Result<Answer, Refused> {
        let key = self.key.as_str();
        match *method {
            Method::PUT => {
                let part = self.number("partNumber")?.ok_or(Refused::InvalidArgument)?;
                objects.put_part(key, upload, part, content)?;
                Ok(with(empty(StatusCode::OK), ETAG, &format!("\"part-{part}\"")))
            }
            Method::POST => {
                let object = objects.complete_upload(key, upload, condition(headers)?)?;
                let body = Completed { bucket: BUCKET, key: key.to_owned(), e_tag: object.e_tag() };
                Ok(with(document(&body)?, HeaderName::from_static(GENERATION), &object.generation.to_string()))
            }
            Method::DELETE => objects.abort_upload(key, upload).map(|()| empty(StatusCode::NO_CONTENT)),
            _ => Err(Refused::MethodNotAllowed),
        }
    }

    fn selection(&self) -> Result<Selection, Refused> {
        let text = |name| self.query.get(name).cloned().unwrap_or_default();
        Ok(Selection {
            prefix: text("prefix"),
            delimiter: self.query.get("delimiter").cloned(),
            after: text("start-after"),
            token: text("continuation-token"),
            limit: self.number("max-keys")?.unwrap_or(LARGEST_PAGE).min(LARGEST_PAGE),
        })
    }

    fn number(&self, name: &str) -> Result<Option<usize>, Refused> {
        self.query.get(name).map(|text| text.parse()).transpose().map_err(|_| Refused::InvalidArgument)
    }
}

/// Takes `bucket/key` apart, which arrive encoded, slashes of the key included.
fn bucket_and_key(path: &str) -> Result<(String, String), Refused> {
    let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
    let decode = |text| percent_decode_str(text).decode_utf8().map(String::from).map_err(|_| Refused::InvalidArgument);
    Ok((decode(bucket)?, decode(key)?))
}

fn text_of(headers: &HeaderMap, name: impl hyper::header::AsHeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

fn condition(headers: &HeaderMap) -> Result<Option<u64>, Refused> {
    let text = text_of(headers, GENERATION_CONDITION);
    text.map(str::parse).transpose().map_err(|_| Refused::InvalidArgument)
}

fn attributes(headers: &HeaderMap) -> HeaderMap {
    let kept = |name: &HeaderName| KEPT.contains(name) || name.as_str().starts_with(METADATA_PREFIX);
    headers.iter().filter(|(name, _)| kept(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn read(object: &Object, generation: Option<&String>, headers: &HeaderMap) -> Result<Answer, Refused> {
    if generation.is_some_and(|generation| *generation != object.generation.to_string()) {
        return Err(Refused::NoSuchKey);
    }
    let matches = |tags: &str| tags == "*" || tags.split(',').any(|tag| tag.trim() == object.e_tag());
    if text_of(headers, IF_MATCH).is_some_and(|tags| !matches(tags)) {
        return Err(Refused::PreconditionFailed);
    }
    if text_of(headers, IF_NONE_MATCH).is_some_and(matches) {
        return Err(Refused::NotModified);
    }
    let size = object.content.len();
    let mut answer = match text_of(headers, RANGE) {
        None => full(StatusCode::OK, object.content.clone()),
        Some(range) => {
            let Range { start, end } = range_within(range, size).ok_or(Refused::InvalidRange)?;
            let part = full(StatusCode::PARTIAL_CONTENT, object.content.slice(start..end));
            with(part, CONTENT_RANGE, &format!("bytes {start}-{}/{size}", end - 1))
        }
    };
    answer.headers_mut().extend(object.attributes.clone());
    let answer = with(answer, LAST_MODIFIED, &object.modified.format("%a, %d %b %Y %H:%M:%S GMT").to_string());
    Ok(described(answer, object))
}

/// The bytes that `bytes=first-last`, `bytes=first-` or `bytes=-count` means, if the object has any of them.
fn range_within(range: &str, size: usize) -> Option<Range<usize>> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let range = match (first, last) {
        ("", count) => size.saturating_sub(count.parse().ok()?)..size,
        (first, "") => first.parse().ok()?..size,
        (first, last) => first.parse().ok()?..last.parse::<usize>().ok()?.saturating_add(1).min(size),
    };
    (!range.is_empty()).then_some(range)
}

fn written(object: &Object) -> Answer {
    described(empty(StatusCode::OK), object)
}

fn described(answer: Answer, object: &Object) -> Answer {
    let answer = with(answer, ETAG, &object.e_tag());
    with(answer, HeaderName::from_static(GENERATION), &object.generation.to_string())
}

fn document(body: &impl Serialize) -> Result<Answer, Refused> {
    Ok(with(full(StatusCode::OK, xml::text(body)?.into()), CONTENT_TYPE, "application/xml"))
}

fn empty(status: StatusCode) -> Answer {
    full(status, Bytes::new())
}

fn full(status: StatusCode, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    answer
}

fn with(mut answer: Answer, name: HeaderName, value: &str) -> Answer {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
    answer
}

fn refuse(refused: Refused) -> Answer {
    let status = match refused {
        Refused::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        Refused::InvalidArgument => StatusCode::BAD_REQUEST,
        Refused::InvalidRange => StatusCode::RANGE_NOT_SATISFIABLE,
        Refused::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        Refused::NoSuchBucket | Refused::NoSuchKey | Refused::NoSuchUpload => StatusCode::NOT_FOUND,
        Refused::NotModified => return empty(StatusCode::NOT_MODIFIED),
        Refused::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
        Refused::SlowDown => StatusCode::TOO_MANY_REQUESTS,
        Refused::Unauthorized => StatusCode::UNAUTHORIZED,
    };
    let body = format!("<?xml version='1.0' encoding='UTF-8'?><Error><Code>{refused:?}</Code></Error>");
    with(full(status, body.into()), CONTENT_TYPE, "application/xml")
}
