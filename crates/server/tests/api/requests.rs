//! Malformed, slow, large and ambiguous requests.

use std::time::Duration;

use memory_tool_server::{Grant, Right};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::security::{Needs, ROUTES};
use crate::server::{Server, places, rest};

const LARGEST: usize = 16 * 1024 * 1024;

/// A server with the memory `alice`.
async fn start() -> (tempfile::TempDir, Server) {
    let (directory, places) = places();
    let server = Server::start(&places[1]).await;
    let creating = server.with_token(Grant::All, &Right::ALL, true).await;
    let call = json!({"command": "create", "path": "/memories/a", "file_text": "one"});
    assert_eq!(server.send("POST", "/v1/memory_stores/alice/tool", Some(call), &[&creating]).await.0, 200);
    (directory, server)
}

/// The routes with a body, in the memory `alice`.
fn with_body() -> impl Iterator<Item = (&'static str, String)> {
    let routes = ROUTES.into_iter().filter(|(method, _, needs, _)| *needs != Needs::Nothing && *method != "GET");
    let part =
        |path: &str| path.replace("{id}", "alice").replace("{memory}", "mem_0").replace("{version}", "memver_1_0");
    routes.map(move |(method, path, ..)| (method, part(path)))
}

impl Server {
    fn head(&self, method: &str, path: &str) -> String {
        format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-api-key: {}\r\n", self.token)
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).await.unwrap()
    }

    /// The file of the memory `alice` is unchanged, and it has no other one.
    async fn is_unchanged(&self) {
        let found = self.get("/v1/memory_stores/alice/memories?view=full").await;
        assert_eq!((&found["data"][0]["content"], &found["data"][1]), (&json!("one"), &Value::Null), "{found}");
    }
}

/// The statuses of the responses, which must have a length.
fn statuses(mut replies: &str) -> Vec<u16> {
    let mut found = Vec::new();
    while let Some((head, rest)) = replies.split_once("\r\n\r\n") {
        found.push(head.split(' ').nth(1).unwrap().parse().unwrap());
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        replies = &rest[length.unwrap().parse().unwrap()..];
    }
    assert_eq!(replies, "");
    found
}

/// The bodies never arrive completely: a response proves that the server does not wait for them.
#[tokio::test]
async fn large_bodies_are_refused_on_every_route() {
    let (_directory, server) = start().await;
    for (method, path) in with_body() {
        let head = server.head(method, &path);
        let reply = server.raw(format!("{head}content-length: {}\r\n\r\n", LARGEST + 1)).await;
        assert!(reply.starts_with("HTTP/1.1 413 ") && reply.contains("request_too_large"), "{method} {path}: {reply}");
        let reply = server.raw(format!("{head}content-length: {}\r\n\r\n", u64::MAX)).await;
        assert!(reply.starts_with("HTTP/1.1 4"), "{method} {path}: {reply}");
    }
    let mut chunked =
        format!("{}transfer-encoding: chunked\r\n\r\n", server.head("POST", "/v1/memory_stores/alice/tool"));
    chunked += &format!("{:x}\r\n{}\r\n1\r\nx", LARGEST, " ".repeat(LARGEST));
    assert!(server.raw(chunked).await.starts_with("HTTP/1.1 413 "));
    server.is_unchanged().await;
}

/// The limit of all bodies of a tenant together is 48 MiB. Small bodies are not counted.
#[tokio::test]
async fn many_large_bodies_are_refused_and_small_ones_are_not() {
    let (_directory, server) = start().await;
    let path = "/v1/memory_stores/alice/tool";
    let head = format!("{}content-length: {LARGEST}\r\n\r\n", server.head("POST", path));
    let part = vec![b' '; LARGEST - 1]; // the last byte never arrives
    let mut waiting = Vec::new();
    let refused = loop {
        let mut stream = server.connect().await;
        stream.write_all(head.as_bytes()).await.unwrap();
        let _ = stream.write_all(&part).await; // fails if the server refuses it
        // The server has read a part of the next body when it refuses it, or all of the present one.
        let mut byte = [0];
        if tokio::time::timeout(Duration::from_millis(300), stream.read_exact(&mut byte)).await.is_ok() {
            break rest(stream).await;
        }
        waiting.push(stream);
        assert!(waiting.len() <= 4, "{} bodies are in memory", waiting.len());
    };
    assert!(waiting.len() >= 3, "only {} bodies are in memory: {refused}", waiting.len());
    let call = json!({"command": "view", "path": "/memories", "padding": " ".repeat(60 * 1024)});
    assert_eq!(server.send("POST", path, Some(call), &[]).await.0, 200);
    drop(waiting);
    server.wait_until_accepted(path).await;
}

impl Server {
    async fn wait_until_accepted(&self, path: &str) {
        let large = json!({"command": "view", "path": "/memories", "padding": " ".repeat(LARGEST - 1_000)});
        tokio::time::timeout(Duration::from_secs(60), async {
            while self.send("POST", path, Some(large.clone()), &[]).await.0 == 429 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await
        .unwrap();
    }
}

#[tokio::test]
async fn slow_requests_are_ended() {
    let (_directory, server) = start().await;
    for (method, path) in with_body() {
        let mut stream = server.connect().await;
        let head = format!("{}content-length: 100\r\n\r\n{{", server.head(method, &path));
        stream.write_all(head.as_bytes()).await.unwrap();
        let reply = rest_later(stream).await;
        assert!(reply.starts_with("HTTP/1.1 408 ") && reply.contains("timeout_error"), "{method} {path}: {reply}");
    }
    for start in ["", "POST /v1/memory_stores/alice/tool HTTP/1.1\r\nhost: local"] {
        let mut stream = server.connect().await;
        stream.write_all(start.as_bytes()).await.unwrap();
        let reply = rest_later(stream).await;
        assert!(reply.is_empty() || reply.starts_with("HTTP/1.1 408 "), "{reply}");
    }
    server.is_unchanged().await;
}

/// Reads until the server closes the connection. While both wait, all time passes.
async fn rest_later(mut stream: TcpStream) -> String {
    tokio::time::pause();
    let mut reply = String::new();
    let _ = stream.read_to_string(&mut reply).await;
    tokio::time::resume();
    reply
}

#[tokio::test]
async fn cut_requests_change_nothing() {
    let (_directory, server) = start().await;
    let call = json!({"command": "create", "path": "/memories/new", "file_text": "x"}).to_string();
    let create = json!({"path": "/new", "content": "x"}).to_string();
    for (path, body) in [("/v1/memory_stores/alice/tool", &call), ("/v1/memory_stores/alice/memories", &create)] {
        let whole = format!("{}content-length: {}\r\n\r\n{body} ", server.head("POST", path), body.len() + 1);
        for length in 1..whole.len() {
            let mut stream = server.connect().await;
            stream.write_all(&whole.as_bytes()[..length]).await.unwrap();
            stream.shutdown().await.unwrap();
            let reply = rest(stream).await;
            assert!(reply.is_empty() || reply.starts_with("HTTP/1.1 400 "), "{length}: {reply}");
        }
    }
    server.is_unchanged().await;
}

#[tokio::test]
async fn pipelined_requests_are_checked_one_by_one() {
    let (_directory, server) = start().await;
    let call = json!({"command": "view", "path": "/memories/a"}).to_string();
    let request = |key: &str, end: &str| {
        let head = format!("POST /v1/memory_stores/alice/tool HTTP/1.1\r\nhost: localhost\r\n{key}{end}");
        format!("{head}content-length: {}\r\n\r\n{call}", call.len())
    };
    let key = format!("x-api-key: {}\r\n", server.token);
    let close = "connection: close\r\n";
    let replies = server.raw(request(&key, "") + &request(&key, "") + &request("", close)).await;
    assert_eq!(statuses(&replies), [200, 200, 401]);
    let replies = server.raw(request(&key, "") + &request("x-api-key: memtok_0\r\n", close)).await;
    assert_eq!(statuses(&replies), [200, 401]);
}

/// No part of a body becomes a request.
#[tokio::test]
async fn ambiguous_lengths_smuggle_no_request() {
    let (_directory, server) = start().await;
    // The server keeps the connection open for more requests.
    let later = async |bytes: String| {
        let mut stream = server.connect().await;
        stream.write_all(bytes.as_bytes()).await.unwrap();
        rest_later(stream).await
    };
    let key = format!("x-api-key: {}\r\n", server.token);
    let create = json!({"command": "create", "path": "/memories/new", "file_text": "x"}).to_string();
    let path = "/v1/memory_stores/alice/tool";
    let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\n");
    let smuggled = format!("{head}{key}connection: close\r\ncontent-length: {}\r\n\r\n{create}", create.len());
    let length = smuggled.len();
    for lengths in [
        format!("content-length: 0\r\ncontent-length: {length}\r\n"),
        format!("content-length: {length}\r\ncontent-length: 0\r\n"),
        format!("content-length: 0, {length}\r\n"),
        format!("content-length: +{length}\r\n"),
        "content-length: -1\r\n".to_owned(),
        "content-length: 0x10\r\n".to_owned(),
        "content-length : 0\r\n".to_owned(),
        "transfer-encoding: chunked, identity\r\n".to_owned(),
        "transfer-encoding: xchunked\r\n".to_owned(),
        "transfer-encoding: identity\r\n".to_owned(),
        " transfer-encoding: chunked\r\n".to_owned(),
        format!("transfer-encoding: chunked\r\ncontent-length: {length}\r\n"),
        format!("content-length: {length}\r\ntransfer-encoding: chunked\r\n"),
        "content-length: 5\r\ntransfer-encoding: chunked\r\ntransfer-encoding: identity\r\n".to_owned(),
    ] {
        let replies = later(format!("{head}{key}{lengths}\r\n{smuggled}")).await;
        assert!(replies.starts_with("HTTP/1.1 400 ") && statuses(&replies).len() == 1, "{lengths}: {replies}");
        // A proxy that goes by the content-length sees one request.
        let replies = later(format!("{head}{key}{lengths}\r\n0\r\n\r\n{smuggled}")).await;
        assert!(statuses(&replies).len() == 1, "{lengths}: {replies}");
    }
    // The body of a refused request is not read.
    for key in ["", &key.replace("memtok_", "memtok_0"), "host: other.example\r\n"] {
        let replies = later(format!("{head}{key}content-length: {length}\r\n\r\n{smuggled}")).await;
        assert_eq!(statuses(&replies).len(), 1, "{key}: {replies}");
    }
    server.is_unchanged().await;
}

#[tokio::test]
async fn a_foreign_host_is_refused_before_the_body_on_every_route() {
    let (_directory, server) = start().await;
    let address = &server.address;
    for (method, path, needs, _) in ROUTES {
        for host in
            ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "a@localhost", "localhost, x"]
        {
            let path = path.replace("{id}", "alice").replace("{memory}", "mem_0").replace("{version}", "memver_1_0");
            let head = server.head(method, &path).replace("localhost", host);
            if needs != Needs::Nothing {
                let reply = server.raw(format!("{head}content-length: 10\r\n\r\n")).await;
                assert!(reply.starts_with("HTTP/1.1 403 "), "{method} {path} {host}: {reply}");
                let reply = server.raw(format!("{head}host: {address}\r\ncontent-length: 10\r\n\r\n")).await;
                assert!(reply.starts_with("HTTP/1.1 40"), "{method} {path} {host}: {reply}");
            }
        }
    }
}

/// Its token ends while the body of a request arrives.
#[tokio::test]
async fn a_revoked_token_ends_a_request_that_has_begun() {
    let (_directory, server) = start().await;
    let header = server.with_token(Grant::All, &Right::ALL, false).await;
    let call = json!({"command": "create", "path": "/memories/new", "file_text": "x"}).to_string();
    let mut stream = server.connect().await;
    let head = "POST /v1/memory_stores/alice/tool HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    let (begin, end) = call.split_at(10);
    let request = format!("{head}{header}\r\ncontent-length: {}\r\n\r\n{begin}", call.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    server.revoke(&header).await;
    stream.write_all(end.as_bytes()).await.unwrap();
    assert!(rest(stream).await.starts_with("HTTP/1.1 401 "));
    server.is_unchanged().await;
}
