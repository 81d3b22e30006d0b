//! The server over streamable HTTP, from raw requests.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use memory_tool_test_fixtures::session::{PATIENCE, Place};
use serde_json::{Value, json};

use super::http_server::{HttpServer, TOKEN};
use super::{call, create, initialize, initialized, modern, request, server, text};

impl HttpServer {
    /// Sends a request to /mcp with the usual headers and these, which replace usual ones of the same name.
    fn send(&self, method: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        self.send_to("/mcp", method, headers, body)
    }

    fn send_to(&self, path: &str, method: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        let mut stream = self.connect(path, method, headers, body.len());
        // The server may refuse the request before it has read the body.
        let _ = stream.write_all(body);
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response);
        Response::parse(&response)
    }

    /// Sends the head of a request.
    pub(super) fn connect(&self, path: &str, method: &str, headers: &[(&str, &str)], length: usize) -> TcpStream {
        let usual = [
            ("host", self.address.clone()),
            ("accept", "application/json, text/event-stream".to_owned()),
            ("content-type", "application/json".to_owned()),
            ("content-length", length.to_string()),
            ("connection", "close".to_owned()),
        ];
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        let is_chunked = headers.iter().any(|(name, _)| *name == "transfer-encoding");
        let is_given = |name: &str| headers.iter().any(|(given, _)| *given == name);
        let is_sent = |name: &str| !(is_given(name) || is_chunked && name == "content-length");
        for (name, value) in usual.iter().filter(|(name, _)| is_sent(name)) {
            head += &format!("{name}: {value}\r\n");
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        stream
    }

    pub(super) fn post(&self, headers: &[(&str, &str)], message: &Value) -> Response {
        self.send("POST", headers, message.to_string().as_bytes())
    }

    /// Starts a session, and returns its id.
    pub(super) fn session(&self) -> String {
        let response = self.post(&[], &initialize(0, "2025-11-25"));
        assert_eq!(response.status, 200, "{response:?}");
        assert_eq!(response.message()["result"]["serverInfo"]["name"], "memory-tool");
        let id = response.header("mcp-session-id").unwrap().to_owned();
        assert_eq!(self.post(&[("mcp-session-id", &id)], &initialized()).status, 202);
        id
    }
}

#[derive(Debug)]
pub(super) struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

impl Response {
    pub(super) fn parse(response: &[u8]) -> Self {
        let response = String::from_utf8_lossy(response);
        let (head, body) = response.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no response: {response:?}"));
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<_> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let is_chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        let body = if is_chunked { joined_chunks(body) } else { body.to_owned() };
        Self { status, headers, body }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// The message in a body of JSON, or the last one in a stream of events.
    pub(super) fn message(&self) -> Value {
        let json = match self.header("content-type") {
            Some("text/event-stream") => {
                let mut events = self.body.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
                events.rfind(|data| !data.is_empty()).unwrap_or_else(|| panic!("no event: {self:?}"))
            }
            _ => &self.body,
        };
        serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

fn joined_chunks(mut body: &str) -> String {
    let mut joined = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        joined += &rest[..length];
        body = rest[length..].trim_start_matches("\r\n");
    }
    joined
}

fn view(id: u64) -> Value {
    call(id, json!({"command": "view", "path": "/memories"}))
}

#[test]
fn a_session_runs_commands() {
    let place = Place::new();
    let server = HttpServer::start(&place, &[]);
    let id = server.session();
    let session = [("mcp-session-id", id.as_str()), ("mcp-protocol-version", "2025-11-25")];
    let created = server.post(&session, &call(1, create("/memories/a.txt", "é")));
    assert_eq!(text(&created.message()), "File created successfully at: /memories/a.txt");
    assert_eq!(fs::read_to_string(place.file("a.txt")).unwrap(), "é");
    let read = server.post(&session, &request(2, "resources/read", json!({"uri": "memory:///a.txt"})));
    assert_eq!(read.message()["result"]["contents"][0]["text"], "é");
    assert_eq!(server.send("DELETE", &session, b"").status, 204);
    assert_eq!(server.post(&session, &view(3)).status, 404);
}

#[test]
fn a_request_of_the_newest_revision_needs_no_session() {
    let place = Place::new();
    let server = HttpServer::start(&place, &[]);
    let input = create("/memories/a.txt", "one");
    let message = modern(1, "tools/call", json!({"name": "memory", "arguments": input}));
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "memory")];
    let created = server.post(&headers, &message);
    assert_eq!(text(&created.message()), "File created successfully at: /memories/a.txt");
    assert_eq!(created.header("mcp-session-id"), None);
    // The headers must match the message.
    let wrong = [headers[0], headers[1], ("mcp-name", "other")];
    assert_eq!((server.post(&wrong, &message).status, server.post(&headers[..1], &message).status), (400, 400));
}

#[test]
fn a_change_in_one_session_is_notified_in_another() {
    let place = Place::new();
    let server = HttpServer::start(&place, &[]);
    let (listener, writer) = (server.session(), server.session());
    let subscribe = request(1, "resources/subscribe", json!({"uri": "memory:///a"}));
    assert_eq!(server.post(&[("mcp-session-id", &listener)], &subscribe).message()["result"], json!({}));
    let mut stream = server.connect("/mcp", "GET", &[("mcp-session-id", &listener)], 0);
    let mut read_until = |wanted: &str| {
        let mut received = Vec::new();
        while !String::from_utf8_lossy(&received).contains(wanted) {
            let mut part = [0; 1024];
            let length = stream.read(&mut part).unwrap();
            assert_ne!(length, 0, "{}", String::from_utf8_lossy(&received));
            received.extend_from_slice(&part[..length]);
        }
    };
    read_until("\r\n\r\n");
    server.post(&[("mcp-session-id", &writer)], &call(1, create("/memories/a", "")));
    read_until(r#""method":"notifications/resources/updated","params":{"uri":"memory:///a"}"#);
}

#[test]
fn only_the_token_admits_a_request() {
    let place = Place::new();
    let file = place.outside("token");
    fs::write(&file, format!("{TOKEN}\n")).unwrap();
    assert!(Command::new("chmod").arg("600").arg(&file).status().unwrap().success());
    let from_file = HttpServer::start(&place, &["--token-file", file.to_str().unwrap()]);
    let mut command = server(&place, &["--listen", "127.0.0.1:0", "--token-env", "MCP_TOKEN"]);
    let from_variable = HttpServer::start_as(command.env("MCP_TOKEN", TOKEN));
    for server in [from_file, from_variable] {
        for method in ["POST", "GET", "DELETE", "OPTIONS"] {
            for headers in [
                &[][..],
                &[("authorization", "Bearer 0123456789abcdee")],
                &[("authorization", "Bearer ")],
                &[("authorization", "Basic 0123456789abcdef")],
                &[("authorization", TOKEN)],
            ] {
                let response = server.send(method, headers, initialize(0, "2025-11-25").to_string().as_bytes());
                assert_eq!(response.status, 401, "{method} {headers:?}");
                assert_eq!(response.header("www-authenticate"), Some("Bearer"));
                assert!(!response.body.contains(TOKEN));
            }
        }
        let admitted = server.post(&[("authorization", &format!("Bearer {TOKEN}"))], &initialize(0, "2025-11-25"));
        assert_eq!(admitted.status, 200);
    }
}

/// The error of a program that cannot start. It must not create the store.
fn failure(place: &Place, options: &[&str]) -> String {
    let output = server(place, options).env("SHORT", "0123456789").env_remove("UNSET").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{options:?}");
    assert!(!place.store().exists());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn other_machines_need_a_token() {
    let place = Place::new();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let errors = failure(&place, &["--listen", address]);
        let expected = format!("memory-tool: cannot listen on {address} without a token, because other machines");
        assert!(errors.starts_with(&expected), "{errors}");
    }
    let mut command = server(&place, &["--listen", "0.0.0.0:0", "--token-env", "MCP_TOKEN"]);
    HttpServer::start_as(command.env("MCP_TOKEN", TOKEN));
}

#[test]
fn a_token_that_cannot_be_used_is_reported_without_it() {
    let place = Place::new();
    let file = place.outside("token");
    fs::write(&file, TOKEN).unwrap();
    assert!(Command::new("chmod").arg("644").arg(&file).status().unwrap().success());
    let (file, missing) = (file.to_str().unwrap().to_owned(), place.outside("missing").display().to_string());
    for (option, value, expected) in [
        ("--token-file", file.as_str(), "mode 644 gives other users access: run `chmod 600` on it"),
        ("--token-file", &missing, "cannot read "),
        ("--token-env", "UNSET", "--token-env does not name an environment variable that is set"),
        ("--token-env", TOKEN, "--token-env does not name an environment variable that is set"),
        ("--token-env", "SHORT", "it has 10 characters; use at least 16"),
    ] {
        let errors = failure(&place, &["--listen", "127.0.0.1:0", option, value]);
        assert!(errors.contains(expected) && !errors.contains("0123456789"), "{errors}");
    }
    let errors = failure(&place, &["--token-env", "SHORT"]);
    assert!(errors.contains("--listen <ADDRESS>"), "{errors}");
}

#[test]
fn web_pages_of_other_sites_are_refused() {
    let place = Place::new();
    let server = HttpServer::start(&place, &["--allow-host", "memory.example"]);
    let (_, port) = server.address.rsplit_once(':').unwrap();
    let status = |headers: &[(&str, &str)]| server.post(headers, &initialize(0, "2025-11-25")).status;
    for host in ["localhost", "127.0.0.1", "[::1]", "memory.example"] {
        let with_port = format!("{host}:{port}");
        assert_eq!(status(&[("host", &with_port)]), 200, "{host}");
        let origin = format!("http://{with_port}");
        assert_eq!(status(&[("host", &with_port), ("origin", &origin)]), 200, "{host}");
    }
    assert_eq!(status(&[("origin", "https://memory.example")]), 200);
    for host in ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example", "192.0.2.1"] {
        assert_eq!(status(&[("host", host)]), 403, "{host}");
    }
    for origin in [
        "http://evil.example",
        "https://localhost.evil.example",
        "null",
        "http://localhost:1",
        "https://localhost",
        "x",
    ] {
        assert_eq!(status(&[("origin", origin)]), 403, "{origin}");
    }
}

#[test]
fn hostile_requests_get_errors_and_the_server_continues() {
    let place = Place::new();
    let server = HttpServer::start(&place, &[]);
    let id = server.session();
    let session = [("mcp-session-id", id.as_str())];
    for (body, code) in [
        (b"nonsense".to_vec(), -32700),
        (b"".to_vec(), -32700),
        (b"\xff".to_vec(), -32700),
        (b"[]".to_vec(), -32600),
        (format!("[{}0]", "0,".repeat(20_000)).into_bytes(), -32600),
    ] {
        let response = server.send("POST", &session, &body);
        assert_eq!((response.status, &response.message()["error"]["code"]), (400, &json!(code)), "{response:?}");
    }
    let ping = request(1, "ping", json!({})).to_string();
    for (path, method, headers, status) in [
        ("/", "POST", &session[..], 404),
        ("/mcp/..", "POST", &session, 404),
        ("/memories/a", "GET", &session, 404),
        ("/mcp", "PUT", &session, 405),
        ("/mcp", "POST", &[("mcp-session-id", "unknown")], 404),
        ("/mcp", "POST", &[], 400),
        ("/mcp", "GET", &[], 400),
        ("/mcp", "POST", &[session[0], ("accept", "text/html")], 406),
        ("/mcp", "POST", &[session[0], ("content-type", "text/plain")], 415),
        ("/mcp", "POST", &[session[0], ("mcp-protocol-version", "1999-01-01")], 400),
    ] {
        let response = server.send_to(path, method, headers, ping.as_bytes());
        assert_eq!(response.status, status, "{method} {path} {headers:?}: {response:?}");
    }
    let too_large = (17 * 1024 * 1024).to_string();
    let response = server.send("POST", &[session[0], ("content-length", &too_large)], b"");
    assert_eq!(response.status, 413, "{response:?}");
    let unknown_tool = server.post(&session, &request(2, "tools/call", json!({"name": "nope"})));
    assert_eq!(unknown_tool.message()["error"]["code"], -32602);
    assert_eq!(unknown_tool.message()["error"]["message"], "Unknown tool: nope. The tools are: memory, memory_search");
    let long_name = server.post(&session, &request(2, "tools/call", json!({"name": "\0".repeat(1_000_000)})));
    assert!(long_name.message()["error"]["message"].as_str().unwrap().len() < 2_000);
    let response = server.post(&session, &call(3, json!({"command": "view", "path": "/memories/../x"})));
    assert_eq!(response.message()["result"]["isError"], true);
    assert_eq!(server.post(&session, &request(4, "ping", json!({}))).message()["result"], json!({}));
}

/// A body without a length is refused as soon as it exceeds the limit.
#[test]
fn a_body_may_have_16_mib() {
    let place = Place::new();
    let server = HttpServer::start(&place, &[]);
    let id = server.session();
    let session = [("mcp-session-id", id.as_str())];
    let longest = server.post(&session, &call(1, create("/memories/a", &"x".repeat(16 * 1024 * 1024 - 200))));
    assert_eq!(text(&longest.message()), "File created successfully at: /memories/a");
    let mut body = b"1000001\r\n".to_vec();
    body.resize(body.len() + 0x0100_0001, b'x');
    let mut stream = server.connect("/mcp", "POST", &[session[0], ("transfer-encoding", "chunked")], 0);
    let _ = stream.write_all(&body);
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response);
    assert_eq!(Response::parse(&response).status, 413);
}

/// A client that starts sessions must not keep others out, nor end their sessions.
#[test]
fn a_new_session_takes_the_place_of_an_unused_one() {
    let place = Place::new();
    let server = HttpServer::start(&place, &[]);
    let used = server.session();
    assert_eq!(server.post(&[("mcp-session-id", &used)], &view(1)).status, 200);
    let unused: Vec<_> = (0..1_024).map(|_| server.session()).collect();
    let status = |id: &str| server.post(&[("mcp-session-id", id)], &view(2)).status;
    assert_eq!([&used, &unused[0], &unused[1], &unused[1_023]].map(|id| status(id)), [200, 404, 200, 200]);
    assert_eq!(server.send("DELETE", &[("mcp-session-id", &unused[2])], b"").status, 204);
    assert_eq!([server.session(), used].map(|id| status(&id)), [200, 200]);
}

/// Other systems allow fewer open files.
#[cfg(target_os = "linux")]
#[test]
fn silent_connections_keep_nobody_out() {
    let place = Place::new();
    let server = HttpServer::start(&place, &[]);
    let id = server.session();
    let connect = || TcpStream::connect(&server.address).unwrap();
    // These send a part of a request.
    let start = || server.connect("/mcp", "POST", &[("mcp-session-id", &id)], 100);
    let mut silent: Vec<_> = (0..300).map(|number| if number % 2 == 0 { connect() } else { start() }).collect();
    assert_eq!(server.post(&[("mcp-session-id", &id)], &view(1)).status, 200);
    // The server closed the first one, and did not wait until it may close all of them.
    silent[0].set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(silent[0].read(&mut [0; 16]).unwrap(), 0);
    silent[299].set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    silent[299].read(&mut [0; 16]).unwrap_err();
}

#[cfg(target_os = "linux")]
#[test]
fn event_streams_keep_nobody_out() {
    let place = Place::new();
    let server = HttpServer::start(&place, &[]);
    let streams: Vec<_> = (0..300)
        .map(|_| {
            let mut stream = server.connect("/mcp", "GET", &[("mcp-session-id", &server.session())], 0);
            assert_ne!(stream.read(&mut [0; 16]).unwrap(), 0);
            stream
        })
        .collect();
    assert_eq!(server.post(&[("mcp-session-id", &server.session())], &view(1)).status, 200);
    drop(streams);
}

/// The body never arrives: a response proves that the server does not wait for it.
#[test]
fn a_request_is_refused_before_its_body_arrives() {
    let place = Place::new();
    let mut command = server(&place, &["--listen", "127.0.0.1:0", "--token-env", "MCP_TOKEN"]);
    let server = HttpServer::start_as(command.env("MCP_TOKEN", TOKEN));
    let authorization = ("authorization", &*format!("Bearer {TOKEN}"));
    for (headers, status) in [
        (&[authorization, ("host", "evil.example")][..], 403),
        (&[authorization, ("origin", "http://evil.example")], 403),
        (&[authorization, ("host", "")], 400),
        (&[("authorization", "Bearer 0123456789abcdee")], 401),
        (&[], 401),
    ] {
        let mut stream = server.connect("/mcp", "POST", headers, 16 * 1024 * 1024);
        let mut response = Vec::new();
        stream.read_to_end(&mut response).unwrap();
        assert_eq!(Response::parse(&response).status, status, "{headers:?}");
    }
}

#[test]
fn line_separators_in_events_are_escaped() {
    let place = Place::new();
    let server = HttpServer::start(&place, &[]);
    let id = server.session();
    let session = [("mcp-session-id", id.as_str())];
    server.post(&session, &call(1, create("/memories/a", "x\u{2028}\u{2029}y")));
    let view = server.post(&session, &call(2, json!({"command": "view", "path": "/memories/a"})));
    assert!(!view.body.contains(['\u{2028}', '\u{2029}']), "{view:?}");
    assert!(text(&view.message()).ends_with("x\u{2028}\u{2029}y"));
}

#[test]
fn causes_of_failures_go_to_standard_error() {
    let place = Place::new();
    place.session().close();
    place.break_storage();
    let server = HttpServer::start(&place, &[]);
    let id = server.session();
    let response = server.post(&[("mcp-session-id", &id)], &view(1));
    assert!(!response.body.contains(place.store().to_str().unwrap()), "{response:?}");
    server.signal("-TERM");
    let (status, errors) = server.finish();
    assert_eq!(status, Some(143));
    assert!(errors.contains("lock"), "{errors}");
}

#[test]
fn a_signal_ends_the_server_while_clients_are_connected() {
    let place = Place::new();
    for (signal, expected) in [("-INT", 130), ("-TERM", 143)] {
        let server = HttpServer::start(&place, &[]);
        let id = server.session();
        let mut stream = server.connect("/mcp", "GET", &[("mcp-session-id", &id)], 0);
        assert_ne!(stream.read(&mut [0; 16]).unwrap(), 0);
        let idle = TcpStream::connect(&server.address).unwrap();
        server.signal(signal);
        assert_eq!(server.finish(), (Some(expected), String::new()));
        drop(idle);
    }
}

#[test]
fn an_address_in_use_is_reported() {
    let place = Place::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let errors = failure(&place, &["--listen", &address]);
    assert!(errors.starts_with(&format!("memory-tool: cannot listen on {address}: ")), "{errors}");
}
