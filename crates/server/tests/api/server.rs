//! A server of the API on a socket, and a plain client.

use memory_tool::Actor;
use memory_tool_server::{Grant, Right, ServerOptions, TokenEntry, TokenFile};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

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
    _directory: tempfile::TempDir,
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
        let token = add_token(&tokens, Grant::All, &Right::ALL, false);
        let mut options = ServerOptions::new(place.parse().unwrap(), directory.path().join("tokens"));
        options.listen = "127.0.0.1:0".parse().unwrap();
        set(&mut options);
        let server = memory_tool_server::Server::listen_with_metrics(options, || "metrics".to_owned()).await.unwrap();
        let url = server.url();
        let address = url.split_once("://").map_or(url.as_str(), |(_, address)| address).to_owned();
        let task = tokio::spawn(server.serve(std::future::pending()));
        Self { address, token, tokens, _directory: directory, task }
    }

    /// The header of a new token, once the server has read it from its file.
    pub(crate) async fn with_token(&self, grant: Grant, rights: &[Right], creates: bool) -> String {
        let header = format!("x-api-key: {}", add_token(&self.tokens, grant, rights, creates));
        tokio::time::timeout(std::time::Duration::from_secs(60), async {
            while self.send("GET", "/v1/memory_stores", None, &[&header]).await.0 == 401 {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        })
        .await
        .unwrap();
        header
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

fn add_token(tokens: &TokenFile, grant: Grant, rights: &[Right], creates: bool) -> String {
    let actor = Actor::from_trusted_name("key").unwrap();
    let (mut entry, token) = TokenEntry::generate(actor, vec![grant], rights.to_vec()).unwrap();
    entry.create = creates;
    tokens.add(entry).unwrap();
    token
}
