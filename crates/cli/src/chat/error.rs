//! [`RequestError`]: the errors of requests to the API.

use std::time::Duration;

use memory_tool::BoxError;

use crate::chat::retries::MAX_TOTAL_DELAY;

/// The error of a request without a complete response. Its commands were not executed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    #[error("cannot reach {host}")]
    Unreachable { host: String, source: reqwest::Error },
    #[error("the connection to {host} broke before the response was complete")]
    Broken { host: String, source: BoxError },
    #[error("{host} ended the response before it was complete")]
    Truncated { host: String },
    #[error("the API returned {status}: {message}")]
    Status { status: u16, message: String, retry_after: Option<Duration> },
    #[error("the API aborted the response: {message}")]
    Aborted {
        /// The type of the error, such as `overloaded_error`.
        kind: String,
        message: String,
    },
    #[error("invalid response from {host}: {reason}")]
    Malformed { host: String, reason: &'static str },
    /// The API asked for a longer delay than all retries may take.
    #[error(
        "the API asked for a {:.1} s delay, longer than the {} s retry budget",
        requested.as_secs_f64(),
        MAX_TOTAL_DELAY.as_secs()
    )]
    LongWait { requested: Duration, source: Box<Self> },
}

impl RequestError {
    /// Whether the attempt ended early, after an incomplete response.
    pub(crate) fn is_truncated(&self) -> bool {
        matches!(self, Self::Broken { .. } | Self::Truncated { .. })
    }

    /// Whether the same request may succeed later.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Broken { .. } | Self::Truncated { .. } => true,
            Self::Status { status, .. } => matches!(status, 408 | 409 | 429 | 500..),
            Self::Aborted { kind, .. } => {
                matches!(kind.as_str(), "api_error" | "overloaded_error" | "rate_limit_error" | "timeout_error")
            }
            Self::Malformed { .. } | Self::LongWait { .. } => false,
        }
    }

    /// Whether the API rejected the content of the request, so that the same content would be rejected again.
    pub(crate) fn rejects_content(&self) -> bool {
        match self {
            Self::Status { status, .. } => matches!(status, 400 | 413 | 422),
            Self::Aborted { kind, .. } => matches!(kind.as_str(), "invalid_request_error" | "request_too_large"),
            _ => false,
        }
    }

    /// The delay that the API requests before the next attempt.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
