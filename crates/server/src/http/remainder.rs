//! [`Remainder`]: the part of a body that a response does not wait for.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use axum::http::header::EXPECT;
use axum::http::{Request, Version};
use http_body_util::BodyExt as _;
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::runtime::Handle;
use tokio::time::timeout;

/// The rest of a body that is read and dropped, and the times for it and for each part.
const MAX_BYTES: usize = 64 * 1024 * 1024;
const TIME: Duration = Duration::from_secs(30);
const PART_TIME: Duration = Duration::from_secs(5);

/// A body. On drop, its rest is read and dropped: the system resets a connection that is closed with unread bytes, so
/// that a client or proxy that still sends them loses the response.
pub(crate) struct Remainder {
    body: Option<Incoming>,
    /// HTTP/2 ends a request without its connection.
    is_http2: bool,
    /// The client sends the body once it is read.
    is_awaited: bool,
}

impl Remainder {
    /// A request with such a body.
    pub(crate) fn of(request: Request<Incoming>) -> Request<Self> {
        let (is_http2, is_awaited) = (request.version() == Version::HTTP_2, request.headers().contains_key(EXPECT));
        request.map(|body| Self { body: Some(body), is_http2, is_awaited })
    }
}

impl HttpBody for Remainder {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(_))) => self.is_awaited = false,
            Poll::Ready(_) => self.body = None,
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(HttpBody::size_hint).unwrap_or_default()
    }
}

impl Drop for Remainder {
    fn drop(&mut self) {
        let rest = self.body.take().filter(|body| !self.is_http2 && !self.is_awaited && !body.is_end_stream());
        if let (Some(body), Ok(runtime)) = (rest, Handle::try_current()) {
            runtime.spawn(timeout(TIME, discard(body)));
        }
    }
}

async fn discard(mut body: Incoming) {
    let mut left = MAX_BYTES;
    while let Ok(Some(Ok(frame))) = timeout(PART_TIME, body.frame()).await {
        let Some(less) = left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) else { return };
        left = less;
    }
}
