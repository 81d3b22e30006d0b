//! [`MessagesApi`]: a server that speaks the Messages API over a real socket, by a script.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{self, BufRead as _, BufReader, Read as _, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// No request takes this long to come, on a slow machine either: whoever waits longer waits in vain.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request as the server saw it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Request {
    /// The first line: method, target, version.
    pub line: String,
    headers: Vec<(String, String)>,
    /// The body, which is JSON.
    pub body: Value,
}

impl Request {
    /// The value of a header, by its name in small letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// The messages.
    ///
    /// # Panics
    /// Where the body has none.
    pub fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().unwrap()
    }

    /// The blocks of the last message.
    ///
    /// # Panics
    /// Where there is none.
    pub fn last(&self) -> &[Value] {
        blocks(self.messages().last().unwrap())
    }
}

/// What the server answers a request with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Answer {
    /// A response at once.
    Whole {
        /// Its status.
        status: u16,
        /// Its headers, beside those that every response has.
        headers: Vec<(&'static str, String)>,
        /// Its body.
        body: String,
    },
    /// A response as a stream.
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
    /// As HTTP has it.
    Regular,
    /// The connection is closed in the middle.
    Cut,
    /// Nothing comes any more, until the client goes away.
    Silence,
}

impl Answer {
    /// A response that is streamed whole.
    pub fn stream(stop_reason: &str, content: &[Value]) -> Self {
        Self::Stream { events: events(stop_reason, content), chunk: usize::MAX, end: End::Regular }
    }

    /// The same as one body.
    pub fn message(stop_reason: &str, content: &[Value]) -> Self {
        let body = json!({
            "type": "message", "role": "assistant", "content": content, "stop_reason": stop_reason, "usage": usage(7),
        });
        Self::Whole { status: 200, headers: Vec::new(), body: body.to_string() }
    }

    /// An error of the API.
    pub fn error(status: u16, kind: &str, message: &str) -> Self {
        let body = json!({"type": "error", "error": {"type": kind, "message": message}});
        Self::Whole { status, headers: Vec::new(), body: body.to_string() }
    }

    /// Adds a header to a response that comes at once.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: &str) -> Self {
        if let Self::Whole { headers, .. } = &mut self {
            headers.push((name, value.to_owned()));
        }
        self
    }

    /// Streams in chunks of so many bytes.
    #[must_use]
    pub fn in_chunks(mut self, bytes: usize) -> Self {
        if let Self::Stream { chunk, .. } = &mut self {
            *chunk = bytes;
        }
        self
    }

    /// Streams up to the first event that holds the text, without it, and then ends so.
    ///
    /// # Panics
    /// Where no event holds it.
    #[must_use]
    pub fn until(mut self, text: &str, how: End) -> Self {
        if let Self::Stream { events, end, .. } = &mut self {
            let at = events.iter().position(|event| event.to_string().contains(text)).expect("an event holds the text");
            events.truncate(at);
            *end = how;
        }
        self
    }

    /// Streams the last block without its last delta.
    ///
    /// # Panics
    /// Where there is no delta.
    #[must_use]
    pub fn without_last_delta(mut self) -> Self {
        if let Self::Stream { events, .. } = &mut self {
            let at = events.iter().rposition(|event| event["type"] == "content_block_delta").expect("there is a delta");
            events.remove(at);
        }
        self
    }

    /// Streams an event as the last.
    #[must_use]
    pub fn and(mut self, event: Value) -> Self {
        if let Self::Stream { events, .. } = &mut self {
            events.push(event);
        }
        self
    }
}

/// A `text` block.
pub fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// A `tool_use` block of the memory tool.
pub fn call(id: &str, input: Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": "memory", "input": input})
}

fn usage(output_tokens: u64) -> Value {
    json!({
        "input_tokens": 10, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 30,
        "output_tokens": output_tokens,
    })
}

/// The events of a response: texts and inputs come in two deltas each, with a `ping` and an unknown event between.
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

/// How a block begins, and what is added to it.
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

/// A server that answers each request with the next answer of its script, to a client of any process.
///
/// For tests alone: what should not happen is a panic.
#[derive(Debug)]
pub struct MessagesApi {
    url: String,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    requests: Mutex<Vec<Request>>,
    came: Condvar,
    script: Vec<Answer>,
}

impl MessagesApi {
    /// Starts it at a free port of the loopback address.
    ///
    /// # Panics
    /// Where there is no such port.
    pub fn start(script: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(State { script: script.into_iter().collect(), ..State::default() });
        let served = Arc::clone(&state);
        thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let state = Arc::clone(&served);
                // A client that goes away is one of the cases.
                thread::spawn(move || drop(serve(&state, &connection)));
            }
        });
        Self { url, state }
    }

    /// Where it is: `http://127.0.0.1:port`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Waits until so many requests came.
    ///
    /// # Panics
    /// Where they do not come.
    pub fn wait_for(&self, number: usize) {
        let requests = self.state.requests.lock().unwrap();
        let waited =
            self.state.came.wait_timeout_while(requests, PATIENCE, |requests| requests.len() < number).unwrap();
        assert!(!waited.1.timed_out(), "the requests do not come");
    }

    /// The requests that came, each of them legal, and as many as there are answers.
    ///
    /// # Panics
    /// Where they are not.
    pub fn finish(self) -> Vec<Request> {
        let requests = self.state.requests.lock().unwrap().clone();
        assert_eq!(requests.len(), self.state.script.len(), "{requests:?}");
        for request in &requests {
            assert_legal(request);
        }
        requests
    }
}

/// Answers the one request of a connection.
fn serve(state: &State, mut connection: &TcpStream) -> io::Result<()> {
    let request = read_request(connection)?;
    let answer = {
        let mut requests = state.requests.lock().unwrap();
        requests.push(request);
        state.came.notify_all();
        state.script.get(requests.len() - 1).cloned()
    };
    match answer.unwrap_or_else(|| Answer::error(400, "script_error", "there is no answer to this request")) {
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

/// The blocks of a message; none if its content is a plain text.
fn blocks(message: &Value) -> &[Value] {
    if message["content"].is_string() { &[] } else { message["content"].as_array().unwrap() }
}

/// What the API demands of each request.
fn assert_legal(request: &Request) {
    let expected = ["POST /v1/messages HTTP/1.1", "POST /v1/messages?beta=true HTTP/1.1"]; // the SDKs' beta methods send the latter
    assert!(expected.contains(&request.line.as_str()), "{}", request.line);
    let version = request.header("anthropic-version");
    assert!(matches!(version, Some("2023-06-01" | "2026-10-21")), "{version:?}"); // ours, and that of the Python SDK 2.11
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
        let answered: Vec<_> = blocks.iter().filter(|block| block["type"] == "tool_result").collect();
        let ids: Vec<_> = answered.iter().map(|result| &result["tool_use_id"]).collect();
        assert_eq!(ids, called, "each call has its result in the next message: {messages:?}");
        assert!(blocks[..answered.len()].iter().all(|block| block["type"] == "tool_result"), "results come first");
        called = blocks.iter().filter(|block| block["type"] == "tool_use").map(|block| &block["id"]).collect();
    }
    assert!(called.is_empty(), "the last calls have results: {messages:?}");
}
