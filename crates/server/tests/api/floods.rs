//! Floods of requests by one tenant.

use std::time::Duration;

use memory_tool::Memory;
use memory_tool_server::{Grant, Right};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::page::Browser;
use crate::server::{Server, places};

const MIB: usize = 1024 * 1024;
const TOOL: &str = "/v1/memory_stores/alice/tool";

/// A server with the memory `alice`, and a token of another tenant.
async fn start() -> (tempfile::TempDir, Server, String) {
    let (directory, [place, _]) = places();
    let server = Server::start(&place).await;
    let tokens = ["alice", "bob"].map(|name| (Grant::Name(name.parse().unwrap()), &Right::ALL[..], true, None));
    let [alice, bob] = server.with_tokens(tokens).await;
    for (header, name) in [(&alice, "alice"), (&bob, "bob")] {
        let call = json!({"command": "create", "path": "/memories/a", "file_text": "one"});
        let path = format!("/v1/memory_stores/{name}/tool");
        assert_eq!(server.send("POST", &path, Some(call), &[header]).await.0, 200);
    }
    (directory, server, bob)
}

fn view(id: usize, path: &str) -> Value {
    let input = json!({"command": "view", "path": path});
    json!({"type": "tool_use", "id": format!("toolu_{id}"), "name": "memory", "input": input})
}

impl Server {
    /// The head of a request for `alice` with a token.
    fn tool(&self, header: &str, length: usize) -> String {
        format!("POST {TOOL} HTTP/1.1\r\nhost: localhost\r\n{header}\r\ncontent-length: {length}\r\n\r\n")
    }

    async fn begin(&self, start: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        let _ = stream.write_all(start.as_bytes()).await; // fails if the server refuses it
        stream
    }

    async fn serves(&self, header: &str, padding: usize) -> u16 {
        let call = json!({"command": "view", "path": "/memories", "padding": " ".repeat(padding)});
        self.send("POST", "/v1/memory_stores/bob/tool", Some(call), &[header]).await.0
    }
}

#[tokio::test]
async fn many_values_are_refused_before_they_are_parsed() {
    let (_directory, server, _) = start().await;
    let many = vec![json!({"": 0}); 10_000];
    let call = json!({"command": "view", "path": "/memories", "x": many});
    let response = json!({"content": [view(1, "/memories")], "x": many});
    let create = json!({"path": "/b", "content": "x", "x": many});
    let store = json!({"metadata": (0..20_000).map(|n| (n.to_string(), json!(""))).collect::<serde_json::Map<_, _>>()});
    let broken = format!("{}, \"", call.to_string().trim_end_matches('}'));
    for (path, body) in [
        (TOOL, call.to_string()),
        (TOOL, response.to_string()),
        (TOOL, broken),
        ("/v1/memory_stores/alice/memories", create.to_string()),
        ("/v1/memory_stores/alice", store.to_string()),
    ] {
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-api-key: {}", server.token);
        let reply = server.raw(format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())).await;
        assert!(reply.starts_with("HTTP/1.1 400") && reply.contains("10000 JSON values"), "{path}: {reply}");
    }
    let browser = Browser::sign_in(&server, &server.token).await;
    let fields: Vec<_> = (0..20_000).map(|number| (number.to_string(), String::new())).collect();
    let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let refused = browser.submit("/sign-out", &fields).await;
    assert!(refused.status == 400 && refused.text.contains("fields"), "{}", refused.text);
}

#[tokio::test]
async fn one_request_runs_a_bounded_number_of_calls() {
    let (_directory, server, _) = start().await;
    let calls: Vec<_> = (0..150).map(|id| view(id, "/memories/a")).collect();
    let reply = server.post(TOOL, json!({"content": calls})).await;
    let results = reply["content"].as_array().unwrap();
    assert_eq!(results.len(), 150, "each call needs a result");
    let ran = results.iter().take_while(|result| result.get("is_error").is_none()).count();
    assert_eq!(ran, 100);
    let refused = results[149]["content"].as_str().unwrap();
    assert!(refused.contains("100 calls") && results[149]["tool_use_id"] == "toolu_149", "{refused}");
}

/// A PNG of some bytes: pixels that cannot be compressed.
fn png(bytes: usize) -> Vec<u8> {
    let mut content = Vec::new();
    let side = (bytes as f64).sqrt() as u32;
    let mut writer = png::Encoder::new(&mut content, side, side).write_header().unwrap();
    let mut state = 1_u32;
    let pixels = (0..side * side).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    });
    writer.write_image_data(&pixels.collect::<Vec<_>>()).unwrap();
    writer.finish().unwrap();
    content
}

/// A picture of 3 MB in the memory `alice`.
async fn add_picture(directory: &tempfile::TempDir) {
    let place = directory.path().join("disk/alice");
    let memory = Memory::builder(place.to_str().unwrap()).history().build().await.unwrap();
    memory.write("/memories/a.png", png(3_000_000)).await.unwrap();
}

#[tokio::test]
async fn the_answer_of_one_request_is_bounded() {
    let (directory, server, _) = start().await;
    add_picture(&directory).await;
    let calls: Vec<_> = (0..100).map(|id| view(id, "/memories/a.png")).collect();
    let reply = server.post(TOOL, json!({"content": calls})).await;
    let results = reply["content"].as_array().unwrap();
    let images = results.iter().filter(|result| result["content"][0]["type"] == "image").count();
    assert!((2..=8).contains(&images) && results.len() == 100, "{images} images");
    assert!(reply.to_string().len() < 17 * MIB, "{}", reply.to_string().len());
    assert!(results[99]["content"].as_str().unwrap().contains("16 MiB"), "{}", results[99]);
}

#[tokio::test]
async fn responses_that_nobody_reads_are_bounded() {
    const UNREAD: usize = 40;
    let (directory, server, bob) = start().await;
    let memory =
        Memory::builder(directory.path().join("disk/alice").to_str().unwrap()).history().build().await.unwrap();
    memory.write("/memories/large", "x".repeat(12 * MIB)).await.unwrap();
    let browser = Browser::sign_in(&server, &server.token).await;
    let request = format!(
        "GET /memory/alice/raw?path=%2Fmemories%2Flarge HTTP/1.1\r\nhost: localhost\r\ncookie: {}\r\n\r\n",
        browser.cookie
    );
    let (mut unread, mut large) = (Vec::new(), 0);
    for _ in 0..UNREAD {
        // Otherwise, the system takes megabytes before the client reads.
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4_096).unwrap();
        let mut stream = socket.connect(server.address.parse().unwrap()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut start = [0; 1_000];
        let length = timeout(Duration::from_secs(60), stream.read(&mut start)).await.unwrap().unwrap();
        let start = String::from_utf8_lossy(&start[..length]).into_owned();
        large += usize::from(start.starts_with("HTTP/1.1 200 "));
        assert!(large > 0 && (start.starts_with("HTTP/1.1 200 ") || start.starts_with("HTTP/1.1 429 ")), "{start}");
        unread.push(stream);
    }
    assert!(large <= 8, "{large} large responses are in memory");
    assert_eq!(server.serves(&bob, 0).await, 200);
    drop(unread);
    let served = async { while browser.get("/memory/alice/raw?path=%2Fmemories%2Flarge").await.status != 200 {} };
    timeout(Duration::from_secs(60), served).await.unwrap();
}

#[tokio::test]
async fn slow_bodies_of_one_tenant_do_not_shut_out_others() {
    let (_directory, server, bob) = start().await;
    let alice = (Grant::Name("alice".parse().unwrap()), &Right::ALL[..], false, None);
    let tokens = server.with_tokens([alice.clone(), alice]).await;
    let mut slow = Vec::new();
    for number in 0..300 {
        slow.push(server.begin(&format!("{}{{", server.tool(&tokens[number % 2], 100))).await);
    }
    assert_eq!(server.serves(&bob, 0).await, 200);
    drop(slow);
    // Large bodies without their last byte.
    let mut large = Vec::new();
    for number in 0..9 {
        let start = format!("{}{}", server.tool(&tokens[number % 2], 16 * MIB), " ".repeat(16 * MIB - 1));
        large.push(timeout(Duration::from_secs(5), server.begin(&start)).await);
    }
    assert_eq!(server.serves(&bob, MIB).await, 200);
}
