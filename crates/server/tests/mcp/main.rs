//! The endpoint `/mcp`, from raw requests.

#![cfg(test)]
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod client;
mod issuer;
mod order;
mod tenants;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::json;

use client::{Place, Response, call, create, initialize, modern, request, start_with, started, text, view};

#[test]
fn a_session_runs_commands() {
    let (place, client) = started();
    let id = client.session();
    let session = [("mcp-session-id", id.as_str()), ("mcp-protocol-version", "2025-11-25")];
    let created = client.post(&session, &call(1, create("/memories/a.txt", "é")));
    assert_eq!(text(&created.message()), "File created successfully at: /memories/a.txt");
    assert_eq!(fs::read_to_string(place.path("alice/memories/a.txt")).unwrap(), "é");
    let read = client.post(&session, &request(2, "resources/read", json!({"uri": "memory:///a.txt"})));
    assert_eq!(read.message()["result"]["contents"][0]["text"], "é");
    assert_eq!(client.send("DELETE", &session, b"").status, 204);
    assert_eq!(client.post(&session, &view(3)).status, 404);
}

#[test]
fn a_request_of_the_newest_revision_needs_no_session() {
    let (_place, client) = started();
    let input = create("/memories/a.txt", "one");
    let message = modern(1, "tools/call", json!({"name": "memory", "arguments": input}));
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "memory")];
    let created = client.post(&headers, &message);
    assert_eq!(text(&created.message()), "File created successfully at: /memories/a.txt");
    assert_eq!(created.header("mcp-session-id"), None);
    // The headers must match the message.
    let wrong = [headers[0], headers[1], ("mcp-name", "other")];
    assert_eq!((client.post(&wrong, &message).status, client.post(&headers[..1], &message).status), (400, 400));
}

fn read_until(stream: &mut TcpStream, wanted: &str) -> String {
    let mut received = Vec::new();
    while !String::from_utf8_lossy(&received).contains(wanted) {
        let mut part = [0; 1024];
        let length = stream.read(&mut part).unwrap();
        assert_ne!(length, 0, "{}", String::from_utf8_lossy(&received));
        received.extend_from_slice(&part[..length]);
    }
    String::from_utf8(received).unwrap()
}

const UPDATED: &str = r#""method":"notifications/resources/updated","params":{"#;

#[test]
fn a_change_in_one_session_is_notified_in_another() {
    let (_place, client) = started();
    let (listener, writer) = (client.session(), client.session());
    let subscribe = request(1, "resources/subscribe", json!({"uri": "memory:///a"}));
    assert_eq!(client.ask(&listener, &subscribe)["result"], json!({}));
    let mut stream = client.stream(&listener);
    client.ask(&writer, &call(1, create("/memories/a", "")));
    read_until(&mut stream, UPDATED);
}

#[test]
fn a_client_of_the_newest_revision_is_notified_of_changes() {
    let (_place, client) = started();
    let filter = json!({"resourceSubscriptions": ["memory:///a"]});
    let listen = modern(1, "subscriptions/listen", json!({"notifications": filter})).to_string();
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "subscriptions/listen")];
    let mut stream = client.connect("/mcp", "POST", &headers, listen.len());
    stream.write_all(listen.as_bytes()).unwrap();
    read_until(&mut stream, "notifications/subscriptions/acknowledged");
    let writer = client.session();
    // The first listing may be after the acknowledgement.
    let is_notified = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for id in 1.. {
                if is_notified.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                let name = format!("/memories/{id}");
                client.ask(&writer, &call(2 * id, create(&name, "")));
                let rename = json!({"command": "rename", "old_path": name, "new_path": format!("/memories/a/{id}")});
                client.ask(&writer, &call(2 * id + 1, rename));
            }
        });
        read_until(&mut stream, "notifications/resources/updated");
        is_notified.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// The session stays open when a membership begins or ends.
#[test]
fn changes_of_a_shared_memory_are_notified_as_long_as_the_client_sees_it() {
    let place = Place::new();
    let (file, [alice, team]) = (place.path("server.toml"), ["alice", "team"].map(|name| place.agent(name).1));
    let write = |members: &str| {
        let text = format!("store = 'in-process:'\ntokens = 'x'\n[groups.team]\nread = [{members}]\n");
        fs::write(&file, text).unwrap();
    };
    write("");
    let server =
        start_with(&place, place.path("").to_str().unwrap(), |options| options.configuration = Some(file.clone()));
    let (alice, team) = (server.client(&alice), server.client(&team));
    let of_alice = alice.session();
    for name in ["team/a", "team/b", "team/c", "own"] {
        let subscribe = request(1, "resources/subscribe", json!({"uri": format!("memory:///{name}")}));
        assert_eq!(alice.ask(&of_alice, &subscribe)["result"], json!({}));
    }
    let mut stream = alice.stream(&of_alice);
    // The tree is another one, so all may have changed.
    write("'agent'");
    read_until(&mut stream, "memory:///team/c");
    // The memory is created later.
    let of_team = team.session();
    team.ask(&of_team, &call(1, create("/memories/first", "")));
    read_until(&mut stream, "memory:///team/c");
    team.ask(&of_team, &call(2, create("/memories/a", "")));
    read_until(&mut stream, "memory:///team/a");
    assert!(text(&alice.ask(&of_alice, &view(2))).contains("/memories/team/a"));
    write("");
    read_until(&mut stream, "memory:///team/c");
    team.ask(&of_team, &call(3, create("/memories/b", "")));
    alice.ask(&of_alice, &call(3, create("/memories/own", "")));
    let received = read_until(&mut stream, "memory:///own");
    assert!(!received.contains("team/b"), "{received}");
    assert!(!text(&alice.ask(&of_alice, &view(4))).contains("team"));
    write("'agent'");
    read_until(&mut stream, "memory:///team/c");
    team.ask(&of_team, &call(5, create("/memories/c", "")));
    read_until(&mut stream, "memory:///team/c");
}

#[test]
fn hostile_requests_get_errors_and_the_server_continues() {
    let (_place, client) = started();
    let id = client.session();
    let session = [("mcp-session-id", id.as_str())];
    for (body, code) in [
        (b"nonsense".to_vec(), -32700),
        (b"".to_vec(), -32700),
        (b"\xff".to_vec(), -32700),
        (b"[]".to_vec(), -32600),
        (format!("[{}0]", "0,".repeat(20_000)).into_bytes(), -32600),
    ] {
        let response = client.send("POST", &session, &body);
        assert_eq!((response.status, &response.message()["error"]["code"]), (400, &json!(code)), "{response:?}");
    }
    let ping = request(1, "ping", json!({})).to_string();
    for (path, method, headers, status) in [
        ("/mcp/", "POST", &session[..], 404),
        ("/mcp/..", "POST", &session, 404),
        ("/memories/a", "GET", &session, 404),
        ("/mcp", "PUT", &session, 405),
        ("/mcp", "POST", &[("mcp-session-id", "unknown")], 404),
        ("/mcp", "DELETE", &[("mcp-session-id", "unknown")], 404),
        ("/mcp", "POST", &[], 400),
        ("/mcp", "GET", &[], 400),
        ("/mcp", "POST", &[session[0], ("accept", "text/html")], 406),
        ("/mcp", "POST", &[session[0], ("content-type", "text/plain")], 415),
        ("/mcp", "POST", &[session[0], ("mcp-protocol-version", "1999-01-01")], 400),
    ] {
        let response = client.send_to(path, method, headers, ping.as_bytes());
        assert_eq!(response.status, status, "{method} {path} {headers:?}: {response:?}");
    }
    let too_large = (17 * 1024 * 1024).to_string();
    let response = client.send("POST", &[session[0], ("content-length", &too_large)], b"");
    assert_eq!(response.status, 413, "{response:?}");
    let unknown_tool = client.ask(&id, &request(2, "tools/call", json!({"name": "nope"})));
    assert_eq!(unknown_tool["error"]["code"], -32602);
    assert_eq!(unknown_tool["error"]["message"], "Unknown tool: nope. The tools are: memory, memory_search");
    let long_name = client.ask(&id, &request(2, "tools/call", json!({"name": "\0".repeat(1_000_000)})));
    assert!(long_name["error"]["message"].as_str().unwrap().len() < 2_000);
    let response = client.ask(&id, &call(3, json!({"command": "view", "path": "/memories/../x"})));
    assert_eq!(response["result"]["isError"], true);
    assert_eq!(client.ask(&id, &request(4, "ping", json!({})))["result"], json!({}));
}

/// A body without a length is refused as soon as it exceeds the limit.
#[test]
fn a_body_may_have_16_mib() {
    let (_place, client) = started();
    let id = client.session();
    let longest = client.ask(&id, &call(1, create("/memories/a", &"x".repeat(16 * 1024 * 1024 - 200))));
    assert_eq!(text(&longest), "File created successfully at: /memories/a");
    let mut body = b"1000001\r\n".to_vec();
    body.resize(body.len() + 0x0100_0001, b'x');
    let response = client.send("POST", &[("mcp-session-id", &id), ("transfer-encoding", "chunked")], &body);
    assert_eq!(response.status, 413);
}

/// The body never arrives: a response proves that the server does not wait for it.
#[test]
fn a_request_is_refused_before_its_body_arrives() {
    let (_place, client) = started();
    for (header, status) in [
        (("host", "evil.example"), 403),
        (("origin", "http://evil.example"), 403),
        (("authorization", "Bearer memtok_wrong"), 401),
    ] {
        let response = Response::read(client.connect("/mcp", "POST", &[header], 16 * 1024 * 1024));
        assert_eq!(response.status, status, "{header:?}");
    }
}

/// The official client for Python refuses events of more than 1 MiB.
#[test]
fn replies_are_json_because_clients_limit_the_length_of_events() {
    let (_place, client) = started();
    let id = client.session();
    let large = "x".repeat(2 * 1024 * 1024);
    client.ask(&id, &call(1, create("/memories/a.txt", &large)));
    let read = request(2, "resources/read", json!({"uri": "memory:///a.txt"}));
    let headers =
        [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "resources/read"), ("mcp-name", "memory:///a.txt")];
    let modern = modern(3, "resources/read", json!({"uri": "memory:///a.txt"}));
    let replies = [client.post(&[("mcp-session-id", &id)], &read), client.post(&headers, &modern)];
    for reply in replies {
        assert_eq!(reply.header("content-type"), Some("application/json"));
        assert_eq!(reply.message()["result"]["contents"][0]["text"], large);
    }
}

#[test]
fn line_separators_in_replies_are_escaped() {
    let (_place, client) = started();
    let id = client.session();
    client.ask(&id, &call(1, create("/memories/a", "x\u{2028}\u{2029}y")));
    let input = json!({"command": "view", "path": "/memories/a"});
    let view = client.post(&[("mcp-session-id", &id)], &call(2, input));
    assert!(!view.body.contains(['\u{2028}', '\u{2029}']), "{view:?}");
    assert!(text(&view.message()).ends_with("x\u{2028}\u{2029}y"));
}

/// A server that started again knows no session. Some clients send the lost id with their next `initialize`.
#[test]
fn a_client_with_a_lost_session_starts_another_one() {
    let (_place, client) = started();
    let lost = [("mcp-session-id", "00000000-0000-4000-8000-000000000000")];
    let refused = client.post(&lost, &view(1));
    assert!(refused.status == 404 && refused.body.contains("connect again"), "{refused:?}");
    let response = client.post(&lost, &initialize());
    let id = response.header("mcp-session-id").unwrap_or_else(|| panic!("{response:?}"));
    assert_eq!(client.post(&[("mcp-session-id", id)], &view(1)).status, 200);
}

/// A client that starts sessions must not keep others out, nor end their sessions.
#[test]
fn a_new_session_takes_the_place_of_an_unused_one_of_its_token() {
    let (place, client) = started();
    let other = client.server.client(&place.agent("bob").1);
    let used = client.session();
    assert_eq!(client.post(&[("mcp-session-id", &used)], &view(1)).status, 200);
    let of_other = until_admitted(|| other.post(&[], &initialize())).header("mcp-session-id").unwrap().to_owned();
    let unused: Vec<_> = (0..128).map(|_| client.session()).collect();
    let status = |id: &str| client.post(&[("mcp-session-id", id)], &view(2)).status;
    assert_eq!([&used, &unused[0], &unused[1], &unused[127]].map(|id| status(id)), [200, 404, 200, 200]);
    assert_eq!(other.post(&[("mcp-session-id", &of_other)], &request(2, "ping", json!({}))).status, 200);
}

/// Sends a request until the server has read its new token from the file.
fn until_admitted(send: impl Fn() -> Response) -> Response {
    std::iter::repeat_with(send).find(|response| response.status != 401).unwrap()
}

/// Of 128 requests and 128 streams of a token at the same time, all are served.
#[test]
fn streams_of_notifications_keep_no_request_out() {
    let (place, client) = started();
    let sessions: Vec<_> = (0..128).map(|_| client.session()).collect();
    let mut streams: Vec<_> = sessions.iter().map(|session| client.stream(session)).collect();
    let get = [("mcp-session-id", sessions[127].as_str()), ("accept", "text/event-stream")];
    let refused = client.send("GET", &get, b"");
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")), "{refused:?}");
    assert_eq!(client.post(&get[..1], &view(1)).status, 200);
    let other = client.server.client(&place.agent("bob").1);
    until_admitted(|| other.post(&[], &initialize()));
    other.stream(&other.session());
    // The place of a stream is free once the server notices its end.
    streams.pop();
    let open = || {
        let mut start = [0; 12];
        client.connect("/mcp", "GET", &get, 0).read_exact(&mut start).unwrap();
        String::from_utf8(start.into()).unwrap()
    };
    assert_eq!(std::iter::repeat_with(open).find(|start| start != "HTTP/1.1 429").as_deref(), Some("HTTP/1.1 200"));
}

#[test]
fn streams_of_all_tokens_are_limited() {
    let place = Place::new();
    let [alice, bob] = ["alice", "bob"].map(|memory| place.agent(memory).1);
    let server = start_with(&place, place.path("").to_str().unwrap(), |options| options.limits.streams = 1);
    let (alice, bob) = (server.client(&alice), server.client(&bob));
    let (session, _stream) = (bob.session(), alice.stream(&alice.session()));
    let refused = bob.send("GET", &[("mcp-session-id", &session), ("accept", "text/event-stream")], b"");
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")), "{refused:?}");
    assert_eq!(bob.post(&[("mcp-session-id", &session)], &view(1)).status, 200);
}
