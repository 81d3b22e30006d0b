//! A server of the API on a socket, and a plain client.

use std::time::Duration;

use memory_tool::Actor;
use memory_tool_server::{Grant, Right, ServerOptions, TokenEntry, TokenFile};
use memory_tool_test_fixtures::session::PATIENCE;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A directory, with the URLs of stores on local disk and in SQLite.
pub(crate) fn places() -> (tempfile::TempDir, [String; 2]) {
    let directory = tempfile::tempdir().unwrap();
    let disk = directory.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let database = directory.path().join("memory.db");
    let places = [disk.display().to_string(), format!("sqlite:{}", database.display())];
    (directory, places)
}

pub(crate) struct Server {
    pub(crate) address: String,
    pub(crate) token: String,
    tokens: TokenFile,
    directory: tempfile::TempDir,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(crate) async fn start(place: &str) -> Self {
        Self::start_with(place, |_| ()).await
    }

    pub(crate) async fn start_with(place: &str, set: impl FnOnce(&mut ServerOptions)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tokens = TokenFile::new(directory.path().join("tokens"));
        let token = add_token(&tokens, Grant::All, &Right::ALL, false, None);
        let mut options = ServerOptions::new(place.parse().unwrap(), directory.path().join("tokens"));
        options.listen = "127.0.0.1:0".parse().unwrap();
        set(&mut options);
        let server = memory_tool_server::Server::listen_with_metrics(options, || "metrics".to_owned()).await.unwrap();
        let url = server.url();
        let address = url.split_once("://").map_or(url.as_str(), |(_, address)| address).to_owned();
        let task = tokio::spawn(server.serve(std::future::pending()));
        Self { address, token, tokens, directory, task }
    }

    /// Gives another server the token of this one, and returns it.
    #[allow(dead_code, reason = "only the tests in a browser use it")]
    pub(crate) async fn share_token(&self, other: &Self) -> String {
        for entry in self.tokens.entries().unwrap() {
            other.tokens.add(entry).unwrap();
        }
        tokio::time::sleep(Duration::from_millis(1_500)).await; // it reads the file again every 500 ms
        self.token.clone()
    }

    /// The path of the file of the tokens.
    #[allow(dead_code, reason = "the tests in a browser do not use it")]
    pub(crate) fn token_file(&self) -> std::path::PathBuf {
        self.directory.path().join("tokens")
    }

    /// Ends the server, and starts another one at its address, with its tokens.
    pub(crate) async fn restart(&mut self, place: &str) {
        self.task.abort();
        let tokens = self.directory.path().join("tokens");
        let mut options = ServerOptions::new(place.parse().unwrap(), tokens);
        options.listen = self.address.parse().unwrap();
        let server = loop {
            match memory_tool_server::Server::listen(options.clone()).await {
                Ok(server) => break server,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        self.task = tokio::spawn(server.serve(std::future::pending()));
    }

    /// The header of a new token, once the server has read it from its file.
    pub(crate) async fn with_token(&self, grant: Grant, rights: &[Right], creates: bool) -> String {
        let [header] = self.with_tokens([(grant, rights, creates, None)]).await;
        header
    }

    /// The headers of new tokens that end at a time, once the server has read them from its file.
    pub(crate) async fn with_tokens<const N: usize>(&self, new: [NewToken<'_>; N]) -> [String; N] {
        let add = |(grant, rights, creates, end)| add_token(&self.tokens, grant, rights, creates, end);
        let headers = new.map(|new| format!("x-api-key: {}", add(new)));
        let last = format!("x-api-key: {}", add((Grant::All, &Right::ALL, false, None)));
        self.wait_for(&last, |status| status != 401).await;
        headers
    }

    /// The header of a new token of an actor for one memory with mounts, once the server has read it from its file.
    #[allow(dead_code, reason = "the tests in a browser do not use it")]
    pub(crate) async fn with_member(&self, actor: &str, memory: &str, rights: &[Right], mounts: &[&str]) -> String {
        let header = self.add_member(actor, memory, rights, mounts);
        self.wait_for(&header, |status| status != 401).await;
        header
    }

    /// The header of a new token, which the server does not know yet.
    #[allow(dead_code, reason = "the tests in a browser do not use it")]
    pub(crate) fn add_member(&self, actor: &str, memory: &str, rights: &[Right], mounts: &[&str]) -> String {
        let actor = Actor::from_trusted_name(actor).unwrap();
        let grants = vec![Grant::Name(memory.parse().unwrap())];
        let (mut entry, token) = TokenEntry::generate(actor, grants, rights.to_vec()).unwrap();
        entry.mounts = mounts.iter().map(|mount| mount.parse().unwrap()).collect();
        self.tokens.add(entry).unwrap();
        format!("x-api-key: {token}")
    }

    /// The reply to a call of a tool of MCP.
    #[cfg(feature = "mcp")]
    #[allow(dead_code, reason = "the tests in a browser do not use it")]
    pub(crate) async fn mcp(&self, token: &str, tool: &str, arguments: Value) -> (u16, Value) {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let name = format!("mcp-name: {tool}");
        let headers = [
            token,
            "content-type: application/json",
            "accept: application/json, text/event-stream",
            "mcp-protocol-version: 2026-07-28",
            "mcp-method: tools/call",
            &name,
        ];
        self.send("POST", "/mcp", Some(request), &headers).await
    }

    /// Revokes the token in a header.
    pub(crate) async fn revoke(&self, header: &str) {
        let entries = self.tokens.entries().unwrap();
        let hash = sha256(header.strip_prefix("x-api-key: ").unwrap());
        let is_it = |entry: &&TokenEntry| serde_json::to_value(entry).unwrap()["hash"] == hash;
        assert!(self.tokens.revoke(&entries.iter().find(is_it).unwrap().id).unwrap());
        self.wait_for(header, |status| status == 401).await;
    }

    async fn wait_for(&self, header: &str, is_done: impl Fn(u16) -> bool) {
        timeout(PATIENCE, async {
            while !is_done(self.send("GET", "/v1/memory_stores", None, &[header]).await.0) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await
        .unwrap();
    }

    /// Sends bytes, and returns what arrives until the server closes the connection.
    pub(crate) async fn raw(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        stream.write_all(bytes.as_ref()).await.unwrap();
        rest(stream).await
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: Option<Value>, headers: &[&str]) -> (u16, Value) {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let (length, address) = (body.len(), &self.address);
        let key = if headers.contains("x-api-key") { String::new() } else { format!("x-api-key: {}\r\n", self.token) };
        let head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{key}");
        let request = format!("{head}{headers}content-length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        if status == 409 {
            assert!(head.contains("x-should-retry: false"), "{head}");
        }
        (status, serde_json::from_str(body).unwrap_or_else(|_| panic!("{response}")))
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let (status, body) = self.send("GET", path, None, &[]).await;
        assert_eq!(status, 200, "{body}");
        body
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Value {
        let (status, body) = self.send("POST", path, Some(body), &[]).await;
        assert_eq!(status, 200, "{body}");
        body
    }

    /// The status and the type of an error.
    pub(crate) async fn refused(&self, method: &str, path: &str, body: Option<Value>) -> (u16, String) {
        let (status, body) = self.send(method, path, body, &[]).await;
        assert!(status >= 400, "{body}");
        (status, body["error"]["type"].as_str().unwrap_or_default().to_owned())
    }
}

/// Reads until the server closes the connection, or has responded to the last request. It may wait for the rest of the
/// body, and reset the connection if it did not read all of it.
pub(crate) async fn rest(mut stream: TcpStream) -> String {
    let mut response = Vec::new();
    timeout(PATIENCE, async {
        while !is_last(&response) && matches!(stream.read_buf(&mut response).await, Ok(1..)) {}
    })
    .await
    .unwrap();
    String::from_utf8(response).unwrap()
}

/// Whether these bytes are complete responses, and the last one closes the connection.
fn is_last(mut bytes: &[u8]) -> bool {
    let find = |bytes: &[u8]| bytes.windows(4).position(|part| part == b"\r\n\r\n");
    while let Some(end) = find(bytes) {
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        let Some(rest) = length.and_then(|length| bytes.get(end + 4 + length..)) else { return false };
        if rest.is_empty() {
            return head.contains("connection: close");
        }
        bytes = rest;
    }
    false
}

pub(crate) fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The memories and rights of a token, whether it creates memories, and its end in seconds since 1970.
pub(crate) type NewToken<'a> = (Grant, &'a [Right], bool, Option<u64>);

fn add_token(tokens: &TokenFile, grant: Grant, rights: &[Right], creates: bool, end: Option<u64>) -> String {
    let actor = Actor::from_trusted_name("key").unwrap();
    let (mut entry, token) = TokenEntry::generate(actor, vec![grant], rights.to_vec()).unwrap();
    (entry.create, entry.expires) = (creates, end);
    tokens.add(entry).unwrap();
    token
}
