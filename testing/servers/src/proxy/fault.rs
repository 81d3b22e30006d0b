//! [`Fault`]: faults between a client and a server.

use std::time::Duration;

/// A fault of one request.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// Closes the connection in the middle of the request. The server receives nothing.
    CutRequest,
    /// Drops the request and never responds. The connection stays open until the client closes it.
    Swallow,
    /// Delays the request. The server receives it even if the client has disconnected.
    DelayRequest(Duration),
    /// Sends the request to the server a second time after a delay. The client gets the first response.
    RepeatRequest(Duration),
    /// Closes the connection after the server has processed the request, without a response.
    CloseUnanswered,
    /// Resets the connection after the server has processed the request, without a response.
    ResetUnanswered,
    /// Closes the connection in the middle of the response body, or of the whole response if it has no body.
    CutAnswer,
    /// Never responds, although the server has processed the request. The connection stays open until the client closes
    /// it.
    Hang,
    /// Delays the response.
    Delay(Duration),
    /// Drops the request and refuses it.
    RefuseBefore(Refusal),
    /// Refuses the request after the server has processed it.
    RefuseAfter(Refusal),
}

/// An error response of the proxy. The body has the format of S3, which is also Google's.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Refusal {
    /// 301 `PermanentRedirect` without a location: S3's response for a bucket at another endpoint.
    OtherEndpoint,
    /// 400 `AuthorizationHeaderMalformed`: S3's response for a bucket in the region `eu-west-1`.
    OtherRegion,
    /// 400 `ExpiredToken`.
    ExpiredToken,
    /// 403 `AccessDenied`.
    AccessDenied,
    /// 409 `ConditionalRequestConflict`: S3's response to concurrent writes.
    Conflict,
    /// 412 `PreconditionFailed`.
    PreconditionFailed,
    /// 429 `TooManyRequests`.
    TooManyRequests,
    /// 500 `InternalError`.
    InternalError,
    /// 503 `SlowDown`.
    Unavailable,
}

impl Refusal {
    /// The status of the response.
    pub fn status(self) -> u16 {
        match self {
            Self::OtherEndpoint => 301,
            Self::OtherRegion | Self::ExpiredToken => 400,
            Self::AccessDenied => 403,
            Self::Conflict => 409,
            Self::PreconditionFailed => 412,
            Self::TooManyRequests => 429,
            Self::InternalError => 500,
            Self::Unavailable => 503,
        }
    }

    fn code(self) -> &'static str {
        match self {
            Self::OtherEndpoint => "PermanentRedirect",
            Self::OtherRegion => "AuthorizationHeaderMalformed",
            Self::ExpiredToken => "ExpiredToken",
            Self::AccessDenied => "AccessDenied",
            Self::Conflict => "ConditionalRequestConflict",
            Self::PreconditionFailed => "PreconditionFailed",
            Self::TooManyRequests => "TooManyRequests",
            Self::InternalError => "InternalError",
            Self::Unavailable => "SlowDown",
        }
    }

    /// Returns the response to a request of this method.
    pub(super) fn response(self, method: &str) -> Vec<u8> {
        let (status, code) = (self.status(), self.code());
        let details = match self {
            Self::OtherRegion => "<Message>refused by a test proxy</Message><Region>eu-west-1</Region>",
            _ => "<Message>refused by a test proxy</Message>",
        };
        let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code>{details}</Error>");
        let head = format!(
            "HTTP/1.1 {status} {code}\r\ncontent-type: application/xml\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        if method == "HEAD" { head.into() } else { (head + &body).into() }
    }
}
