//! [`ApiError`]: an error response, in the form of Anthropic's API.

use axum::Json;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use memory_tool::{ErrorKind, StoreError};
use serde_json::{Map, Value, json};

/// An error response, in the form of Anthropic's API. Its text never names a place of the host.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    status: StatusCode,
    kind: &'static str,
    message: String,
    details: Map<String, Value>,
}

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, message: message.into(), details: Map::new() }
    }

    /// 400: the request is invalid. The message names the mistake.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", message)
    }

    /// 401: there is no valid token.
    pub fn authentication() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "authentication_error", "the token is missing or not valid")
    }

    /// 403: the token has not the right.
    pub fn permission() -> Self {
        Self::new(StatusCode::FORBIDDEN, "permission_error", "the token does not allow this")
    }

    /// 404: the named thing does not exist, or the caller must not know of it.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found_error", message)
    }

    /// 404 for a memory.
    pub fn no_such_memory(name: &str) -> Self {
        Self::not_found(format!("there is no memory store {name:?}"))
    }

    /// 409: another file has the path.
    pub fn path_conflict(path: &str, memory_id: &str) -> Self {
        Self::new(StatusCode::CONFLICT, "memory_path_conflict_error", format!("{path} is taken by another memory"))
            .with("conflicting_path", path)
            .with("conflicting_memory_id", memory_id)
    }

    /// 409: the contents are not those that the caller has seen.
    pub fn precondition_failed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "memory_precondition_failed_error", message)
    }

    /// 500: the storage failed. The log has the reason.
    pub fn storage() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "api_error", "the storage failed")
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }
}

/// Only the kind of the error is told, because its text can name a place of the host.
impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error.kind() {
            ErrorKind::NotFound => Self::not_found("it does not exist"),
            _ => Self::storage(),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut error = self.details;
        error.insert("type".to_owned(), self.kind.into());
        error.insert("message".to_owned(), self.message.into());
        let mut response = (self.status, Json(json!({"type": "error", "error": error}))).into_response();
        if self.status == StatusCode::CONFLICT {
            // The SDKs would send the same request twice more.
            response.headers_mut().insert("x-should-retry", HeaderValue::from_static("false"));
        }
        response
    }
}
