//! Sends arbitrary requests to the server, by the tenant `alice` or without a valid token.
//!
//! The first byte of the input selects the token, and whether the rest is a request in lines or the bytes of a
//! connection. `$KEY`, `$MINE` and `$OTHER` are replaced by the token and the ids of a file of `alice` and of `bob`.
#![no_main]

use std::cell::OnceCell;

use libfuzzer_sys::fuzz_target;
use memory_tool::{Actor, StoreUrl};
use memory_tool_server::fuzzing::Connections;
use memory_tool_server::{Grant, Right, ServerOptions, TokenEntry, TokenFile};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;

/// The content of the file of `bob`.
const SECRET: &str = "Prefers the secret tea.";

const INTERNAL_ERROR: &str = "HTTP/1.1 500 Internal Server Error\r\n";

struct Server {
    runtime: Runtime,
    connections: Connections,
    key: String,
    /// The ids of a file of each tenant.
    ids: [String; 2],
    _directory: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        let in_ram = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let directory = in_ram.expect("a temporary directory");
        let tokens = directory.path().join("tokens");
        let actor = Actor::from_trusted_name("alice").expect("a valid name");
        let mut keys = Vec::new();
        let alice = Grant::Name("alice".parse().expect("a valid name"));
        for grant in [alice, Grant::All] {
            let (mut entry, key) =
                TokenEntry::generate(actor.clone(), vec![grant], Right::ALL.to_vec()).expect("a token");
            entry.create = true;
            TokenFile::new(&tokens).add(entry).expect("a file of tokens");
            keys.push(key);
        }
        let place: StoreUrl = format!("sqlite:{}", directory.path().join("db").display()).parse().expect("a store");
        let connections = Connections::new(&ServerOptions::new(place, &tokens)).expect("a server");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let [admin, key] = [keys.remove(1), keys.remove(0)];
        let mut server = Self { runtime, connections, key, ids: Default::default(), _directory: directory };
        for (number, (name, content)) in [("alice", "x"), ("bob", SECRET)].into_iter().enumerate() {
            let store = format!("/v1/memory_stores/{name}");
            let call = format!(r#"{{"command": "create", "path": "/memories/a", "file_text": "{content}"}}"#);
            server.request(&admin, &format!("POST {store}/tool"), "", &call);
            let listed = server.request(&admin, &format!("GET {store}/memories"), "", "").expect("a list");
            server.ids[number] = listed["data"][0]["id"].as_str().expect("an id").to_owned();
        }
        server
    }

    /// The responses to the bytes of a connection.
    fn answer(&self, bytes: &[u8]) -> Vec<u8> {
        self.runtime.block_on(async {
            let (mut client, server) = tokio::io::duplex(1 << 20);
            let mut responses = Vec::new();
            let serve = self.connections.serve(server);
            let send = async {
                // Both fail if the server ends the connection.
                let _ = client.write_all(bytes).await;
                let _ = client.shutdown().await;
                let _ = client.read_to_end(&mut responses).await;
            };
            tokio::join!(serve, send);
            responses
        })
    }

    /// The body of the response, in the documented form. `None` if the request is malformed.
    fn request(&self, key: &str, start: &str, headers: &str, body: &str) -> Option<Value> {
        let head = format!("{start} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\nconnection: close\r\n{headers}");
        let response = self.answer(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes());
        let response = String::from_utf8(response).expect("a response of text");
        assert!(!response.starts_with("HTTP/1.1 5"), "{response}");
        let (head, body) = response.split_once("\r\n\r\n")?;
        let id = head.lines().find_map(|line| line.strip_prefix("request-id: "))?; // absent if malformed
        if body.is_empty() || body == "ok\n" {
            return None;
        }
        let body: Value = serde_json::from_str(body).expect("a response of JSON");
        let status = head.split(' ').nth(1).expect("a status");
        assert_eq!(body["type"] == "error", status != "200", "{response}");
        if body["type"] == "error" {
            assert!(body["error"]["type"].is_string() && body["error"]["message"].is_string(), "{response}");
            assert_eq!(body["request_id"], id);
        }
        Some(body)
    }
}

thread_local! {
    static SERVER: OnceCell<Server> = const { OnceCell::new() };
}

fuzz_target!(|sent: &[u8]| {
    let Some((mode, input)) = sent.split_first() else { return };
    SERVER.with(|server| {
        let server = server.get_or_init(Server::start);
        let (is_valid, is_raw) = (mode & 1 == 0, mode & 2 != 0);
        let key = if is_valid { &server.key } else { "memtok_invalid" };
        let input = String::from_utf8_lossy(input).replace("$KEY", key);
        let input = input.replace("$MINE", &server.ids[0]).replace("$OTHER", &server.ids[1]);
        if is_raw {
            let responses = String::from_utf8_lossy(&server.answer(input.as_bytes())).into_owned();
            assert!(!responses.contains(SECRET) && !responses.contains(INTERNAL_ERROR), "{responses}");
            return;
        }
        let (head, body) = input.split_once("\n\n").unwrap_or((&input, ""));
        let (start, headers) = head.split_once('\n').unwrap_or((head, ""));
        let headers: String = headers.lines().map(|line| format!("{line}\r\n")).collect();
        if let Some(reply) = server.request(key, start, &headers, body) {
            assert!(!reply.to_string().contains(SECRET), "{reply}");
            assert!(is_valid || reply["type"] == "error", "{reply}");
        }
    });
});
