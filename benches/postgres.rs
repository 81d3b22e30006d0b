//! Benchmarks of the PostgreSQL store against bare prepared statements and SQLite. See `README.md`.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

mod measure;
mod report;

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use memory_tool_core::{Engine, MemoryTool, Store, StoreExt as _};
use memory_tool_postgres::{PostgresStore, PostgresStoreBuilder};
use memory_tool_sqlite::SqliteStore;
use memory_tool_test_servers::{PostgresOptions, PostgresServer};
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, Statement};

use crate::measure::{Amount, create, delete, edit, medians, rename, swap, target_directory, text, view};
use crate::report::{print_machine, print_table, ratio, time};

const FILE: &str = "/memories/file.txt";
const ROLE: &str = "bench";

fn main() {
    let (rounds, seconds) = match Amount::from_arguments() {
        Amount::Quick => (300, 1.0),
        Amount::Usual => (2_000, 4.0),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let server = PostgresOptions::new().durable().start().unwrap();
    server.sql(&format!("CREATE ROLE {ROLE} LOGIN")).unwrap();
    server.sql(&format!("CREATE DATABASE {ROLE} OWNER {ROLE}")).unwrap();
    print_machine(server.socket(), &[server.sql("SELECT version()").unwrap()]);
    print_commands(&runtime, &server, rounds);
    print_sessions(&runtime, &server, seconds);
}

/// Compares the commands over a Unix socket.
fn print_commands(runtime: &Runtime, server: &PostgresServer, rounds: usize) {
    let ours = Tool::new(runtime, open(runtime, &server.url(ROLE, ROLE), "commands"));
    let directory = tempfile::tempdir_in(target_directory()).unwrap();
    let sqlite = runtime.block_on(SqliteStore::open(directory.path().join("memory.sqlite"))).unwrap();
    let sqlite = Tool::new(runtime, sqlite);
    let bare = runtime.block_on(Bare::connect(server));
    let row = |title: &str, command: &dyn Fn(usize) -> Value, bare: &dyn Fn(usize)| {
        let [ours, bare, sqlite] = medians(rounds, [&|n| ours.call(command(n)), bare, &|n| sqlite.call(command(n))]);
        let times = [ours, bare, sqlite].map(time);
        [vec![title.to_owned()], times.into(), [ours / bare, ours / sqlite].map(ratio).into()].concat()
    };
    let name = |n: usize| format!("/memories/new/{n}.txt");
    let other = |n: usize| format!("/memories/other/{n}.txt");
    let rows = [
        row("`view`, 4 KB", &|_| view(FILE), &|_| drop(black_box(runtime.block_on(bare.read(FILE))))),
        row("`str_replace`, 4 KB", &|n| edit(FILE, n), &|n| runtime.block_on(bare.edit(FILE, n))),
        row("`create`, 4 KB", &|n| create(&name(n), &text()), &|n| runtime.block_on(bare.insert(&name(n)))),
        row("`rename`, 4 KB", &|n| rename(&name(n), &other(n)), &|n| {
            runtime.block_on(bare.rename(&name(n), &other(n)));
        }),
        row("`delete`, 4 KB", &|n| delete(&other(n)), &|n| runtime.block_on(bare.delete(&other(n)))),
    ];
    print_table("Unix socket | ours | bare | SQLite | ours / bare | ours / SQLite", rows);
}

/// Prints edits per second of sessions with a file each.
fn print_sessions(runtime: &Runtime, server: &PostgresServer, seconds: f64) {
    let row = |sessions: usize| {
        let rate = |name: &dyn Fn(usize) -> String| {
            let stores = (0..sessions).map(|n| open(runtime, &server.url(ROLE, ROLE), &name(n))).collect();
            runtime.block_on(rate(stores, seconds))
        };
        let one = rate(&|_| format!("one-{sessions}"));
        let many = rate(&|n| format!("many-{sessions}-{n}"));
        let bare = runtime.block_on(bare_rate(server, sessions, seconds));
        let rates = [one, many, bare].map(|rate| format!("{rate:.0}"));
        [vec![sessions.to_string()], rates.into(), [one / bare, many / bare].map(ratio).into()].concat()
    };
    let columns = "sessions | edits per second, one memory | a memory each | bare | one / bare | each / bare";
    print_table(columns, [1, 8, 64].map(row));
}

async fn rate(stores: Vec<PostgresStore>, seconds: f64) -> f64 {
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let sessions = stores.into_iter().enumerate().map(|(session, store)| {
        tokio::spawn(async move {
            let tool = Engine::new(store);
            let file = format!("/memories/{session}.txt");
            tool.call(create(&file, &text())).await.unwrap();
            let mut edits = 0;
            while Instant::now() < end {
                tool.call(edit(&file, edits)).await.unwrap();
                edits += 1;
            }
            edits
        })
    });
    let edits: usize = join_all(sessions).await.into_iter().map(Result::unwrap).sum();
    edits as f64 / seconds
}

/// The edits of as many connections as a store has by default.
async fn bare_rate(server: &PostgresServer, sessions: usize, seconds: f64) -> f64 {
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let edits = Arc::new(AtomicUsize::new(0));
    let connections = (0..sessions.min(8)).map(|number| {
        let edits = Arc::clone(&edits);
        async move {
            let bare = Bare::connect(server).await;
            let file = format!("/memories/{sessions}-{number}.txt");
            bare.insert(&file).await;
            while Instant::now() < end {
                bare.edit(&file, edits.fetch_add(1, Ordering::Relaxed)).await;
            }
        }
    });
    join_all(connections).await;
    edits.load(Ordering::Relaxed) as f64 / seconds
}

fn open(runtime: &Runtime, url: &str, memory: &str) -> PostgresStore {
    let builder = PostgresStoreBuilder::from_url(url).unwrap().memory(memory.parse().unwrap());
    runtime.block_on(builder.open()).unwrap()
}

/// The tool on a store with a file of 4 KB.
struct Tool<'a, S> {
    runtime: &'a Runtime,
    tool: Engine<S>,
}

impl<'a, S: Store> Tool<'a, S> {
    fn new(runtime: &'a Runtime, store: S) -> Self {
        runtime.block_on(store.write(FILE, text())).unwrap();
        Self { runtime, tool: Engine::new(store) }
    }

    fn call(&self, input: Value) {
        black_box(self.runtime.block_on(self.tool.call(input)).unwrap().to_string());
    }
}

/// Prepared statements of the same work on a table of the same columns, each in one transaction.
struct Bare {
    client: Client,
    read: Statement,
    update: Statement,
    insert: Statement,
    rename: Statement,
    delete: Statement,
}

impl Bare {
    async fn connect(server: &PostgresServer) -> Self {
        let (client, connection) = tokio_postgres::connect(&server.url(ROLE, ROLE), NoTls).await.unwrap();
        tokio::spawn(connection);
        const TABLE: &str = "CREATE TABLE IF NOT EXISTS bare (memory text COLLATE \"C\" NOT NULL, \
             path text COLLATE \"C\" NOT NULL, version bytea NOT NULL, created_at bigint NOT NULL, \
             modified_at bigint NOT NULL, content bytea NOT NULL, PRIMARY KEY (memory, path)); \
             INSERT INTO bare VALUES ('m', '/memories/file.txt', '', 0, 0, '') ON CONFLICT DO NOTHING";
        // Fails if another connection creates the table at the same time.
        let _ = client.batch_execute(TABLE).await;
        let prepare = async |sql: &str| client.prepare(sql).await.unwrap();
        let bare = Self {
            read: prepare("SELECT version, content FROM bare WHERE memory = 'm' AND path = $1").await,
            update: prepare(
                "UPDATE bare SET version = $2, modified_at = $3, content = $4 \
                 WHERE memory = 'm' AND path = $1 AND version = $5",
            )
            .await,
            insert: prepare("INSERT INTO bare VALUES ('m', $1, $2, 0, $3, $4)").await,
            rename: prepare("UPDATE bare SET path = $2 WHERE memory = 'm' AND path = $1").await,
            delete: prepare("DELETE FROM bare WHERE memory = 'm' AND path = $1").await,
            client,
        };
        let update = "UPDATE bare SET content = $1 WHERE path = $2 AND content = ''";
        bare.client.execute(update, &[&text().as_bytes(), &FILE]).await.unwrap();
        bare
    }

    async fn read(&self, path: &str) -> (Vec<u8>, Vec<u8>) {
        let row = self.client.query_one(&self.read, &[&path]).await.unwrap();
        (row.get(0), row.get(1))
    }

    async fn edit(&self, path: &str, round: usize) {
        let (version, content) = self.read(path).await;
        let (old, new) = swap(round);
        let content = String::from_utf8(content).unwrap().replace(old, new);
        let next = (round as u128).to_be_bytes();
        let count = self
            .client
            .execute(&self.update, &[&path, &&next[..], &(round as i64), &content.as_bytes(), &version])
            .await;
        assert_eq!(count.unwrap(), 1);
    }

    async fn insert(&self, path: &str) {
        let version = [0_u8; 16];
        self.client.execute(&self.insert, &[&path, &&version[..], &0_i64, &text().as_bytes()]).await.unwrap();
    }

    async fn rename(&self, old: &str, new: &str) {
        assert_eq!(self.client.execute(&self.rename, &[&old, &new]).await.unwrap(), 1);
    }

    async fn delete(&self, path: &str) {
        assert_eq!(self.client.execute(&self.delete, &[&path]).await.unwrap(), 1);
    }
}
