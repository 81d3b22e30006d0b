//! The layers around all handlers: request ids, authentication and limits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio::time::timeout;

use crate::connections::{Activity, Connection};
use crate::error::ApiError;
use crate::service::{Running, Service};

/// The limit of a body, for a turn with several large files.
pub(crate) const MAX_BODY_BYTES: usize = 16 * 1024 * 1024;

/// The time in which a body must arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// Gives each request an id, and logs it without contents and tokens.
pub(crate) async fn identify(request: Request, next: Next) -> Response {
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
    let milliseconds = start.elapsed().as_secs_f64() * 1_000.0;
    tracing::info!(%method, path, status = response.status().as_u16(), milliseconds, request_id = id, "request");
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert("request-id", value);
    }
    response
}

/// A path for the log. hyper accepts no ASCII control characters in it, but all others.
fn shown(path: &str) -> String {
    path.escape_debug().to_string()
}

/// Admits requests with a token to this server, and reads their bodies.
pub(crate) async fn admit(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    match prepare(&service, request).await {
        Ok((request, _running)) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

async fn prepare(service: &Service, mut request: Request) -> Result<(Request, Arc<Running>), ApiError> {
    if !service.hosts.allow(request.headers()) {
        return Err(ApiError::other_site());
    }
    let token = token(request.headers()).ok_or_else(ApiError::authentication)?;
    let (_, id) = service.tokens.caller(token).ok_or_else(ApiError::authentication)?;
    let token = token.to_owned();
    let permit = service.begin(&id)?;
    let (parts, body) = request.into_parts();
    request = Request::from_parts(parts, Body::from(read(body).await?));
    // The token may have ended while the body arrived.
    let (caller, _) = service.tokens.caller(&token).ok_or_else(ApiError::authentication)?;
    let connection = request.extensions_mut().remove::<Arc<Connection>>();
    let running = Arc::new(Running::new(permit, connection.map(|connection| connection.begin(Activity::Answering))));
    request.extensions_mut().insert(caller);
    request.extensions_mut().insert(Arc::clone(&running));
    Ok((request, running))
}

async fn read(body: Body) -> Result<Bytes, ApiError> {
    let too_large = || ApiError::too_large(MAX_BODY_BYTES);
    if body.size_hint().lower() > MAX_BODY_BYTES as u64 {
        return Err(too_large());
    }
    match timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY_BYTES).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(ApiError::invalid("the body is incomplete")),
        Err(_) => Err(ApiError::too_slow()),
    }
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
