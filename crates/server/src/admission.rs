//! The layers around all handlers: request ids, authentication and limits.

use std::sync::Arc;
use std::time::Instant;

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
use crate::service::{Permit, Running, Service};

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
    match prepare(&service, request, identify).await {
        Ok((request, _running)) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

/// Admits requests of the page with a session.
pub(crate) async fn admit_visitor(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let identify = |headers: &HeaderMap| Visitor::of(&service, headers);
    match prepare(&service, request, identify).await {
        Ok((request, _running)) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

/// Admits requests of the open parts of the page.
pub(crate) async fn admit_anyone(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    match prepare(&service, request, |_| Some((Anyone, "anyone".to_owned()))).await {
        Ok((request, _running)) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

#[derive(Clone)]
struct Anyone;

/// Reads the body of a request, and adds its sender, whom `identify` returns with the id of the token.
async fn prepare<T: Clone + Send + Sync + 'static>(
    service: &Service,
    mut request: Request,
    identify: impl Fn(&HeaderMap) -> Option<(T, String)>,
) -> Result<(Request, Arc<Running>), ApiError> {
    if !service.hosts.allow(request.headers()) {
        return Err(ApiError::other_site());
    }
    let (_, id) = identify(request.headers()).ok_or_else(ApiError::authentication)?;
    let mut permit = service.begin(&id)?;
    let (parts, body) = request.into_parts();
    request = Request::from_parts(parts, Body::from(read(body, service, &mut permit).await?));
    // The token may have ended while the body arrived.
    let (sender, _) = identify(request.headers()).ok_or_else(ApiError::authentication)?;
    let connection = request.extensions_mut().remove::<Arc<Connection>>();
    let running = Arc::new(Running::new(permit, connection.map(|connection| connection.begin(Activity::Answering))));
    request.extensions_mut().insert(sender);
    request.extensions_mut().insert(Arc::clone(&running));
    Ok((request, running))
}

async fn read(mut body: Body, service: &Service, permit: &mut Permit) -> Result<Vec<u8>, ApiError> {
    let limits = &service.limits;
    let too_large = || ApiError::too_large(limits.body_bytes);
    if body.size_hint().lower() > limits.body_bytes as u64 {
        return Err(too_large());
    }
    let collecting = async {
        let mut content = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| ApiError::invalid("the body is incomplete"))?;
            let Ok(data) = frame.into_data() else { continue };
            if content.len() + data.len() > limits.body_bytes {
                return Err(too_large());
            }
            permit.count_body(service, content.len() + data.len())?;
            content.extend_from_slice(&data);
        }
        Ok(content)
    };
    timeout(limits.body_time, collecting).await.unwrap_or_else(|_| Err(ApiError::too_slow()))
}

/// The token of a request. Several different ones are ambiguous.
fn token(headers: &HeaderMap) -> Option<&str> {
    let bearers = headers.get_all(AUTHORIZATION).iter().map(|value| value.to_str().ok().and_then(bearer));
    let keys = headers.get_all("x-api-key").iter().map(|value| value.to_str().ok());
    let mut given = bearers.chain(keys);
    let first = given.next()??;
    given.all(|other| other == Some(first)).then_some(first)
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
