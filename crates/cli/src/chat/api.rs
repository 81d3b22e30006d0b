//! [`Api`]: requests to the Messages API and their responses.

use std::collections::VecDeque;
use std::env;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use futures::{Stream, StreamExt as _};
use memory_tool::BoxError;
use memory_tool::api::{BETA_HEADER, COMPACTION_BETA_HEADER};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Url};
use serde_json::Value;
use sse_stream::{Sse, SseByteStream};

use crate::chat::body::{BodyError, bounded, read_all, read_start};
use crate::chat::conversation::Settings;
use crate::chat::error::RequestError;
use crate::chat::response::{Assembly, EventResult, Part, Response};
use crate::failure::{Context as _, Failure};

const DEFAULT_ADDRESS: &str = "https://api.anthropic.com";
const VERSION: &str = "2023-06-01";

const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// The read timeout of a stream, in which the server sends a `ping` now and then.
const STREAM_TIMEOUT: Duration = Duration::from_mins(2);
/// The read timeout without a stream, when the server is silent until the response is complete.
const MESSAGE_TIMEOUT: Duration = Duration::from_mins(15);
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;
const TOO_LONG: &str = "the response is longer than 64 MiB";
/// The maximum size of an error, after which reading stops.
const MAX_ERROR_BYTES: usize = 64 * 1024;
/// The maximum length of quotations from the server, in characters.
const MAX_SHOWN_CHARACTERS: usize = 1000;

/// A client of the Messages API. The key is sent only to its server and never printed.
pub(crate) struct Api {
    client: Client,
    url: Url,
    key: String,
    headers: HeaderMap,
}

impl Api {
    /// The API with the settings of `ANTHROPIC_API_KEY` and `ANTHROPIC_BASE_URL`.
    pub(crate) fn from_environment(settings: &Settings) -> Result<Self, Failure> {
        let no_key = || Failure::new("no API key; set ANTHROPIC_API_KEY");
        let key = variable("ANTHROPIC_API_KEY").ok_or_else(no_key)?;
        Self::new(key, &variable("ANTHROPIC_BASE_URL").unwrap_or_else(|| DEFAULT_ADDRESS.to_owned()), settings)
    }

    /// The API at an address.
    pub(crate) fn new(key: String, address: &str, settings: &Settings) -> Result<Self, Failure> {
        let url = messages_url(address)?;
        let headers = headers(&key, settings)?;
        // Installs `ring` as the provider of TLS, unless there is one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .user_agent(concat!("memory-tool/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(if settings.stream { STREAM_TIMEOUT } else { MESSAGE_TIMEOUT })
            .redirect(reqwest::redirect::Policy::none()) // a redirect would send the key elsewhere
            .build()
            .context("cannot create an HTTP client")?;
        Ok(Self { client, url, key, headers })
    }

    /// Sends a request, and returns the response once it has begun.
    pub(crate) async fn send(&self, body: Vec<u8>) -> Result<PendingResponse<'_>, RequestError> {
        let request = self.client.post(self.url.clone()).headers(self.headers.clone()).body(body);
        let response = request.send().await.map_err(|error| self.unreachable(error))?;
        if !response.status().is_success() {
            return Err(self.status_error(response).await);
        }
        let is_stream = response
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
        let chunks = bounded(response.bytes_stream(), MAX_RESPONSE_BYTES);
        let source = if is_stream {
            Source::Events(Box::pin(SseByteStream::new(chunks)), Assembly::default())
        } else {
            let body = read_all(chunks).await.map_err(|error| self.body_error(error))?;
            let message = serde_json::from_slice(&body).ok().and_then(Response::from_json);
            let message = message.ok_or_else(|| self.malformed("the body is not a message"))?;
            Source::Message(message.parts().into(), message)
        };
        Ok(PendingResponse { api: self, source })
    }

    async fn status_error(&self, response: reqwest::Response) -> RequestError {
        let status = response.status().as_u16();
        let retry_after = response.headers().get(RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| retry_after_in(value.to_str().ok()?.trim(), SystemTime::now()));
        let request_id = response.headers().get("request-id").and_then(|value| value.to_str().ok()).map(str::to_owned);
        // If reading fails, the status is enough.
        let body = read_start(response.bytes_stream(), MAX_ERROR_BYTES).await;
        let mut message = self.printable(&error_message(&body));
        if let Some(id) = request_id {
            message = format!("{message} (request {})", self.printable(&id));
        }
        RequestError::Status { status, message, retry_after }
    }

    fn unreachable(&self, error: reqwest::Error) -> RequestError {
        RequestError::Unreachable { host: self.host(), source: error.without_url() }
    }

    fn body_error(&self, error: BodyError<reqwest::Error>) -> RequestError {
        match error {
            BodyError::Broken(error) => self.broken(error.without_url()),
            BodyError::TooLong => self.malformed(TOO_LONG),
        }
    }

    fn stream_error(&self, error: sse_stream::Error) -> RequestError {
        match error {
            sse_stream::Error::Body(error) => match error.downcast::<BodyError<reqwest::Error>>() {
                Ok(error) => self.body_error(*error),
                Err(error) => self.broken(error),
            },
            error => self.broken(error),
        }
    }

    fn broken(&self, error: impl Into<BoxError>) -> RequestError {
        RequestError::Broken { host: self.host(), source: error.into() }
    }

    fn malformed(&self, reason: &'static str) -> RequestError {
        RequestError::Malformed { host: self.host(), reason }
    }

    /// Shortens a quotation from the server. A key in it is replaced first, so that no part of it remains.
    fn printable(&self, text: &str) -> String {
        quoted(&text.replace(&self.key, "[API key]"))
    }

    fn host(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        self.url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }
}

/// The value of an environment variable, unless it is empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

fn messages_url(address: &str) -> Result<Url, Failure> {
    let url = Url::parse(&format!("{}/v1/messages", address.trim_end_matches('/'))).ok();
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    // The message omits the address, because it may contain a password.
    url.ok_or_else(|| {
        Failure::new("ANTHROPIC_BASE_URL is not an http: or https: URL, such as https://api.anthropic.com")
    })
}

fn headers(key: &str, settings: &Settings) -> Result<HeaderMap, Failure> {
    let bad_key = |_| Failure::new("ANTHROPIC_API_KEY contains invalid characters");
    let mut key = HeaderValue::from_str(key).map_err(bad_key)?;
    key.set_sensitive(true);
    let mut headers = HeaderMap::new();
    headers.insert("x-api-key", key);
    headers.insert("anthropic-version", HeaderValue::from_static(VERSION));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let (name, context_editing) = BETA_HEADER;
    let (_, compaction) = COMPACTION_BETA_HEADER;
    let betas = [(settings.edits_context, context_editing), (settings.compacts, compaction)];
    let betas: Vec<_> = betas.into_iter().filter_map(|(is_on, value)| is_on.then_some(value)).collect();
    if let Ok(value) = HeaderValue::from_str(&betas.join(","))
        && !betas.is_empty()
    {
        headers.insert(name, value);
    }
    Ok(headers)
}

/// The delay in a `Retry-After` header: a number of seconds, which may have a fraction, or a time.
fn retry_after_in(value: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(time) = httpdate::parse_http_date(value) {
        return Some(time.duration_since(now).unwrap_or_default()); // zero if the time has passed
    }
    let seconds = value.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0)?;
    Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

/// A quotation, shortened to the maximum length.
pub(crate) fn quoted(text: &str) -> String {
    shortened(text, MAX_SHOWN_CHARACTERS)
}

/// Shortens to this number of characters.
pub(crate) fn shortened(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The type and message in the body of an error, or the whole body if it is not JSON of the API.
fn error_message(body: &[u8]) -> String {
    let error = serde_json::from_slice::<Value>(body).unwrap_or_default()["error"].take();
    match (error["type"].as_str(), error["message"].as_str()) {
        (Some(kind), Some(message)) => format!("{kind}: {message}"),
        _ => String::from_utf8_lossy(body).trim().to_owned(),
    }
}

/// A response that has begun.
pub(crate) struct PendingResponse<'a> {
    api: &'a Api,
    source: Source,
}

enum Source {
    Events(Pin<Box<dyn Stream<Item = Result<Sse, sse_stream::Error>> + Send>>, Assembly),
    Message(VecDeque<Part>, Response),
}

/// A step of a response.
pub(crate) enum Step {
    Part(Part),
    Complete(Response),
}

impl PendingResponse<'_> {
    /// Waits for the next step. Must not be called after the end or an error.
    pub(crate) async fn next(&mut self) -> Result<Step, RequestError> {
        let (events, assembly) = match &mut self.source {
            Source::Events(events, assembly) => (events, assembly),
            Source::Message(parts, response) => {
                return Ok(parts.pop_front().map_or_else(|| Step::Complete(std::mem::take(response)), Step::Part));
            }
        };
        while let Some(event) = events.next().await {
            let event = event.map_err(|error| self.api.stream_error(error))?;
            let Some(data) = event.data else { continue };
            let event: Value = serde_json::from_str(&data).map_err(|_| self.api.malformed("an event is not JSON"))?;
            match assembly.apply(&event).map_err(|reason| self.api.malformed(reason))? {
                EventResult::Part(part) => return Ok(Step::Part(part)),
                EventResult::Complete(response) => return Ok(Step::Complete(response)),
                EventResult::Error { kind, message } => {
                    let message = self.api.printable(&format!("{kind}: {message}"));
                    return Err(RequestError::Aborted { kind, message });
                }
                EventResult::Nothing => {}
            }
        }
        Err(RequestError::Truncated { host: self.api.host() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_a_number_of_seconds_or_a_time() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777); // as in the examples of RFC 9110
        for (value, millis) in [
            ("0", Some(0)),
            ("2", Some(2000)),
            ("0.25", Some(250)),
            ("Sun, 06 Nov 1994 08:49:40 GMT", Some(3000)),
            ("Sun, 06 Nov 1994 08:49:30 GMT", Some(0)),
            ("-1", None),
            ("inf", None),
            ("NaN", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(retry_after_in(value, now), millis.map(Duration::from_millis), "{value:?}");
        }
        assert_eq!(retry_after_in("1e30", now), Some(Duration::MAX));
    }
}
