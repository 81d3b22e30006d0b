//! The layers around all handlers: request ids, authentication and limits.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{AUTHORIZATION, IF_MATCH, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http_body_util::BodyExt as _;
use hyper::body::{Frame, SizeHint};
use tokio::task::yield_now;
use tokio::time::timeout;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use crate::access::Caller;
#[cfg(feature = "mcp")]
use crate::access::issuer::{Refusal, Resource};
use crate::access::tokens::hexadecimal;
use crate::http::connections::{Activity, Connection};
use crate::http::error::ApiError;
use crate::http::gate::{Excess, Gate, Running};
use crate::http::listener::Peer;
use crate::http::metrics::record_request;
use crate::http::offload::offload;

/// The length of a body in bytes above which handling it takes long, and of the parts of a response.
const LARGE: usize = 64 * 1024;

/// The length of a body in bytes whose memory the process may keep.
const MAX_KEPT: usize = 4 * 1024 * 1024;

/// The body of a request without a token or a session: a token and an address.
const MAX_BODY_OF_ANYONE: usize = 8 * 1024;
const BODY_TIME_OF_ANYONE: Duration = Duration::from_secs(5);

/// Gives each request an id, and logs and counts it without contents and tokens.
pub(crate) async fn identify(State(gate): State<Arc<Gate>>, mut request: Request, next: Next) -> Response {
    let peer = request.extensions().get().copied().unwrap_or(Peer(None));
    let client = gate.proxies.client(peer, request.headers()).map(tracing::field::display);
    gate.proxies.restore_host(peer, request.headers_mut());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let mut random = [0; 12];
    let _ = getrandom::fill(&mut random);
    let id = format!("req_{}", hexadecimal(&random));
    let (method, path, start) = (request.method().clone(), shown(request.uri().path()), Instant::now());
    request.extensions_mut().insert(RequestId(id.as_str().into()));
    // Each line of the log about this request has it.
    let span = tracing::error_span!("request", request_id = id, memory = Empty, actor = Empty, outcome = Empty);
    let mut response = next.run(request).instrument(span.clone()).await;
    if let Some(error) = response.extensions_mut().remove::<ApiError>() {
        span.record("outcome", error.kind());
        response = error.response(Some(&id));
    }
    let (status, duration) = (response.status().as_u16(), start.elapsed());
    let milliseconds = duration.as_secs_f64() * 1_000.0;
    span.in_scope(|| tracing::info!(%method, path, status, milliseconds, client, request_id = id, "request"));
    record_request(route.as_ref().map_or("none", MatchedPath::as_str), method_name(&method), status, duration);
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert("request-id", value);
    }
    response
}

/// The id of a request.
#[derive(Clone)]
struct RequestId(Arc<str>);

/// The id that [`identify`] gave to a request.
pub(crate) fn request_id(parts: &Parts) -> Arc<str> {
    parts.extensions.get().map(|RequestId(id)| Arc::clone(id)).unwrap_or_default()
}

/// A method for metrics. A client can invent others, and each would be a time series.
fn method_name(method: &Method) -> &str {
    match *method {
        Method::GET | Method::POST | Method::PATCH | Method::DELETE => method.as_str(),
        _ => "other",
    }
}

/// A path for the log. hyper accepts no ASCII control characters in it, but all others.
fn shown(path: &str) -> String {
    path.escape_debug().to_string()
}

/// Admits requests with a token to this server, and reads their bodies.
pub(crate) async fn admit(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let (mut parts, mut body) = arriving(request);
    let (request_id, path) = (request_id(&parts), parts.uri.path().to_owned());
    let admitting = async {
        refuse_conditions(&parts)?;
        gate.hosts.check(&parts)?;
        let foreign = accept_foreign(&gate, &parts).await?;
        let identify = |headers: &HeaderMap| {
            let (caller, token) = match &foreign {
                Some(id) => (gate.tokens.caller_with_id(id)?, id.clone()),
                None => gate.tokens.caller(token(headers)?)?,
            };
            let caller = caller.in_request(&request_id);
            Some((caller.clone(), token, caller))
        };
        prepare(&gate, &mut parts, &mut body, identify).await
    };
    match admitting.await {
        Ok(running) => run(Request::from_parts(parts, Body::empty()), body.content.into(), running, next).await,
        Err(error) => challenging(&gate, &path, error).into_response(),
    }
}

/// The id of the token of a request, if an identity provider gave it for `/mcp`.
#[cfg(feature = "mcp")]
async fn accept_foreign(gate: &Gate, parts: &Parts) -> Result<Option<String>, ApiError> {
    let Some(resource) = gate.resource.as_ref().filter(|_| parts.uri.path() == Resource::PATH) else { return Ok(None) };
    let Some(token) = token(&parts.headers).filter(|token| gate.tokens.caller(token).is_none()) else {
        return Ok(None);
    };
    let entry = resource.accept(token).await.map_err(|refusal| match refusal {
        Refusal::NoKeys => ApiError::unavailable("the identity provider does not respond; try again"),
        _ => ApiError::authentication(),
    })?;
    let id = entry.id.clone();
    gate.tokens.add_foreign(entry);
    Ok(Some(id))
}

#[cfg(not(feature = "mcp"))]
async fn accept_foreign(_: &Gate, _: &Parts) -> Result<Option<String>, ApiError> {
    Ok(None)
}

/// An error at a path. Clients without a token of the provider learn where they get one.
fn challenging(gate: &Gate, path: &str, error: ApiError) -> ApiError {
    #[cfg(feature = "mcp")]
    if let Some(resource) = gate.resource.as_ref().filter(|_| path == Resource::PATH) {
        return error.challenging(resource.challenge());
    }
    let _ = (gate, path);
    error
}

/// Admits requests of the open parts of the page. They take no place of other requests, because anybody can send them.
pub(crate) async fn admit_anyone(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let (parts, mut body) = arriving(request);
    let admitting = async {
        gate.hosts.check(&parts)?;
        timeout(BODY_TIME_OF_ANYONE, body.read(MAX_BODY_OF_ANYONE, |_| Ok(())))
            .await
            .map_err(|_| ApiError::too_slow())?
    };
    match admitting.await {
        Ok(()) => next.run(Request::from_parts(parts, body.content.into())).await,
        Err(error) => error.into_response(),
    }
}

/// Responds to an admitted request with this body. Its parts of the limits last until the response is sent.
pub(crate) async fn run(mut request: Request, body: Bytes, running: Arc<Running>, next: Next) -> Response {
    let (is_read, is_large) = (request.method() == Method::GET, body.len() > LARGE);
    *request.body_mut() = body.into();
    let response = if is_read {
        let _few = running.wait_to_read().await;
        offload(running.processors(), next.run(request)).await
    } else if is_large {
        offload(running.processors(), next.run(request)).await
    } else {
        next.run(request).await
    };
    let length = response.body().size_hint().exact().and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
    if let Err(error) = running.count_reply(length, Excess::of_reply(is_read)) {
        return error.into_response();
    }
    response.map(|body| Body::new(Counted { body, rest: Bytes::new(), running }))
}

/// Refuses a change with a condition that this server does not know: it would be made although the condition fails.
fn refuse_conditions(parts: &Parts) -> Result<(), ApiError> {
    let conditions = [IF_MATCH, IF_NONE_MATCH, IF_UNMODIFIED_SINCE];
    match conditions.iter().find(|name| parts.method != Method::GET && parts.headers.contains_key(*name)) {
        Some(name) => Err(ApiError::invalid(format!(
            "the header {name} is not supported: use `precondition` of an update, or `expected_content_sha256` of a \
             deletion"
        ))),
        None => Ok(()),
    }
}

/// Counts a request, reads its body, and adds its sender. `identify` returns the caller, the id of its token, and the
/// sender.
pub(crate) async fn prepare<T: Clone + Send + Sync + 'static>(
    gate: &Gate,
    parts: &mut Parts,
    body: &mut Arriving,
    identify: impl Fn(&HeaderMap) -> Option<(Caller, String, T)>,
) -> Result<Arc<Running>, ApiError> {
    let (caller, ..) = identify(&parts.headers).ok_or_else(ApiError::authentication)?;
    Span::current().record("actor", caller.actor().name());
    let mut begun = gate.begin(caller.tenant())?;
    let connection = parts.extensions.remove::<Arc<Connection>>();
    let busy = connection.map(|connection| connection.begin(Activity::Receiving));
    let limits = &gate.limits;
    let reading = body.read(limits.body_bytes, |length| begun.count_body(length));
    timeout(limits.body_time, reading).await.map_err(|_| ApiError::too_slow())??;
    // The token may have ended while the body arrived.
    let (_, token, sender) = identify(&parts.headers).ok_or_else(ApiError::authentication)?;
    busy.iter().for_each(|busy| busy.change(Activity::Answering));
    let running = Arc::new(begun.run(gate, &token, busy)?);
    parts.extensions.insert(sender);
    parts.extensions.insert(Arc::clone(&running));
    Ok(running)
}

/// The body of a response, in parts. Its request is counted until the last one is sent.
struct Counted {
    body: Body,
    rest: Bytes,
    #[expect(dead_code, reason = "held, so that the request counts")]
    running: Arc<Running>,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)).map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => self.rest = data,
                Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let length = self.rest.len().min(LARGE);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (body, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower() + rest);
        body.upper().into_iter().for_each(|upper| hint.set_upper(upper + rest));
        hint
    }
}

/// A body that arrives.
pub(crate) struct Arriving {
    rest: Body,
    /// The part that has arrived.
    pub(crate) content: Vec<u8>,
    pub(crate) is_complete: bool,
}

/// The head and the body of a request.
pub(crate) fn arriving(request: Request) -> (Parts, Arriving) {
    let (parts, rest) = request.into_parts();
    (parts, Arriving { rest, content: Vec::new(), is_complete: false })
}

impl Arriving {
    /// Reads the rest. `count` gets the length as it grows.
    pub(crate) async fn read(
        &mut self,
        max: usize,
        mut count: impl FnMut(usize) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        let rest = usize::try_from(self.rest.size_hint().lower()).unwrap_or(usize::MAX);
        let length = self.content.len().saturating_add(rest);
        if length > max {
            return Err(ApiError::too_large(max));
        }
        self.content.reserve_exact(capacity(length) - self.content.len());
        count(self.content.len())?;
        while let Some(frame) = self.rest.frame().await {
            let frame = frame.map_err(|_| ApiError::invalid("the body is incomplete"))?;
            let Ok(data) = frame.into_data() else { continue };
            self.content.extend_from_slice(&data);
            if self.content.len() > max {
                return Err(ApiError::too_large(max));
            }
            count(self.content.len())?;
            if self.content.len() > LARGE {
                yield_now().await; // the copy takes time, so other requests are next
            }
        }
        self.is_complete = true;
        Ok(())
    }
}

/// The capacity for a body of this length. Growth would copy it. glibc returns blocks of 32 MiB to the system when they
/// are freed, but keeps smaller ones in each thread. Untouched memory costs nothing.
fn capacity(length: usize) -> usize {
    const RETURNED: usize = 32 * 1024 * 1024 + 1;
    if length > MAX_KEPT { length.max(RETURNED) } else { length }
}

/// The token of a request. Several different ones are ambiguous. Other schemes are of a proxy, such as `Basic`.
fn token(headers: &HeaderMap) -> Option<&str> {
    let bearers = headers.get_all(AUTHORIZATION).iter().filter_map(|value| bearer(value.to_str().ok()?));
    let keys = headers.get_all("x-api-key").iter().map(|value| value.to_str().unwrap_or_default());
    let mut given = bearers.chain(keys);
    let first = given.next()?;
    given.all(|other| other == first).then_some(first)
}

/// The token in the value of a header. The name of the scheme is case-insensitive (RFC 9110, section 11.1).
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case("Bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_the_log_has_no_control_characters() {
        for (path, expected) in [("/v1/é%0a", "/v1/é%0a"), ("/\u{9b}2J", r"/\u{9b}2J"), ("/\u{202e}", r"/\u{202e}")] {
            assert_eq!(shown(path), expected);
        }
    }
}
