//! [`ApiError`]: an error response, in the form of Anthropic's API.

use axum::Json;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use memory_tool::store::Problem;
use serde_json::{Map, Value, json};

/// An error response, in the form of Anthropic's API. Its text never names a place of the host.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ApiError {
    status: StatusCode,
    kind: &'static str,
    message: String,
    details: Map<String, Value>,
    /// The header that tells where a client gets a token.
    challenge: HeaderValue,
}

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            message: message.into(),
            details: Map::new(),
            challenge: HeaderValue::from_static("Bearer"),
        }
    }

    /// 400: the request is invalid. The message names the mistake.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", message)
    }

    /// 401: there is no valid token.
    pub(crate) fn authentication() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "authentication_error", "the token is missing or not valid")
    }

    /// The error with a header that tells where a client gets a token.
    #[cfg(feature = "mcp")]
    pub(crate) fn challenging(self, challenge: HeaderValue) -> Self {
        Self { challenge, ..self }
    }

    /// 403: the token has not the right.
    pub(crate) fn permission() -> Self {
        Self::new(StatusCode::FORBIDDEN, "permission_error", "the token does not allow this")
    }

    /// 404: the named thing does not exist, or the caller must not know of it.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found_error", message)
    }

    /// 404 for a memory.
    pub(crate) fn no_such_memory(name: &str) -> Self {
        Self::not_found(format!("there is no memory store {name:?}"))
    }

    /// 409: another file has the path.
    pub(crate) fn path_conflict(path: &str, memory_id: &str) -> Self {
        Self::new(StatusCode::CONFLICT, "memory_path_conflict_error", format!("{path} is taken by another memory"))
            .with("conflicting_path", path)
            .with("conflicting_memory_id", memory_id)
    }

    /// 409: another change was made after the caller read what it is about.
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "memory_precondition_failed_error", message)
    }

    /// 500: the storage failed. The caller logs the reason.
    pub(crate) fn storage() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "api_error", "the storage failed")
    }

    /// 500 for an error that is logged here.
    pub(crate) fn internal(error: impl std::error::Error) -> Self {
        log_failure(&error);
        Self::storage()
    }

    /// `None` in place of 400, for an item that a list leaves out.
    pub(crate) fn skip_invalid<T>(self) -> Result<Option<T>, Self> {
        if self.status == StatusCode::BAD_REQUEST { Ok(None) } else { Err(self) }
    }

    /// Its type in a response.
    pub(crate) fn kind(&self) -> &'static str {
        self.kind
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// 403: MCP serves one memory, and the token reaches several.
    #[cfg(feature = "mcp")]
    pub(crate) fn several_memories() -> Self {
        let message =
            "MCP needs a token for one memory: create it with `memory-tool token new --memory NAME --right tool`";
        Self::new(StatusCode::FORBIDDEN, "permission_error", message)
    }

    /// 403: the header `Host` or `Origin` names another site. The message names its value.
    pub(crate) fn other_site(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "permission_error", message)
    }

    /// 405: the path has no such method.
    pub(crate) fn method() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "invalid_request_error", "the method is not allowed at this path")
    }

    /// 408: the body did not arrive in time.
    pub(crate) fn too_slow() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "timeout_error", "the body did not arrive in time")
    }

    /// 413: the body is too large.
    pub(crate) fn too_large(limit: usize) -> Self {
        let message = format!("the body is longer than the limit of {limit} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", message)
    }

    /// 429: the tokens of a tenant have too many requests, or too many bytes of them, at the same time.
    pub(crate) fn too_many_requests() -> Self {
        let message = "the tokens for these memories have too many or too large concurrent requests";
        Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", message)
    }

    /// 503: the server does not work as its operator expects.
    pub(crate) fn unavailable(message: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded_error", message)
    }

    /// 503: the server or the storage is busy.
    pub(crate) fn busy() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded_error", "the server is busy; try again")
    }

    /// The response with the id of the request.
    pub(crate) fn response(&self, request_id: Option<&str>) -> Response {
        let mut error = self.details.clone();
        error.insert("type".to_owned(), self.kind.into());
        error.insert("message".to_owned(), self.message.as_str().into());
        let mut body = json!({"type": "error", "error": error});
        if let Some(id) = request_id {
            body["request_id"] = id.into();
        }
        let mut response = (self.status, Json(body)).into_response();
        let headers = response.headers_mut();
        match self.status {
            StatusCode::UNAUTHORIZED => _ = headers.insert(WWW_AUTHENTICATE, self.challenge.clone()),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            // The official SDKs would repeat the request twice without success.
            StatusCode::CONFLICT => _ = headers.insert("x-should-retry", HeaderValue::from_static("false")),
            _ => {}
        }
        response
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }
}

/// The layer of request ids writes the error again, with the id.
impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.response(None);
        response.extensions_mut().insert(self);
        response
    }
}

/// Logs an error with its causes, which no reply contains (`[W5]`).
pub(crate) fn log_failure(error: &dyn std::error::Error) {
    tracing::error!(error = Problem::of(error).message, "the storage failed");
}

/// Reports a failure of the storage. Other errors are of the client.
pub(crate) fn report_failure(error: &dyn std::error::Error, report: fn(&dyn std::error::Error)) {
    if error.source().is_some() {
        report(error);
    }
}

/// The message of an error as a sentence.
pub(crate) fn sentence(message: &str) -> String {
    let mut letters = message.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let end = if message.ends_with(['.', '?', '!']) { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}
