//! [`MessagesApi`]: a server that sends scripted responses of the Messages API.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

use crate::background::Background;

/// A received request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Request {
    /// The method and the target.
    pub line: String,
    headers: HeaderMap,
    /// The JSON body.
    pub body: Value,
}

impl Request {
    async fn read(request: hyper::Request<Incoming>) -> Self {
        let (head, body) = request.into_parts();
        let body = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
        Self { line: format!("{} {}", head.method, head.uri), headers: head.headers, body }
    }

    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
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
pub struct Answer {
    status: u16,
    body: Value,
}

impl Answer {
    /// Returns a message of the model.
    pub fn message(stop_reason: &str, content: &[Value]) -> Self {
        let usage = json!({"input_tokens": 10, "output_tokens": 7});
        let body = json!({
            "type": "message", "role": "assistant", "content": content, "stop_reason": stop_reason, "usage": usage,
        });
        Self { status: 200, body }
    }

    /// Returns an error of the API.
    pub fn error(status: u16, kind: &str, message: &str) -> Self {
        Self { status, body: json!({"type": "error", "error": {"type": kind, "message": message}}) }
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

/// A server that sends the next scripted response to each request.
#[derive(Debug)]
pub struct MessagesApi {
    server: Background,
    requests: Arc<Mutex<Vec<Request>>>,
    answers: usize,
}

impl MessagesApi {
    /// Starts the server on a free port of the loopback address.
    ///
    /// # Panics
    /// If no port is free.
    pub fn start(script: impl IntoIterator<Item = Answer>) -> Self {
        let script: Arc<[Answer]> = script.into_iter().collect();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (answers, received) = (script.len(), Arc::clone(&requests));
        let server = Background::start(move |connection| {
            let (script, received) = (Arc::clone(&script), Arc::clone(&received));
            async move {
                let service = service_fn(|request| respond(&script, &received, request));
                // Ignores broken connections.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(connection), service).await;
            }
        });
        Self { server: server.unwrap(), requests, answers }
    }

    /// The URL of the server: `http://127.0.0.1:port`.
    pub fn url(&self) -> &str {
        self.server.url()
    }

    /// Returns the received requests.
    ///
    /// # Panics
    /// If a request is invalid, or their number differs from the length of the script.
    pub fn finish(self) -> Vec<Request> {
        let requests = self.requests.lock().unwrap().clone();
        assert_eq!(requests.len(), self.answers, "{requests:?}");
        requests.iter().for_each(assert_valid);
        requests
    }
}

async fn respond(
    script: &[Answer],
    received: &Mutex<Vec<Request>>,
    request: hyper::Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let request = Request::read(request).await;
    let mut received = received.lock().unwrap();
    received.push(request);
    let unexpected = || Answer::error(400, "script_error", "the script has no response to this request");
    let answer = script.get(received.len() - 1).cloned().unwrap_or_else(unexpected);
    let response = Response::builder().status(answer.status).header(CONTENT_TYPE, "application/json");
    Ok(response.body(Full::new(Bytes::from(answer.body.to_string()))).unwrap())
}

/// Returns the blocks of a message. A plain string has no blocks.
fn blocks(message: &Value) -> &[Value] {
    if message["content"].is_string() { &[] } else { message["content"].as_array().unwrap() }
}

fn assert_valid(request: &Request) {
    assert_eq!(request.line, "POST /v1/messages");
    // This project's version, and the version of rig.
    assert!(matches!(request.header("anthropic-version"), Some("2023-06-01" | "2026-10-21")), "{request:?}");
    assert_eq!(request.header("content-type"), Some("application/json"));
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
