//! A server of the API on a socket, and a plain client.

use axum::extract::Request;
use axum::middleware;
use memory_tool::store::MemoryName;
use memory_tool::{Actor, MemoryOptions};
use memory_tool_server::{Caller, Grant, Memories, Right, memory_stores};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

pub(crate) struct Server {
    pub(crate) address: String,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// The header `x-api-key` names the actor. An actor `only-…` reaches only the memory with that name.
    pub(crate) async fn start(place: &str) -> Self {
        let mut options = MemoryOptions::new();
        options.history = true;
        let memories = Memories::new(place.parse().unwrap(), options);
        let router = memory_stores(memories).layer(middleware::map_request(async |mut request: Request| {
            let key = request.headers().get("x-api-key").map_or("key", |key| key.to_str().unwrap()).to_owned();
            let grant = match key.strip_prefix("only-") {
                Some(name) => Grant::Name(name.parse::<MemoryName>().unwrap()),
                None => Grant::All,
            };
            let rights = vec![Right::Read, Right::Write, Right::Admin];
            let actor = Actor::from_trusted_name(&key).unwrap();
            request.extensions_mut().insert(Caller::new(actor, vec![grant], rights));
            request
        }));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, task }
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: Option<Value>, headers: &[&str]) -> (u16, Value) {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
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
