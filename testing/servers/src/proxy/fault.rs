//! [`Fault`]: what may happen between a client and a server.

use std::time::Duration;

/// What happens to one request.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// The connection ends half way through the request, of which the server sees nothing.
    CutRequest,
    /// The server sees nothing of the request, and no answer ever comes. The connection stays open for as long as the client
    /// keeps it.
    Swallow,
    /// The server gets the request so much later, even if the client is gone by then.
    DelayRequest(Duration),
    /// The server carries the request out, and the connection is closed without an answer.
    CloseUnanswered,
    /// The server carries the request out, and the connection is reset without an answer.
    ResetUnanswered,
    /// The server carries the request out, and the connection is closed half way through the body of its answer; half way
    /// through the whole answer if it has no body.
    CutAnswer,
    /// The server carries the request out, and no answer ever comes. The connection stays open for as long as the client
    /// keeps it.
    Hang,
    /// The server carries the request out, and the first byte of its answer comes after so long.
    Delay(Duration),
    /// The request is refused, and the server sees nothing of it.
    RefuseBefore(Refusal),
    /// The server carries the request out, and the client gets a refusal all the same.
    RefuseAfter(Refusal),
}

/// An answer that is none of the server's. The body is that of S3, and Google's is the same.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Refusal {
    /// 409 `ConditionalRequestConflict`: S3 saw another write of the object at the same time.
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
    /// The status of the answer.
    pub fn status(self) -> u16 {
        match self {
            Self::Conflict => 409,
            Self::PreconditionFailed => 412,
            Self::TooManyRequests => 429,
            Self::InternalError => 500,
            Self::Unavailable => 503,
        }
    }

    fn code(self) -> &'static str {
        match self {
            Self::Conflict => "ConditionalRequestConflict",
            Self::PreconditionFailed => "PreconditionFailed",
            Self::TooManyRequests => "TooManyRequests",
            Self::InternalError => "InternalError",
            Self::Unavailable => "SlowDown",
        }
    }

    /// The answer to a request of this method.
    pub(super) fn answer(self, method: &str) -> Vec<u8> {
        let (status, code) = (self.status(), self.code());
        let message = "refused by the proxy of a test";
        let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>{message}</Message></Error>");
        let head = format!(
            "HTTP/1.1 {status} {code}\r\ncontent-type: application/xml\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        if method == "HEAD" { head.into() } else { (head + &body).into() }
    }
}
