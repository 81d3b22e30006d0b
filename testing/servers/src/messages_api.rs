//! [`MessagesApi`]: a server that sends scripted responses of the Messages API.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{self, BufRead as _, BufReader, Read as _, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// The timeout for requests. It is long enough for slow machines.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A received request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Request {
    /// The first line: method, target, version.
    pub line: String,
    headers: Vec<(String, String)>,
    /// The JSON body.
    pub body: Value,
}

impl Request {
    /// Returns the value of a header. `name` is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// Returns the messages.
    ///
    /// # Panics
    /// If the body has no messages.
    pub fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().unwrap()
    }

    /// Returns the blocks of the last message.
    ///
    /// # Panics
    /// If there are no messages.
    pub fn last(&self) -> &[Value] {
        blocks(self.messages().last().unwrap())
    }
}

/// A scripted response.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Answer {
    /// A complete response.
    Whole {
        /// Its status.
        status: u16,
        /// Additional headers.
        headers: Vec<(&'static str, String)>,
        /// Its body.
        body: String,
    },
    /// A streamed response.
    Stream {
        /// Its events.
        events: Vec<Value>,
        /// The size of its chunks in bytes.
        chunk: usize,
        /// How it ends.
        end: End,
    },
}

/// How a stream ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum End {
    /// Regularly.
    Regular,
    /// The server closes the connection early.
    Cut,
    /// The server sends no more data until the client disconnects.
    Silence,
}

impl Answer {
    /// Returns a complete streamed response.
    pub fn stream(stop_reason: &str, content: &[Value]) -> Self {
        Self::Stream { events: events(stop_reason, content), chunk: usize::MAX, end: End::Regular }
    }

    /// Returns a complete response in one body.
    pub fn message(stop_reason: &str, content: &[Value]) -> Self {
        let body = json!({
            "type": "message", "role": "assistant", "content": content, "stop_reason": stop_reason, "usage": usage(7),
        });
        Self::Whole { status: 200, headers: Vec::new(), body: body.to_string() }
    }

    /// Returns an error of the API.
    pub fn error(status: u16, kind: &str, message: &str) -> Self {
        let body = json!({"type": "error", "error": {"type": kind, "message": message}});
        Self::Whole { status, headers: Vec::new(), body: body.to_string() }
    }

    /// Adds a header to a complete response.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: &str) -> Self {
        if let Self::Whole { headers, .. } = &mut self {
            headers.push((name, value.to_owned()));
        }
        self
    }

    /// Sets the chunk size of a stream, in bytes.
    #[must_use]
    pub fn in_chunks(mut self, bytes: usize) -> Self {
        if let Self::Stream { chunk, .. } = &mut self {
            *chunk = bytes;
        }
        self
    }

    /// Ends a stream before the first event that contains `text`.
    ///
    /// # Panics
    /// If no event contains `text`.
    #[must_use]
    pub fn until(mut self, text: &str, how: End) -> Self {
        if let Self::Stream { events, end, .. } = &mut self {
            let at =
                events.iter().position(|event| event.to_string().contains(text)).expect("an event contains the text");
            events.truncate(at);
            *end = how;
        }
        self
    }

    /// Removes the last delta of a stream.
    ///
    /// # Panics
    /// If the stream has no delta.
    #[must_use]
    pub fn without_last_delta(mut self) -> Self {
        if let Self::Stream { events, .. } = &mut self {
            let at = events
                .iter()
                .rposition(|event| event["type"] == "content_block_delta")
                .expect("the stream has a delta");
            events.remove(at);
        }
        self
    }

    /// Appends an event to a stream.
    #[must_use]
    pub fn and(mut self, event: Value) -> Self {
        if let Self::Stream { events, .. } = &mut self {
            events.push(event);
        }
        self
    }
}

/// Returns a `text` block.
pub fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Returns a `tool_use` block of the memory tool.
pub fn call(id: &str, input: Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": "memory", "input": input})
}

fn usage(output_tokens: u64) -> Value {
    json!({
        "input_tokens": 10, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 30,
        "output_tokens": output_tokens,
    })
}

/// Returns the events of a response. Each text and input has two deltas, and there is a `ping` and an unknown event.
fn events(stop_reason: &str, content: &[Value]) -> Vec<Value> {
    let message = json!({"type": "message", "role": "assistant", "content": [], "usage": usage(1)});
    let mut events = vec![json!({"type": "message_start", "message": message}), json!({"type": "ping"})];
    for (index, block) in content.iter().enumerate() {
        let (start, deltas) = parts(block);
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        events.push(json!({"type": "novelty"}));
        let delta = |delta| json!({"type": "content_block_delta", "index": index, "delta": delta});
        events.extend(deltas.into_iter().map(delta));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    let delta = json!({"stop_reason": stop_reason, "stop_sequence": null});
    events.push(json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}}));
    events.push(json!({"type": "message_stop"}));
    events
}

/// Splits a block into its start and its deltas.
fn parts(block: &Value) -> (Value, Vec<Value>) {
    let mut start = block.clone();
    let halves = |text: &str| {
        let middle = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
        [text[..middle].to_owned(), text[middle..].to_owned()]
    };
    match block["type"].as_str().unwrap() {
        "text" => {
            start["text"] = json!("");
            let deltas =
                halves(block["text"].as_str().unwrap()).map(|text| json!({"type": "text_delta", "text": text}));
            (start, deltas.into())
        }
        "tool_use" => {
            start["input"] = json!({});
            let parts = halves(&block["input"].to_string());
            let deltas = parts.map(|part| json!({"type": "input_json_delta", "partial_json": part}));
            (start, deltas.into())
        }
        "thinking" => {
            (start["thinking"], start["signature"]) = (json!(""), json!(""));
            let thinking = json!({"type": "thinking_delta", "thinking": block["thinking"]});
            (start, vec![thinking, json!({"type": "signature_delta", "signature": block["signature"]})])
        }
        _ => (start, Vec::new()),
    }
}

/// A server that sends the next scripted response to each request. It panics on errors.
#[derive(Debug)]
pub struct MessagesApi {
    url: String,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    requests: Mutex<Vec<Request>>,
    received: Condvar,
    script: Vec<Answer>,
}

impl MessagesApi {
    /// Starts the server on a free port of the loopback address.
    ///
    /// # Panics
    /// If no port is free.
    pub fn start(script: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(State { script: script.into_iter().collect(), ..State::default() });
        let served = Arc::clone(&state);
        thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let state = Arc::clone(&served);
                // Some tests disconnect early.
                thread::spawn(move || drop(serve(&state, &connection)));
            }
        });
        Self { url, state }
    }

    /// The URL of the server: `http://127.0.0.1:port`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Waits until the server has received `number` requests.
    ///
    /// # Panics
    /// After a timeout.
    pub fn wait_for(&self, number: usize) {
        let requests = self.state.requests.lock().unwrap();
        let waited =
            self.state.received.wait_timeout_while(requests, TIMEOUT, |requests| requests.len() < number).unwrap();
        assert!(!waited.1.timed_out(), "timed out waiting for requests");
    }

    /// Returns the received requests.
    ///
    /// # Panics
    /// If a request is invalid, or their number differs from the length of the script.
    pub fn finish(self) -> Vec<Request> {
        let requests = self.state.requests.lock().unwrap().clone();
        assert_eq!(requests.len(), self.state.script.len(), "{requests:?}");
        for request in &requests {
            assert_valid(request);
        }
        requests
    }
}

/// Serves the only request of a connection.
fn serve(state: &State, mut connection: &TcpStream) -> io::Result<()> {
    let request = read_request(connection)?;
    let answer = {
        let mut requests = state.requests.lock().unwrap();
        requests.push(request);
        state.received.notify_all();
        state.script.get(requests.len() - 1).cloned()
    };
    match answer.unwrap_or_else(|| Answer::error(400, "script_error", "the script has no response to this request")) {
        Answer::Whole { status, headers, body } => {
            let mut head = format!("HTTP/1.1 {status} .\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
            for (name, value) in headers {
                head += &format!("{name}: {value}\r\n");
            }
            write!(connection, "{head}content-type: application/json\r\n\r\n{body}")
        }
        Answer::Stream { events, chunk, end } => {
            connection.set_nodelay(true)?;
            let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n";
            write!(connection, "{head}content-type: text/event-stream; charset=utf-8\r\n\r\n")?;
            let name = |event: &Value| event["type"].as_str().unwrap().to_owned();
            let text: String =
                events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", name(event))).collect();
            for chunk in text.as_bytes().chunks(chunk) {
                let framed = [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat();
                connection.write_all(&framed)?;
            }
            match end {
                End::Regular => connection.write_all(b"0\r\n\r\n"),
                End::Cut => Ok(()),
                End::Silence => connection.read(&mut [0]).map(drop), // ends when the client closes
            }
        }
    }
}

fn read_request(connection: &TcpStream) -> io::Result<Request> {
    let mut reader = BufReader::new(connection);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    if lines.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let line = lines.remove(0);
    let headers: Vec<_> = lines.iter().filter_map(|line| line.split_once(": ")).collect();
    let headers: Vec<_> =
        headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), (*value).to_owned())).collect();
    let length = headers.iter().find(|(name, _)| name == "content-length").and_then(|(_, value)| value.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    Ok(Request { line, headers, body: serde_json::from_slice(&body)? })
}

/// Returns the blocks of a message. A plain string has no blocks.
fn blocks(message: &Value) -> &[Value] {
    if message["content"].is_string() { &[] } else { message["content"].as_array().unwrap() }
}

fn assert_valid(request: &Request) {
    // The beta methods of the SDKs send the second form.
    let expected = ["POST /v1/messages HTTP/1.1", "POST /v1/messages?beta=true HTTP/1.1"];
    assert!(expected.contains(&request.line.as_str()), "{}", request.line);
    let version = request.header("anthropic-version");
    // This project's version, and the version of the Python SDK.
    assert!(matches!(version, Some("2023-06-01" | "2026-10-21")), "{version:?}");
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert!(request.body.to_string().matches("cache_control").count() <= 4, "{}", request.body);
    let messages = request.messages();
    let mut called: Vec<&Value> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let role = if index % 2 == 0 { "user" } else { "assistant" };
        assert_eq!(message["role"], role, "{messages:?}");
        let blocks = blocks(message);
        let is_text = message["content"].as_str().is_some_and(|text| !text.is_empty());
        assert!(is_text || !blocks.is_empty() && blocks.iter().all(|block| block["text"] != ""), "{messages:?}");
        let results: Vec<_> = blocks.iter().filter(|block| block["type"] == "tool_result").collect();
        let ids: Vec<_> = results.iter().map(|result| &result["tool_use_id"]).collect();
        assert_eq!(ids, called, "calls without a result in the next message: {messages:?}");
        assert!(blocks[..results.len()].iter().all(|block| block["type"] == "tool_result"), "results must come first");
        called = blocks.iter().filter(|block| block["type"] == "tool_use").map(|block| &block["id"]).collect();
    }
    assert!(called.is_empty(), "the last calls have no results: {messages:?}");
}
