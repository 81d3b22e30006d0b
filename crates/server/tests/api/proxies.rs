//! Requests as proxies and caches send them. `.ci/world` runs the real programs.

use std::time::Duration;

use memory_tool::Memory;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::page::{FORMS, PAGES};
use crate::security::ROUTES;
use crate::server::{Server, places};

/// The status and the head of a response.
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    fn header(&self, name: &str) -> Option<&str> {
        let start = format!("{name}: ");
        self.head.lines().find_map(|line| line.strip_prefix(start.as_str()))
    }
}

/// The response to a request with these headers. A stream is read until its head ends.
async fn send(server: &Server, method: &str, path: &str, headers: &str, body: &str) -> Reply {
    let mut stream = TcpStream::connect(&server.address).await.unwrap();
    let length = body.len();
    let request = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(60), async {
        let mut part = [0; 8192];
        while let Ok(length @ 1..) = stream.read(&mut part).await {
            response.extend_from_slice(&part[..length]);
            let text = String::from_utf8_lossy(&response);
            if text.contains("\r\n\r\n") && text.contains("content-type: text/event-stream") {
                break;
            }
        }
    })
    .await;
    let response = String::from_utf8_lossy(&response).into_owned();
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{method} {path}: {response}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Reply { status, head: head.to_owned(), body: body.to_owned() }
}

async fn memory(place: &str) -> Memory {
    let memory = Memory::builder(format!("{place}/alice")).history().build().await.unwrap();
    memory.write("/memories/a", "text").await.unwrap();
    memory
}

/// The cookie of a new session.
async fn sign_in(server: &Server, headers: &str) -> Reply {
    let body = format!("token={}", server.token);
    let form = "content-type: application/x-www-form-urlencoded\r\n";
    send(server, "POST", "/sign-in", &format!("{headers}{form}"), &body).await
}

fn cookie(reply: &Reply) -> String {
    let set = reply.header("set-cookie").unwrap_or_else(|| panic!("{}", reply.head));
    set.split(';').next().unwrap().to_owned()
}

/// A cache in front gives a stored response to clients without a token.
#[tokio::test]
async fn no_response_that_a_token_or_session_decides_is_stored() {
    let (_directory, [place, _]) = places();
    memory(&place).await;
    let server = Server::start(&place).await;
    let host = format!("host: {}\r\n", server.address);
    let session = format!("cookie: {}\r\n", cookie(&sign_in(&server, &host).await));
    let key = format!("x-api-key: {}\r\n", server.token);
    let api = ROUTES.into_iter().map(|(method, path, _, body)| (method, path, body));
    let monitors = ["/readyz", "/metrics", "/openapi.json", "/mcp", "/none"].map(|path| ("GET", path, ""));
    let pages = PAGES.into_iter().chain(["/", "/tokens", "/sign-in", "/sign-out"]).map(|path| ("GET", path, ""));
    let forms = FORMS.map(|(path, _)| ("POST", path, "form=x"));
    for (method, path, body) in api.chain(monitors).chain(pages).chain(forms) {
        let path = path.replace("{id}", "alice").replace("{memory}", "mem_0").replace("{version}", "memver_1_0");
        for sender in ["", &key, &session, "host: other\r\n"] {
            let host = if sender.starts_with("host") { "" } else { &host };
            let reply = send(&server, method, &path, &format!("{host}{sender}"), body).await;
            let stored = reply.header("cache-control");
            assert_eq!(stored, Some("no-store"), "{method} {path} with {sender}: {}", reply.head);
        }
    }
    for file in ["/style.css", "/icon.svg", "/page.js"] {
        let reply = send(&server, "GET", file, &host, "").await;
        assert!(reply.header("cache-control").unwrap().starts_with("max-age="), "{}", reply.head);
    }
    memory(&place).await; // one of the requests deleted it
    let call = json!({"command": "view", "path": "/memories/a"}).to_string();
    let reply = send(&server, "POST", "/v1/memory_stores/alice/tool", &format!("{host}{key}"), &call).await;
    assert_eq!((reply.status, reply.header("cache-control")), (200, Some("no-store")), "{}", reply.body);
}

/// A proxy with another sign-in passes its header on.
#[tokio::test]
async fn the_password_of_a_proxy_is_no_token() {
    let (_directory, [place, _]) = places();
    let server = Server::start(&place).await;
    let (host, token) = (format!("host: {}\r\n", server.address), &server.token);
    let basic = "authorization: Basic dXNlcjpwYXNzd29yZA==\r\n";
    for (headers, status) in [
        (format!("{basic}x-api-key: {token}\r\n"), 200),
        (format!("{basic}authorization: Bearer {token}\r\n"), 200),
        (format!("authorization: Bearer {token}\r\nx-api-key: {token}\r\n"), 200),
        (basic.to_owned(), 401),
        (format!("authorization: Bearer memtok_0\r\nx-api-key: {token}\r\n"), 401),
        (format!("x-api-key: \u{e9}\r\nx-api-key: {token}\r\n"), 401),
    ] {
        let reply = send(&server, "GET", "/v1/memory_stores", &format!("{host}{headers}"), "").await;
        assert_eq!(reply.status, status, "{headers}: {}", reply.body);
    }
}

/// `proxies` has the address of the proxy nearest to the server, which passes the lists of both on.
#[tokio::test]
async fn two_proxies_in_a_row_name_the_host_and_the_scheme() {
    let (_directory, [place, _]) = places();
    memory(&place).await;
    let server = Server::start_with(&place, |options| {
        options.proxies = vec!["127.0.0.0/8".parse().unwrap()];
        options.allow_hosts = vec!["memory.example".to_owned()];
    })
    .await;
    let origin = "host: inside\r\norigin: https://memory.example\r\n";
    for forwarded in [
        "x-forwarded-host: memory.example, memory.example\r\nx-forwarded-proto: https, http\r\n",
        "forwarded: for=192.0.2.1;host=memory.example;proto=https, for=127.0.0.1;host=inner;proto=http\r\n",
    ] {
        let reply = sign_in(&server, &format!("{origin}{forwarded}")).await;
        assert_eq!(reply.status, 303, "{forwarded}: {}", reply.body);
        assert!(reply.header("set-cookie").unwrap().ends_with("; Secure"), "{}", reply.head);
    }
}

#[tokio::test]
async fn a_refusal_names_the_header_and_the_setting() {
    let (_directory, [place, _]) = places();
    let server = Server::start(&place).await;
    let key = format!("x-api-key: {}\r\n", server.token);
    let reply = send(&server, "GET", "/v1/memory_stores", &format!("host: memory.example\r\n{key}"), "").await;
    assert_eq!(reply.status, 403);
    assert!(reply.body.contains(r#"\"memory.example\""#) && reply.body.contains("--allow-host"), "{}", reply.body);
    let origin = format!("host: {}\r\norigin: https://<b>.example\r\n", server.address);
    let reply = sign_in(&server, &origin).await;
    assert_eq!(reply.status, 403);
    assert!(
        reply.body.contains("https://&#60;b&#62;.example") && reply.body.contains("--allow-host"),
        "{}",
        reply.body
    );
    // Probes and Prometheus use a name of the cluster.
    for (path, key, status) in [("/readyz", &*key, 200), ("/metrics", &key, 200), ("/metrics", "", 401)] {
        let reply = send(&server, "GET", path, &format!("host: memory-tool:8809\r\n{key}"), "").await;
        assert_eq!(reply.status, status, "{path}: {}", reply.body);
    }
}

/// The events of the live stream of a page until it ends, while all time passes.
async fn live(server: &Server, session: &str) -> (String, Vec<String>, Duration) {
    let mut stream = TcpStream::connect(&server.address).await.unwrap();
    let head = format!("GET /memory/alice/live HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n", server.address);
    stream.write_all(format!("{head}{session}\r\n").as_bytes()).await.unwrap();
    tokio::time::pause();
    let (begin, mut reply) = (tokio::time::Instant::now(), String::new());
    tokio::time::timeout(Duration::from_secs(3_600), stream.read_to_string(&mut reply)).await.unwrap().unwrap();
    let duration = begin.elapsed();
    tokio::time::resume();
    let (head, events) = reply.split_once("\r\n\r\n").unwrap();
    let events = events.split("\n\n").filter(|event| event.contains("event: "));
    (head.to_owned(), events.map(str::to_owned).collect(), duration)
}

/// nginx holds a response back without the header, and lighttpd a stream that has no reader.
#[tokio::test]
async fn a_live_stream_passes_proxies_has_the_state_and_ends() {
    let (_directory, [place, _]) = places();
    let memory = memory(&place).await;
    let server = Server::start(&place).await;
    let host = format!("host: {}\r\n", server.address);
    let session = format!("cookie: {}\r\n", cookie(&sign_in(&server, &host).await));
    for expected in ["1", "2"] {
        let page = send(&server, "GET", "/memory/alice", &format!("{host}{session}"), "").await;
        assert!(page.body.contains(&format!("data-state=\"{expected}\"")), "{}", page.body);
        let (head, events, duration) = live(&server, &session).await;
        assert!(head.contains("\r\nx-accel-buffering: no\r\n"), "{head}");
        assert!(events[0].contains("event: state") && events[0].contains(&format!("data: {expected}")), "{events:?}");
        assert!((60..=300).contains(&duration.as_secs()), "{duration:?}");
        memory.write("/memories/a", "changed").await.unwrap();
    }
    // Without a history, the state is not known.
    let memory = Memory::open(format!("{place}/plain")).await.unwrap();
    memory.write("/memories/a", "text").await.unwrap();
    let page = send(&server, "GET", "/memory/plain", &format!("{host}{session}"), "").await;
    assert!(page.body.contains("data-state=\"\""), "{}", page.body);
}

/// Most proxies send a whole body before they read the response, and report 502 if the connection is reset.
#[tokio::test]
async fn an_error_before_the_body_is_read_arrives() {
    let (_directory, [place, _]) = places();
    let server = Server::start(&place).await;
    let (host, key) = (format!("host: {}\r\n", server.address), format!("x-api-key: {}\r\n", server.token));
    let (api, page) = ("/v1/memory_stores/alice/tool", "/memory/alice/edit");
    let (large, small) = (17 * 1024 * 1024, 5_000_000);
    for (path, headers, length, status) in [
        (api, format!("{host}{key}"), large, 413),
        (api, format!("{host}x-api-key: memtok_0\r\n"), small, 401),
        (api, format!("host: other.example\r\n{key}"), small, 403),
        (page, format!("host: other.example\r\n{key}"), small, 403),
        ("/sign-in", host.clone(), small, 413),
    ] {
        for is_chunked in [false, true] {
            let length_header = format!("content-length: {length}\r\n");
            let lengths = if is_chunked { "transfer-encoding: chunked\r\n" } else { &*length_header };
            let head = format!("POST {path} HTTP/1.1\r\nconnection: close\r\n{headers}{lengths}\r\n");
            let (mut stream, mut reply) = (TcpStream::connect(&server.address).await.unwrap(), String::new());
            stream.write_all(head.as_bytes()).await.unwrap();
            let part = vec![b'x'; 50_000];
            for _ in 0..length / part.len() {
                let frame = if is_chunked { [b"c350\r\n", &part[..], b"\r\n"].concat() } else { part.clone() };
                stream.write_all(&frame).await.unwrap_or_else(|error| panic!("{path} {status}: {error}"));
            }
            let end = if is_chunked { b"0\r\n\r\n".to_vec() } else { vec![b'x'; length % part.len()] };
            stream.write_all(&end).await.unwrap();
            stream.read_to_string(&mut reply).await.unwrap_or_else(|error| panic!("{path} {status}: {error}"));
            assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {reply}");
        }
    }
    // A client that waits to send the body does not send it.
    let head = format!("POST {api} HTTP/1.1\r\nconnection: close\r\n{host}content-length: 5000\r\n");
    let reply = server.raw(format!("{head}expect: 100-continue\r\n\r\n")).await;
    assert!(reply.starts_with("HTTP/1.1 401 "), "{reply}");
}
