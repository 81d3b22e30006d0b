//! The layers around all handlers: request ids, authentication and limits.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{AUTHORIZATION, IF_MATCH, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http_body_util::BodyExt as _;
use hyper::body::{Frame, SizeHint};
use memory_tool::store::MemoryName;
use percent_encoding::percent_decode_str;
use tokio::task::yield_now;
use tokio::time::timeout;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use crate::access::Caller;
use crate::connections::{Activity, Connection};
use crate::error::ApiError;
use crate::listener::Peer;
use crate::metrics::record_request;
use crate::offload::offload;
use crate::page::Visitor;
use crate::service::{Running, Service};

/// The length of a body in bytes above which handling it takes long, and of the parts of a response.
const LARGE: usize = 64 * 1024;

/// The length of a body in bytes whose memory the process may keep.
const MAX_KEPT: usize = 4 * 1024 * 1024;

/// The fields of a form. The form of an erasure has one for each change of a file.
const MAX_FIELDS: usize = 10_000;

/// The body of a request without a token or a session: a token and an address.
const MAX_BODY_OF_ANYONE: usize = 8 * 1024;
const BODY_TIME_OF_ANYONE: Duration = Duration::from_secs(5);

/// Gives each request an id, and logs and counts it without contents and tokens.
pub(crate) async fn identify(State(service): State<Arc<Service>>, mut request: Request, next: Next) -> Response {
    let peer = request.extensions().get().copied().unwrap_or(Peer(None));
    let client = service.proxies.client(peer, request.headers()).map(tracing::field::display);
    service.proxies.restore_host(peer, request.headers_mut());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let mut random = [0; 12];
    let _ = getrandom::fill(&mut random);
    let id: String = "req_"
        .chars()
        .chain(random.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).map(char::from))
        .collect();
    let (method, path, start) = (request.method().clone(), shown(request.uri().path()), Instant::now());
    request.extensions_mut().insert(RequestId(id.as_str().into()));
    // Each line of the log about this request has it.
    let span = tracing::error_span!("request", request_id = id, memory = Empty, actor = Empty, outcome = Empty);
    memory_of(request.uri().path()).iter().for_each(|memory| _ = span.record("memory", memory.as_str()));
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

impl RequestId {
    fn of(request: &Request) -> Self {
        request.extensions().get().cloned().unwrap_or_else(|| Self(Arc::default()))
    }
}

/// The memory that a path names.
fn memory_of(path: &str) -> Option<MemoryName> {
    let rest = path.strip_prefix("/v1/memory_stores/").or_else(|| path.strip_prefix("/memory/"))?;
    percent_decode_str(rest.split('/').next()?).decode_utf8().ok()?.parse().ok()
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
pub(crate) async fn admit(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let RequestId(request_id) = RequestId::of(&request);
    let identify = |headers: &HeaderMap| {
        let (caller, token) = service.tokens.caller(token(headers)?)?;
        let caller = caller.in_request(&request_id);
        Some(Sender { caller: caller.clone(), who: caller, token })
    };
    let admitted = match refuse_conditions(&request) {
        Ok(()) => prepare(&service, request, identify).await,
        Err(error) => Err(error),
    };
    run(admitted, next).await
}

/// Admits requests of the page with a session.
pub(crate) async fn admit_visitor(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let RequestId(request_id) = RequestId::of(&request);
    let identify = |headers: &HeaderMap| {
        let (mut visitor, token) = Visitor::of(&service, headers)?;
        visitor.caller = visitor.caller.in_request(&request_id);
        Some(Sender { caller: visitor.caller.clone(), who: visitor, token })
    };
    let admitted = match prepare(&service, request, identify).await {
        Ok((_, _, body)) if body.iter().filter(|byte| **byte == b'&').count() >= MAX_FIELDS => {
            Err(ApiError::invalid(format!("the form has more than {MAX_FIELDS} fields")))
        }
        admitted => admitted,
    };
    run(admitted, next).await
}

/// Admits requests of the open parts of the page. They take no place of other requests, because anybody can send them.
pub(crate) async fn admit_anyone(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let admitting = async {
        service.hosts.check(&request)?;
        let (parts, body) = request.into_parts();
        let reading = read(body, MAX_BODY_OF_ANYONE, |_| Ok(()));
        let body = timeout(BODY_TIME_OF_ANYONE, reading).await.unwrap_or_else(|_| Err(ApiError::too_slow()))?;
        Ok::<_, ApiError>(Request::from_parts(parts, Body::from(body)))
    };
    match admitting.await {
        Ok(request) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

/// Responds to an admitted request. Its parts of the limits last until the response is sent.
async fn run(admitted: Result<Admitted, ApiError>, next: Next) -> Response {
    let (mut request, running, body) = match admitted {
        Ok(admitted) => admitted,
        Err(error) => return error.into_response(),
    };
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
    if !is_read {
        running.count_reply(length);
    } else if let Err(error) = running.count_read(length) {
        return error.into_response();
    }
    response.map(|body| Body::new(Counted { body, rest: Bytes::new(), running }))
}

/// The sender of a request.
struct Sender<T> {
    who: T,
    caller: Caller,
    /// The id of the token.
    token: String,
}

/// Refuses a change with a condition that this server does not know: it would be made although the condition fails.
fn refuse_conditions(request: &Request) -> Result<(), ApiError> {
    let conditions = [IF_MATCH, IF_NONE_MATCH, IF_UNMODIFIED_SINCE];
    match conditions.iter().find(|name| request.method() != Method::GET && request.headers().contains_key(*name)) {
        Some(name) => Err(ApiError::invalid(format!(
            "the header {name} is not supported: use `precondition` of an update, or `expected_content_sha256` of a \
             deletion"
        ))),
        None => Ok(()),
    }
}

/// A request without its body, its parts of the limits, and its body.
type Admitted = (Request, Arc<Running>, Bytes);

/// Reads the body of a request, and adds its sender.
async fn prepare<T: Clone + Send + Sync + 'static>(
    service: &Service,
    mut request: Request,
    identify: impl Fn(&HeaderMap) -> Option<Sender<T>>,
) -> Result<Admitted, ApiError> {
    service.hosts.check(&request)?;
    let sender = identify(request.headers()).ok_or_else(ApiError::authentication)?;
    Span::current().record("actor", sender.caller.actor().name());
    let mut begun = service.begin(sender.caller.tenant())?;
    let connection = request.extensions_mut().remove::<Arc<Connection>>();
    let busy = connection.map(|connection| connection.begin(Activity::Receiving));
    let (parts, body) = request.into_parts();
    let limits = &service.limits;
    let reading = read(body, limits.body_bytes, |length| begun.count_body(length));
    let body = timeout(limits.body_time, reading).await.unwrap_or_else(|_| Err(ApiError::too_slow()))?;
    let mut request = Request::from_parts(parts, Body::empty());
    // The token may have ended while the body arrived.
    let sender = identify(request.headers()).ok_or_else(ApiError::authentication)?;
    busy.iter().for_each(|busy| busy.change(Activity::Answering));
    let running = Arc::new(begun.run(service, &sender.token, busy)?);
    request.extensions_mut().insert(sender.who);
    request.extensions_mut().insert(Arc::clone(&running));
    Ok((request, running, body.into()))
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

/// Reads a body. `count` gets its length as it grows.
pub(crate) async fn read(
    mut body: Body,
    max: usize,
    mut count: impl FnMut(usize) -> Result<(), ApiError>,
) -> Result<Vec<u8>, ApiError> {
    if body.size_hint().lower() > max as u64 {
        return Err(ApiError::too_large(max));
    }
    let mut content = Vec::with_capacity(capacity(usize::try_from(body.size_hint().lower()).unwrap_or(0)));
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ApiError::invalid("the body is incomplete"))?;
        let Ok(data) = frame.into_data() else { continue };
        if content.len() + data.len() > max {
            return Err(ApiError::too_large(max));
        }
        count(content.len() + data.len())?;
        content.extend_from_slice(&data);
        if content.len() > LARGE {
            yield_now().await; // the copy takes time, so other requests are next
        }
    }
    Ok(content)
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
