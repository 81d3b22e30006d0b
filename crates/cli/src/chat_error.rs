//! [`ChatError`] and [`RequestError`]: errors of a conversation and of its requests.

use std::time::Duration;

use memory_tool::BoxError;

/// An error that ends a conversation or keeps it from starting.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChatError {
    /// There is no key.
    #[error("no API key; set ANTHROPIC_API_KEY")]
    NoKey,
    /// The key is not a valid header value.
    #[error("ANTHROPIC_API_KEY contains invalid characters")]
    BadKey,
    /// The address is invalid. The message omits it, because it may contain a password.
    #[error("ANTHROPIC_BASE_URL is not an http: or https: URL, such as https://api.anthropic.com")]
    BadAddress,
    /// The HTTP client could not be created.
    #[error("cannot create an HTTP client")]
    Client(#[source] reqwest::Error),
    /// A request failed.
    #[error(transparent)]
    Request(RequestError),
    /// The API asked for a longer delay than all retries may take.
    #[error(
        "the API asked for a {:.1} s delay, longer than the {} s retry budget",
        requested.as_secs_f64(),
        limit.as_secs()
    )]
    LongWait {
        /// The requested delay.
        requested: Duration,
        /// The maximum of all delays together.
        limit: Duration,
        /// The error of the request.
        source: RequestError,
    },
}

impl ChatError {
    /// Whether every attempt ended early, after an incomplete response.
    pub(crate) fn is_truncated(&self) -> bool {
        matches!(self, Self::Request(RequestError::Broken { .. } | RequestError::Truncated { .. }))
    }
}

/// The error of a request without a complete response. Its commands were not executed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// The server could not be reached.
    #[error("cannot reach {host}")]
    Unreachable {
        /// The server.
        host: String,
        /// The cause.
        source: reqwest::Error,
    },
    /// The connection broke before the response was complete.
    #[error("the connection to {host} broke before the response was complete")]
    Broken {
        /// The server.
        host: String,
        /// The cause.
        source: BoxError,
    },
    /// The stream of events ended before the response was complete.
    #[error("{host} ended the response before it was complete")]
    Truncated {
        /// The server.
        host: String,
    },
    /// The API returned an error.
    #[error("the API returned {status}: {message}")]
    Status {
        /// The HTTP status.
        status: u16,
        /// The message of the API.
        message: String,
        /// The requested delay.
        retry_after: Option<Duration>,
    },
    /// The API aborted a response with an error.
    #[error("the API aborted the response: {message}")]
    Aborted {
        /// The type of the error, such as `overloaded_error`.
        kind: String,
        /// The message of the API.
        message: String,
    },
    /// The response does not conform to the Messages API.
    #[error("invalid response from {host}: {reason}")]
    Malformed {
        /// The server.
        host: String,
        /// The reason.
        reason: &'static str,
    },
}

impl RequestError {
    /// Whether the same request may succeed later.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Broken { .. } | Self::Truncated { .. } => true,
            Self::Status { status, .. } => matches!(status, 408 | 409 | 429 | 500..),
            Self::Aborted { kind, .. } => {
                matches!(kind.as_str(), "api_error" | "overloaded_error" | "rate_limit_error" | "timeout_error")
            }
            Self::Malformed { .. } => false,
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
