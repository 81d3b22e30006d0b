//! A server with MCP, and raw requests of its clients.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use memory_tool::Actor;
use memory_tool_server::{Grant, Right, Server, ServerOptions, TokenEntry, TokenFile};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The time after which a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The store and the tokens of a server that is not started.
pub(crate) struct Place {
    directory: TempDir,
    pub(crate) tokens: TokenFile,
}

impl Place {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tokens = TokenFile::new(directory.path().join("tokens.json"));
        Self { directory, tokens }
    }

    /// A path in the directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The URL of a database, which can be locked.
    pub(crate) fn database(&self) -> String {
        format!("sqlite:{}", self.path("memory.db").display())
    }

    /// Creates a token with the change of its entry. Returns its id, and the token.
    pub(crate) fn token(
        &self,
        grants: &[Grant],
        rights: &[Right],
        change: impl FnOnce(&mut TokenEntry),
    ) -> (String, String) {
        let actor = Actor::from_trusted_name("agent").unwrap();
        let (mut entry, token) = TokenEntry::generate(actor, grants.to_vec(), rights.to_vec()).unwrap();
        change(&mut entry);
        let id = entry.id.clone();
        self.tokens.add(entry).unwrap();
        (id, token)
    }

    /// A token for the tool in a memory, which its first request creates.
    pub(crate) fn agent(&self, memory: &str) -> (String, String) {
        self.token(&[named(memory)], &[Right::Tool], |entry| entry.create = true)
    }
}

pub(crate) fn named(memory: &str) -> Grant {
    Grant::Name(memory.parse().unwrap())
}

/// Starts a server of plain files. Its client has a token for one memory.
pub(crate) fn started() -> (Place, Client) {
    let place = Place::new();
    let (_, token) = place.agent("alice");
    let server = start(&place, place.path("").to_str().unwrap());
    let client = server.client(&token);
    (place, client)
}

pub(crate) fn start(place: &Place, store: &str) -> Running {
    start_with(place, store, |_| ())
}

pub(crate) fn start_with(place: &Place, store: &str, set: impl FnOnce(&mut ServerOptions)) -> Running {
    let mut options = ServerOptions::new(store.parse().unwrap(), place.path("tokens.json"));
    options.listen = "127.0.0.1:0".parse().unwrap();
    set(&mut options);
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(Server::listen(options)).unwrap();
    let address = server.url().strip_prefix("http://").unwrap().to_owned();
    runtime.spawn(server.serve(std::future::pending()));
    Running { address, runtime: std::sync::Arc::new(runtime) }
}

/// A server. It ends with its last client.
#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) address: String,
    #[allow(dead_code, reason = "it runs the server")]
    runtime: std::sync::Arc<Runtime>,
}

impl Running {
    pub(crate) fn client(&self, token: &str) -> Client {
        Client { server: self.clone(), authorization: format!("Bearer {token}") }
    }
}

/// A client with a token.
pub(crate) struct Client {
    pub(crate) server: Running,
    authorization: String,
}

impl Client {
    /// Sends a request to /mcp with the usual headers and these, which replace usual ones of the same name.
    pub(crate) fn send(&self, method: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        self.send_to("/mcp", method, headers, body)
    }

    pub(crate) fn send_to(&self, path: &str, method: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        let mut stream = self.connect(path, method, headers, body.len());
        // The server may refuse the request before it has read the body.
        let _ = stream.write_all(body);
        Response::read(stream)
    }

    /// Sends the head of a request.
    pub(crate) fn connect(&self, path: &str, method: &str, headers: &[(&str, &str)], length: usize) -> TcpStream {
        let length = length.to_string();
        let usual = [
            ("host", self.server.address.as_str()),
            ("authorization", &self.authorization),
            ("accept", "application/json, text/event-stream"),
            ("content-type", "application/json"),
            ("content-length", &length),
            ("connection", "close"),
        ];
        let is_chunked = headers.iter().any(|(name, _)| *name == "transfer-encoding");
        let is_given = |name: &str| headers.iter().any(|(given, _)| *given == name);
        let usual = usual.iter().filter(|(name, _)| !(is_given(name) || is_chunked && *name == "content-length"));
        let lines: String = usual.chain(headers).map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let mut stream = TcpStream::connect(&self.server.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(format!("{method} {path} HTTP/1.1\r\n{lines}\r\n").as_bytes()).unwrap();
        stream
    }

    pub(crate) fn post(&self, headers: &[(&str, &str)], message: &Value) -> Response {
        self.send("POST", headers, message.to_string().as_bytes())
    }

    /// Starts a session, and returns its id.
    pub(crate) fn session(&self) -> String {
        let response = self.post(&[], &initialize());
        assert_eq!(response.status, 200, "{response:?}");
        assert_eq!(response.message()["result"]["serverInfo"]["name"], "memory-tool");
        let id = response.header("mcp-session-id").unwrap().to_owned();
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.post(&[("mcp-session-id", &id)], &initialized).status, 202);
        id
    }

    /// Sends a request in a session.
    pub(crate) fn ask(&self, session: &str, message: &Value) -> Value {
        self.post(&[("mcp-session-id", session)], message).message()
    }

    /// Opens a stream of notifications, and waits for its start.
    pub(crate) fn stream(&self, session: &str) -> TcpStream {
        let mut stream = self.connect("/mcp", "GET", &[("mcp-session-id", session)], 0);
        let mut start = [0; 12];
        stream.read_exact(&mut start).unwrap();
        assert_eq!(&start, b"HTTP/1.1 200");
        stream
    }
}

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn read(mut stream: TcpStream) -> Self {
        let mut response = Vec::new();
        // The server closes a connection whose body it has not read.
        let _ = stream.read_to_end(&mut response);
        Self::parse(&response)
    }

    fn parse(response: &[u8]) -> Self {
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

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// The message in a body of JSON, or the last one in a stream of events.
    pub(crate) fn message(&self) -> Value {
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

pub(crate) fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// A request of a client of the revision 2026-07-28, which has no session.
pub(crate) fn modern(id: u64, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    request(id, method, params)
}

/// The first request of a client of a revision before 2026-07-28.
pub(crate) fn initialize() -> Value {
    let client = json!({"name": "test", "version": "1"});
    request(0, "initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}))
}

pub(crate) fn call(id: u64, input: Value) -> Value {
    request(id, "tools/call", json!({"name": "memory", "arguments": input}))
}

pub(crate) fn create(path: &str, text: &str) -> Value {
    json!({"command": "create", "path": path, "file_text": text})
}

pub(crate) fn view(id: u64) -> Value {
    call(id, json!({"command": "view", "path": "/memories"}))
}

pub(crate) fn text(response: &Value) -> &str {
    response["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {response}"))
}
