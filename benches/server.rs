//! Benchmarks of the HTTP server against bare handlers of the same memories. See `README.md`.

#![allow(clippy::print_stdout, reason = "a benchmark prints")]
#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

mod measure;
mod report;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use axum::serve::ListenerExt as _;
use futures::future::join_all;
use memory_tool::api::{ToolResult, ToolUse};
use memory_tool::{Actor, Memory, MemoryOptions, MemoryTool as _, StoreUrl};
use memory_tool_server::{Grant, Right, Server, ServerOptions, TokenEntry, TokenFile};
use memory_tool_test_servers::PostgresOptions;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use crate::measure::{Amount, edit, median, quantile, target_directory, text, view};
use crate::report::{print_machine, print_table, ratio, time};

/// The call with a number of a connection, which has its own file.
type Input = fn(connection: usize, number: usize) -> Value;

const CONNECTIONS: [usize; 3] = [1, 8, 64];

/// Several, because the server limits the concurrent requests of one token.
const TOKENS: usize = 4;
const ROLE: &str = "bench";

/// The memories of our server and of the bare handler.
const NAMES: [&str; 2] = ["ours", "bare"];

fn main() {
    let (rounds, seconds) = match Amount::from_arguments() {
        Amount::Quick => (2, 0.15),
        Amount::Usual => (7, 0.5),
    };
    let runtimes = [new_runtime(), new_runtime()];
    let directory = tempfile::tempdir_in(target_directory()).unwrap();
    let postgres = PostgresOptions::new().durable().start().unwrap();
    postgres.sql(&format!("CREATE ROLE {ROLE} LOGIN")).unwrap();
    postgres.sql(&format!("CREATE DATABASE {ROLE} OWNER {ROLE}")).unwrap();
    print_machine(directory.path(), &[postgres.sql("SELECT version()").unwrap()]);
    let places = [
        ("SQLite", format!("sqlite:{}", directory.path().join("memory.db").display())),
        ("local disk", directory.path().join("memories").display().to_string()),
        ("PostgreSQL", postgres.url(ROLE, ROLE)),
    ];
    for (title, place) in places {
        let peers = runtimes[0].block_on(start(directory.path(), title, &place.parse().unwrap()));
        let commands: [(&str, Input); 2] = [
            ("`view`, 4 KB", |connection, _| view(&file(connection))),
            ("`str_replace`, 4 KB", |connection, round| edit(&file(connection), round)),
        ];
        let rows = commands.into_iter().flat_map(|(command, input)| {
            let (peers, client) = (&peers, &runtimes[1]);
            CONNECTIONS.map(move |connections| {
                let measured = client.block_on(compare(peers, connections, rounds, seconds, input));
                [vec![command.to_owned(), connections.to_string()], measured].concat()
            })
        });
        let columns = "p50 | p50 bare | p50 / bare | p99 | p99 bare | p99 / bare | per second | bare | bare / ours";
        print_table(&format!("{title} | connections | {columns}"), rows);
    }
}

fn new_runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn file(connection: usize) -> String {
    format!("/memories/file{connection}.txt")
}

/// A server, and the start of a request to it for each connection.
struct Peer {
    address: SocketAddr,
    heads: Vec<String>,
}

/// Starts our server, and a bare handler that makes the same calls of a memory with the same options.
async fn start(directory: &std::path::Path, title: &str, place: &StoreUrl) -> [Peer; 2] {
    let mut options = MemoryOptions::new();
    options.history = true;
    let actor = Actor::from_trusted_name("bench").unwrap();
    let file = directory.join(format!("{title}.tokens"));
    let mut secrets = Vec::new();
    for _ in 0..TOKENS {
        let (entry, secret) = TokenEntry::generate(actor.clone(), vec![Grant::All], Right::ALL.to_vec()).unwrap();
        TokenFile::new(&file).add(entry).unwrap();
        secrets.push(secret);
    }
    let mut memories = Vec::new();
    for name in NAMES {
        let memory = options.build(place.child(name).unwrap()).await.unwrap();
        for connection in 0..CONNECTIONS[CONNECTIONS.len() - 1] {
            memory.write(&self::file(connection), text()).await.unwrap();
        }
        memories.push(memory.by(actor.clone()));
    }
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let mut settings = ServerOptions::new(place.clone(), &file);
    (settings.memory, settings.listen) = (options, "127.0.0.1:0".parse().unwrap());
    let ours = Server::listen(settings).await.unwrap();
    let bare = TcpListener::bind(any).await.unwrap();
    let addresses = [ours.url().strip_prefix("http://").unwrap().parse().unwrap(), bare.local_addr().unwrap()];
    tokio::spawn(ours.serve(std::future::pending()));
    let handler = Router::new().route("/v1/memory_stores/bare/tool", post(call));
    let handler = handler.with_state(Arc::new(memories.remove(1)));
    let bare = bare.tap_io(|stream| _ = stream.set_nodelay(true));
    tokio::spawn(async move { axum::serve(bare, handler).await });
    [0, 1].map(|peer| {
        let head = |secret: &String| {
            format!(
                "POST /v1/memory_stores/{}/tool HTTP/1.1\r\nhost: localhost\r\nx-api-key: {secret}\r\n",
                NAMES[peer]
            )
        };
        Peer { address: addresses[peer], heads: secrets.iter().map(head).collect() }
    })
}

/// The bare handler.
async fn call(State(memory): State<Arc<Memory>>, body: axum::body::Bytes) -> axum::Json<Value> {
    let call = ToolUse::parse(&body).unwrap();
    let outcome = memory.tool().call(call.input).await;
    axum::Json(json!({"content": [ToolResult::new(call.id, &outcome)]}))
}

/// The cells of both peers: in each round, first one and then the other is measured.
async fn compare(peers: &[Peer; 2], connections: usize, rounds: usize, seconds: f64, input: Input) -> Vec<String> {
    let mut times = [Vec::new(), Vec::new()];
    let mut rates = [Vec::new(), Vec::new()];
    // An unmeasured round first opens memories, and makes connections of the storage.
    for round in 0..=rounds {
        for peer in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
            // Our server would close connections that are idle during a long round of the other peer.
            let clients = join_all((0..connections).map(|number| Client::connect(&peers[peer], number))).await;
            let (start, end) = (Instant::now(), Instant::now() + Duration::from_secs_f64(seconds));
            let running: Vec<_> = clients.into_iter().map(|client| tokio::spawn(client.run(end, input))).collect();
            let found: Vec<Vec<f64>> = join_all(running).await.into_iter().map(Result::unwrap).collect();
            if round > 0 {
                let found = found.concat();
                rates[peer].push(found.len() as f64 / start.elapsed().as_secs_f64());
                times[peer].extend(found);
            }
        }
    }
    let cells = |[ours, bare]: [f64; 2]| [time(ours), time(bare), ratio(ours / bare)];
    let [ours, bare] = rates.map(|rates| median(&rates));
    let rates = [format!("{ours:.0}"), format!("{bare:.0}"), ratio(bare / ours)];
    let parts = [0.5, 0.99].map(|part| cells(times.each_ref().map(|times| quantile(times, part))));
    [parts.as_flattened(), &rates].concat()
}

/// A client that sends one request after another.
struct Client {
    stream: TcpStream,
    head: String,
    number: usize,
    reply: Vec<u8>,
}

impl Client {
    async fn connect(peer: &Peer, number: usize) -> Self {
        let stream = TcpStream::connect(peer.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, head: peer.heads[number % TOKENS].clone(), number, reply: Vec::new() }
    }

    /// The times of requests until the end.
    async fn run(mut self, end: Instant, input: Input) -> Vec<f64> {
        let mut times = Vec::new();
        // An even number of edits restores the text for the next command.
        while Instant::now() < end || times.len() % 2 == 1 {
            let body = input(self.number, times.len()).to_string();
            let request = format!("{}content-length: {}\r\n\r\n{body}", self.head, body.len());
            let start = Instant::now();
            self.stream.write_all(request.as_bytes()).await.unwrap();
            self.receive().await;
            times.push(start.elapsed().as_secs_f64());
        }
        times
    }

    /// Reads a response of success.
    async fn receive(&mut self) {
        self.reply.clear();
        loop {
            assert!(self.stream.read_buf(&mut self.reply).await.unwrap() > 0);
            let Some(head) = self.reply.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { continue };
            let text = std::str::from_utf8(&self.reply[..head]).unwrap();
            let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
            if self.reply.len() == head + 4 + length.unwrap().parse::<usize>().unwrap() {
                let reply = String::from_utf8_lossy(&self.reply);
                assert!(reply.starts_with("HTTP/1.1 200") && !reply.contains("is_error"), "{reply}");
                return;
            }
        }
    }
}
