//! [`ChatError`] and [`RequestError`]: why a conversation cannot begin, and why there is no response.

use std::time::Duration;

use memory_tool::BoxError;

/// Why the conversation cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChatError {
    /// There is no key.
    #[error("there is no key for the API: set ANTHROPIC_API_KEY")]
    NoKey,
    /// What was given as the key cannot be one.
    #[error("ANTHROPIC_API_KEY holds characters that no key has")]
    BadKey,
    /// No request can go to the address. It is not shown, as it may hold a password.
    #[error("ANTHROPIC_BASE_URL is not the address of a server, such as https://api.anthropic.com")]
    BadAddress,
    /// There is no client of HTTP.
    #[error("cannot make requests")]
    Client(#[source] reqwest::Error),
    /// A request has no response.
    #[error(transparent)]
    Request(RequestError),
    /// The API asks for a wait before the next attempt that is too long to wait for.
    #[error(
        "the API asks to wait for {:.1} s, and no more than {} s are waited in all",
        asked.as_secs_f64(),
        limit.as_secs()
    )]
    LongWait {
        /// How long it asks to wait.
        asked: Duration,
        /// The longest that all waits may last together.
        limit: Duration,
        /// What it refused the request with.
        source: RequestError,
    },
}

impl ChatError {
    /// Whether there is a beginning of an answer at best: each response ended early.
    pub(crate) fn is_cut(&self) -> bool {
        matches!(self, Self::Request(RequestError::Broken { .. } | RequestError::Cut { .. }))
    }
}

/// Why a request has no whole response. Nothing of it was run.
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
    /// The connection broke before the response was whole.
    #[error("the connection to {host} broke before the response was whole")]
    Broken {
        /// The server.
        host: String,
        /// The cause.
        source: BoxError,
    },
    /// The stream of events ended before the response was whole.
    #[error("{host} ended the response before it was whole")]
    Cut {
        /// The server.
        host: String,
    },
    /// The API answered with an error.
    #[error("the API answered with {status}: {told}")]
    Refused {
        /// The status of HTTP.
        status: u16,
        /// What the API says of it.
        told: String,
        /// How long it asks to wait.
        retry_after: Option<Duration>,
    },
    /// The API broke a response off with an error.
    #[error("the API broke the response off: {told}")]
    BrokenOff {
        /// Which kind of error it is, such as `overloaded_error`.
        kind: String,
        /// What the API says of it.
        told: String,
    },
    /// What the server answered is no response of the Messages API.
    #[error("{host} does not answer as the Messages API does: {why}")]
    Malformed {
        /// The server.
        host: String,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl RequestError {
    /// Whether the same request may well have a response later.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Broken { .. } | Self::Cut { .. } => true,
            Self::Refused { status, .. } => matches!(status, 408 | 409 | 429 | 500..),
            Self::BrokenOff { kind, .. } => {
                matches!(kind.as_str(), "api_error" | "overloaded_error" | "rate_limit_error" | "timeout_error")
            }
            Self::Malformed { .. } => false,
        }
    }

    /// Whether the API takes what was said to be wrong or too much: said again, it is refused again.
    pub(crate) fn is_of_the_content(&self) -> bool {
        match self {
            Self::Refused { status, .. } => matches!(status, 400 | 413 | 422),
            Self::BrokenOff { kind, .. } => matches!(kind.as_str(), "invalid_request_error" | "request_too_large"),
            _ => false,
        }
    }

    /// How long the API asks to wait before the next attempt.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
