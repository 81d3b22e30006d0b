//! [`Api`]: requests to the Messages API, and what comes back.

use std::collections::VecDeque;
use std::env;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use futures::{Stream, StreamExt as _};
use memory_tool::{BETA_HEADER, BoxError, COMPACTION_BETA_HEADER};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Url};
use serde_json::Value;
use sse_stream::{Sse, SseByteStream};

use crate::chat::body::{BodyError, beginning, bounded, whole};
use crate::chat::conversation::Settings;
use crate::chat::response::{Applied, Assembly, Part, Response};
use crate::chat_error::{ChatError, RequestError};

const DEFAULT_ADDRESS: &str = "https://api.anthropic.com";
const VERSION: &str = "2023-06-01";

/// How long it may take to reach the server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a server that streams may be silent: it sends a `ping` now and then.
const STREAM_SILENCE: Duration = Duration::from_mins(2);
/// How long a server that answers at once may be silent: it is until the response is whole.
const WHOLE_SILENCE: Duration = Duration::from_mins(15);
/// How many bytes a response may have, also one that is streamed.
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;
const TOO_LONG: &str = "the response is longer than 64 MiB";
/// How many bytes are read of an error.
const MAX_REFUSAL_BYTES: usize = 64 * 1024;
/// How much is shown of a text of the server's.
const SHOWN_CHARACTERS: usize = 1000;

/// A client of the Messages API. The key goes to its server alone, and is shown nowhere.
pub(crate) struct Api {
    client: Client,
    url: Url,
    key: String,
    headers: HeaderMap,
}

impl Api {
    /// The API that `ANTHROPIC_API_KEY` and `ANTHROPIC_BASE_URL` name.
    pub(crate) fn from_environment(settings: &Settings) -> Result<Self, ChatError> {
        let key = variable("ANTHROPIC_API_KEY").ok_or(ChatError::NoKey)?;
        Self::new(key, &variable("ANTHROPIC_BASE_URL").unwrap_or_else(|| DEFAULT_ADDRESS.to_owned()), settings)
    }

    /// The API at an address.
    pub(crate) fn new(key: String, address: &str, settings: &Settings) -> Result<Self, ChatError> {
        let url = messages_url(address)?;
        let headers = headers(&key, settings)?;
        choose_cryptography();
        let client = Client::builder()
            .user_agent(concat!("memory-tool/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(if settings.stream { STREAM_SILENCE } else { WHOLE_SILENCE })
            .redirect(reqwest::redirect::Policy::none()) // which would carry the key elsewhere
            .build()
            .map_err(ChatError::Client)?;
        Ok(Self { client, url, key, headers })
    }

    /// Sends a request, and gives the response as far as it has begun.
    pub(crate) async fn send(&self, body: Vec<u8>) -> Result<Answer<'_>, RequestError> {
        let request = self.client.post(self.url.clone()).headers(self.headers.clone()).body(body);
        let response = request.send().await.map_err(|error| self.unreachable(error))?;
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        let is_stream = response
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
        let parts = bounded(response.bytes_stream(), MAX_RESPONSE_BYTES);
        let source = if is_stream {
            Source::Events(Box::pin(SseByteStream::new(parts)), Assembly::default())
        } else {
            let body = whole(parts).await.map_err(|error| self.unread(error))?;
            let message = serde_json::from_slice(&body).ok().and_then(Response::from_json);
            let message = message.ok_or_else(|| self.malformed("the body is no message"))?;
            Source::Message(message.parts().into(), message)
        };
        Ok(Answer { api: self, source })
    }

    /// What a response with the status of an error says.
    async fn refusal(&self, response: reqwest::Response) -> RequestError {
        let status = response.status().as_u16();
        let retry_after = response.headers().get(RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| retry_after_in(value.to_str().ok()?.trim(), SystemTime::now()));
        let request_id = response.headers().get("request-id").and_then(|value| value.to_str().ok()).map(str::to_owned);
        // The status says enough where the rest does not come.
        let body = beginning(response.bytes_stream(), MAX_REFUSAL_BYTES).await;
        let mut told = self.shown(&told(&body));
        if let Some(id) = request_id {
            told = format!("{told} (request {})", self.shown(&id));
        }
        RequestError::Refused { status, told, retry_after }
    }

    fn unreachable(&self, error: reqwest::Error) -> RequestError {
        RequestError::Unreachable { host: self.host(), source: error.without_url() }
    }

    fn unread(&self, error: BodyError<reqwest::Error>) -> RequestError {
        match error {
            BodyError::Broken(error) => self.broken(error.without_url()),
            BodyError::TooLong => self.malformed(TOO_LONG),
        }
    }

    fn undone(&self, error: sse_stream::Error) -> RequestError {
        match error {
            sse_stream::Error::Body(error) => match error.downcast::<BodyError<reqwest::Error>>() {
                Ok(error) => self.unread(*error),
                Err(error) => self.broken(error),
            },
            error => self.broken(error),
        }
    }

    fn broken(&self, error: impl Into<BoxError>) -> RequestError {
        RequestError::Broken { host: self.host(), source: error.into() }
    }

    fn malformed(&self, why: &'static str) -> RequestError {
        RequestError::Malformed { host: self.host(), why }
    }

    /// What is shown of a text of the server's, which may tell the key back: the key goes first, as a part of it is too much, too.
    fn shown(&self, text: &str) -> String {
        shortened(&text.replace(&self.key, "[the key]"))
    }

    fn host(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        self.url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }
}

/// A variable of the environment, if it says anything.
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

fn messages_url(address: &str) -> Result<Url, ChatError> {
    let url =
        Url::parse(&format!("{}/v1/messages", address.trim_end_matches('/'))).map_err(|_| ChatError::BadAddress)?;
    if matches!(url.scheme(), "http" | "https") && url.has_host() { Ok(url) } else { Err(ChatError::BadAddress) }
}

fn headers(key: &str, settings: &Settings) -> Result<HeaderMap, ChatError> {
    let mut key = HeaderValue::from_str(key).map_err(|_| ChatError::BadKey)?;
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

/// TLS by `ring`, unless the process has chosen another.
fn choose_cryptography() {
    let _ = rustls::crypto::ring::default_provider().install_default(); // fails where there is one already
}

/// The wait that a `Retry-After` asks for: in seconds, of which the API may give a fraction, or up to a time.
fn retry_after_in(value: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(time) = httpdate::parse_http_date(value) {
        return Some(time.duration_since(now).unwrap_or_default()); // none where the time is over
    }
    let seconds = value.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0)?;
    Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

/// The beginning of a text of the server's, which may be of any length.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// What the body of an error says: its type and message, or all of it where it is not the API's.
fn told(body: &[u8]) -> String {
    let error = serde_json::from_slice::<Value>(body).unwrap_or_default()["error"].take();
    match (error["type"].as_str(), error["message"].as_str()) {
        (Some(kind), Some(message)) => format!("{kind}: {message}"),
        _ => String::from_utf8_lossy(body).trim().to_owned(),
    }
}

/// A response that has begun.
pub(crate) struct Answer<'a> {
    api: &'a Api,
    source: Source,
}

enum Source {
    /// The events that are still to come, and what came of those before.
    Events(Pin<Box<dyn Stream<Item = Result<Sse, sse_stream::Error>> + Send>>, Assembly),
    /// The parts that are still to give of a response that came at once, and the response.
    Message(VecDeque<Part>, Response),
}

/// A step of a response.
pub(crate) enum Step {
    /// More to show.
    Part(Part),
    /// The end, with all that came.
    Whole(Response),
}

impl Answer<'_> {
    /// The next step. There is none after the end or an error.
    pub(crate) async fn next(&mut self) -> Result<Step, RequestError> {
        let (events, assembly) = match &mut self.source {
            Source::Events(events, assembly) => (events, assembly),
            Source::Message(parts, response) => {
                return Ok(parts.pop_front().map_or_else(|| Step::Whole(std::mem::take(response)), Step::Part));
            }
        };
        while let Some(event) = events.next().await {
            let event = event.map_err(|error| self.api.undone(error))?;
            let Some(data) = event.data else { continue };
            let event: Value = serde_json::from_str(&data).map_err(|_| self.api.malformed("an event is no JSON"))?;
            match assembly.apply(&event).map_err(|why| self.api.malformed(why))? {
                Applied::Part(part) => return Ok(Step::Part(part)),
                Applied::Whole(response) => return Ok(Step::Whole(response)),
                Applied::Error { kind, told } => {
                    let told = self.api.shown(&format!("{kind}: {told}"));
                    return Err(RequestError::BrokenOff { kind, told });
                }
                Applied::Nothing => {}
            }
        }
        Err(RequestError::Cut { host: self.api.host() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_asked_for_in_seconds_or_up_to_a_time() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777); // the time in the examples of HTTP
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
