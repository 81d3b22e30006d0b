//! The layers around all handlers: request ids, authentication and limits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, HttpBody as _};
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http_body_util::BodyExt as _;
use tokio::time::timeout;

use crate::connections::{Activity, Connection};
use crate::error::ApiError;
use crate::listener::Peer;
use crate::metrics::record_request;
use crate::page::Visitor;
use crate::service::{Running, Service};

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
    let mut response = next.run(request).await;
    if let Some(error) = response.extensions_mut().remove::<ApiError>() {
        response = error.response(Some(&id));
    }
    let (status, duration) = (response.status().as_u16(), start.elapsed());
    let milliseconds = duration.as_secs_f64() * 1_000.0;
    tracing::info!(%method, path, status, milliseconds, client, request_id = id, "request");
    record_request(route.as_ref().map_or("none", MatchedPath::as_str), method_name(&method), status, duration);
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert("request-id", value);
    }
    response
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
    let identify = |headers: &HeaderMap| service.tokens.caller(token(headers)?);
    run(prepare(&service, request, identify).await, next).await
}

/// Admits requests of the page with a session.
pub(crate) async fn admit_visitor(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let identify = |headers: &HeaderMap| Visitor::of(&service, headers);
    run(prepare(&service, request, identify).await, next).await
}

/// Admits requests of the open parts of the page. They take no place of other requests, because anybody can send them.
pub(crate) async fn admit_anyone(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let admitting = async {
        service.hosts.check(&request)?;
        let (parts, body) = request.into_parts();
        let reading = read(body, MAX_BODY_OF_ANYONE, |_| Ok(()));
        let body = timeout(BODY_TIME_OF_ANYONE, reading).await.unwrap_or_else(|_| Err(ApiError::too_slow()))?;
        Ok((Request::from_parts(parts, Body::from(body)), ()))
    };
    run(admitting.await, next).await
}

async fn run<R>(admitted: Result<(Request, R), ApiError>, next: Next) -> Response {
    match admitted {
        Ok((request, _until_the_response)) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

/// Reads the body of a request, and adds its sender, whom `identify` returns with the id of the token.
async fn prepare<T: Clone + Send + Sync + 'static>(
    service: &Service,
    mut request: Request,
    identify: impl Fn(&HeaderMap) -> Option<(T, String)>,
) -> Result<(Request, Arc<Running>), ApiError> {
    service.hosts.check(&request)?;
    let (_, id) = identify(request.headers()).ok_or_else(ApiError::authentication)?;
    let mut permit = service.begin(&id)?;
    let (parts, body) = request.into_parts();
    let limits = &service.limits;
    let reading = read(body, limits.body_bytes, |length| permit.count_body(service, length));
    let body = timeout(limits.body_time, reading).await.unwrap_or_else(|_| Err(ApiError::too_slow()))?;
    request = Request::from_parts(parts, Body::from(body));
    // The token may have ended while the body arrived.
    let (sender, _) = identify(request.headers()).ok_or_else(ApiError::authentication)?;
    let connection = request.extensions_mut().remove::<Arc<Connection>>();
    let running = Arc::new(Running::new(permit, connection.map(|connection| connection.begin(Activity::Answering))));
    request.extensions_mut().insert(sender);
    request.extensions_mut().insert(Arc::clone(&running));
    Ok((request, running))
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
    let mut content = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ApiError::invalid("the body is incomplete"))?;
        let Ok(data) = frame.into_data() else { continue };
        if content.len() + data.len() > max {
            return Err(ApiError::too_large(max));
        }
        count(content.len() + data.len())?;
        content.extend_from_slice(&data);
    }
    Ok(content)
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
