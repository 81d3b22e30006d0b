//! Reads HTTP/1.1 messages from a stream without changing them.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};

const HEADERS: usize = 100;

/// The head of a request.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) method: String,
    pub(super) target: String,
    /// Whether the client may send another request.
    pub(super) keeps_open: bool,
    bytes: Vec<u8>,
    body: Body,
}

impl Head {
    pub(super) fn length(&self) -> usize {
        self.bytes.len()
    }
}

/// A complete response.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) bytes: Vec<u8>,
    /// Whether the server accepts another request.
    pub(super) keeps_open: bool,
    body_start: usize,
}

impl Response {
    pub(super) fn body_length(&self) -> usize {
        self.bytes.len() - self.body_start
    }

    /// Returns the first half of the response.
    pub(super) fn half(&self) -> &[u8] {
        let start = if self.body_start == self.bytes.len() { 0 } else { self.body_start };
        &self.bytes[..(start + self.bytes.len()) / 2]
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Body {
    AfterChunks,
    AfterLength(u64),
    AtTheEndOfTheConnection,
}

/// Reads the head of the next request, or `None` at the end of the stream.
pub(super) async fn read_request_head(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Head>> {
    let bytes = read_head(stream).await?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    request.parse(&bytes).map_err(invalid)?;
    let method = request.method.unwrap_or_default().to_owned();
    let target = request.path.unwrap_or_default().to_owned();
    let body = body_of(request.headers)?.unwrap_or(Body::AfterLength(0));
    let keeps_open = keeps_open(request.headers);
    Ok(Some(Head { method, target, keeps_open, body, bytes }))
}

/// Reads the rest of a request, and returns all of it.
pub(super) async fn read_request(stream: &mut (impl AsyncBufRead + Unpin), head: &Head) -> io::Result<Vec<u8>> {
    let mut bytes = head.bytes.clone();
    read_body(stream, head.body, &mut bytes).await?;
    Ok(bytes)
}

/// Reads the first half of a request.
pub(super) async fn read_half(stream: &mut (impl AsyncBufRead + Unpin), head: &Head) -> io::Result<()> {
    match head.body {
        Body::AfterLength(length) => read_exactly(stream, length / 2, &mut Vec::new()).await,
        Body::AfterChunks | Body::AtTheEndOfTheConnection => Ok(()),
    }
}

/// Reads the response to a request of this method.
pub(super) async fn read_response(stream: &mut (impl AsyncBufRead + Unpin), method: &str) -> io::Result<Response> {
    let mut bytes = read_head(stream).await?;
    if bytes.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    response.parse(&bytes).map_err(invalid)?;
    let status = response.code.unwrap_or_default();
    let body = match status {
        _ if method == "HEAD" => Body::AfterLength(0),
        204 | 304 => Body::AfterLength(0),
        _ => body_of(response.headers)?.unwrap_or(Body::AtTheEndOfTheConnection),
    };
    let keeps_open = keeps_open(response.headers) && body != Body::AtTheEndOfTheConnection;
    let body_start = bytes.len();
    read_body(stream, body, &mut bytes).await?;
    Ok(Response { status, bytes, keeps_open, body_start })
}

/// Reads the lines up to the empty one. Returns no bytes at the end of the stream.
async fn read_head(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        if stream.read_until(b'\n', &mut bytes).await? == 0 {
            return if bytes.is_empty() { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
    }
    Ok(bytes)
}

async fn read_body(stream: &mut (impl AsyncBufRead + Unpin), body: Body, bytes: &mut Vec<u8>) -> io::Result<()> {
    match body {
        Body::AfterChunks => read_chunks(stream, bytes).await,
        Body::AfterLength(length) => read_exactly(stream, length, bytes).await,
        Body::AtTheEndOfTheConnection => stream.read_to_end(bytes).await.map(drop),
    }
}

async fn read_chunks(stream: &mut (impl AsyncBufRead + Unpin), bytes: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let size = read_line(stream, bytes).await?;
        let digits = size.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(digits, 16).map_err(invalid)?;
        if size == 0 {
            while read_line(stream, bytes).await? != "\r\n" {} // trailers
            return Ok(());
        }
        read_exactly(stream, size + 2, bytes).await?;
    }
}

async fn read_line(stream: &mut (impl AsyncBufRead + Unpin), bytes: &mut Vec<u8>) -> io::Result<String> {
    let start = bytes.len();
    stream.read_until(b'\n', bytes).await?;
    match bytes[start..].ends_with(b"\r\n") {
        true => Ok(String::from_utf8_lossy(&bytes[start..]).into_owned()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

async fn read_exactly(stream: &mut (impl AsyncBufRead + Unpin), length: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
    match stream.take(length).read_to_end(bytes).await? as u64 == length {
        true => Ok(()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn body_of(headers: &[httparse::Header<'_>]) -> io::Result<Option<Body>> {
    if let Some(encoding) = value(headers, "transfer-encoding") {
        return if encoding == "chunked" { Ok(Some(Body::AfterChunks)) } else { Err(invalid(encoding)) };
    }
    let length = value(headers, "content-length").map(|length| length.parse().map_err(invalid));
    length.map(|length| length.map(Body::AfterLength)).transpose()
}

fn keeps_open(headers: &[httparse::Header<'_>]) -> bool {
    value(headers, "connection").is_none_or(|connection| connection != "close")
}

fn value(headers: &[httparse::Header<'_>], name: &str) -> Option<String> {
    let header = headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
    Some(String::from_utf8_lossy(header.value).to_ascii_lowercase())
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNKED: &str =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\n\r\n\r\n0\r\nt: u\r\n\r\n";

    #[tokio::test]
    async fn messages_end_according_to_their_head() {
        let cases = [
            ("GET", CHUNKED),
            ("GET", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n12345"),
            ("HEAD", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"),
            ("PUT", "HTTP/1.1 204 No Content\r\n\r\n"),
        ];
        for (method, message) in cases {
            let stream = format!("{message}HTTP/1.1 the next");
            let mut stream = stream.as_bytes();
            let response = read_response(&mut stream, method).await.unwrap();
            assert_eq!(String::from_utf8(response.bytes).unwrap(), message);
            assert_eq!(stream, b"HTTP/1.1 the next");
            assert!(response.keeps_open);
        }
        let mut endless = "HTTP/1.1 200 OK\r\n\r\nto the end".as_bytes();
        let response = read_response(&mut endless, "GET").await.unwrap();
        assert!(response.bytes.ends_with(b"to the end") && !response.keeps_open);
    }

    #[tokio::test]
    async fn truncated_messages_are_errors() {
        for cut in 0..CHUNKED.len() {
            assert!(read_response(&mut &CHUNKED.as_bytes()[..cut], "GET").await.is_err(), "{cut}");
        }
    }

    #[tokio::test]
    async fn half_a_response_has_half_its_body() {
        let mut stream = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n123456".as_bytes();
        let response = read_response(&mut stream, "GET").await.unwrap();
        assert!(response.half().ends_with(b"\r\n\r\n123"));
        let mut stream = "HTTP/1.1 204 No Content\r\n\r\n".as_bytes();
        let response = read_response(&mut stream, "GET").await.unwrap();
        assert_eq!(response.half(), b"HTTP/1.1 204 ");
    }
}
