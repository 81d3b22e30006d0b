//! Benchmarks of the PostgreSQL store against bare prepared statements, SQLite and a bucket. See `README.md`.

#![allow(clippy::print_stdout, reason = "a benchmark prints")]
#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

mod measure;
mod report;

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use memory_tool_bucket::BucketStore;
use memory_tool_core::{Engine, MemoryTool, Store, StoreExt as _};
use memory_tool_postgres::{PostgresStore, PostgresStoreBuilder};
use memory_tool_sqlite::SqliteStore;
use memory_tool_test_servers::{
    Fault, Faults, GcsServer, PostgresOptions, PostgresServer, Proxy, Requests, Server as _, SqlProxy,
};
use object_store::RetryConfig;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, Statement};

use crate::measure::{Amount, create, delete, edit, median, medians, rename, swap, target_directory, text, view};
use crate::report::{print_machine, print_table, ratio, time};

const FILE: &str = "/memories/file.txt";
const ROLE: &str = "bench";

/// The distances to a server: in the same region, and in another one.
const DISTANCES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(20)];

fn main() {
    let amount = Amount::from_arguments();
    let (rounds, distant_rounds, seconds) = match amount {
        Amount::Quick => (300, 20, 1.0),
        Amount::Usual | Amount::Full => (2_000, 50, 4.0),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let server = start(PostgresOptions::new().durable());
    print_machine(server.socket(), &[server.sql("SELECT version()").unwrap()]);
    print_commands(&runtime, &server, "Unix socket", rounds);
    let in_ram = start(PostgresOptions::new());
    print_commands(&runtime, &in_ram, "without flushes of PostgreSQL", rounds);
    drop(in_ram);
    print_distances(&runtime, &server, distant_rounds);
    print_sessions(&runtime, &server, seconds);
    if let Amount::Full = amount {
        print_many(&runtime, &server, rounds);
    }
}

fn start(options: PostgresOptions) -> PostgresServer {
    let server = options.start().unwrap();
    server.sql(&format!("CREATE ROLE {ROLE} LOGIN")).unwrap();
    server.sql(&format!("CREATE DATABASE {ROLE} OWNER {ROLE}")).unwrap();
    server
}

/// Compares the commands over a Unix socket.
fn print_commands(runtime: &Runtime, server: &PostgresServer, title: &str, rounds: usize) {
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
    print_table(&format!("{title} | ours | bare | SQLite | ours / bare | ours / SQLite"), rows);
}

/// Compares commands on a distant server with the same commands on a distant bucket.
fn print_distances(runtime: &Runtime, server: &PostgresServer, rounds: usize) {
    let bucket = GcsServer::start().unwrap();
    let rows = DISTANCES.map(|distance| {
        let proxy = SqlProxy::start(server, distance).unwrap();
        let memory = format!("distance-{}", distance.as_millis());
        let ours = Tool::new(runtime, open(runtime, &proxy.url(ROLE, ROLE), &memory));
        let to_bucket = Proxy::start(bucket.url()).unwrap();
        let chances = vec![(Fault::Delay(distance), 1.0)];
        to_bucket.fault_at_random(Faults { seed: 1, requests: Requests::all(), chances });
        let client = bucket.client(to_bucket.url(), RetryConfig::default()).unwrap();
        let bucket = Tool::new(runtime, runtime.block_on(BucketStore::open(client, memory.into())).unwrap());
        let name = |n: usize| format!("/memories/new/{n}.txt");
        let commands: [&dyn Fn(usize) -> Value; 3] =
            [&|_| view(FILE), &|n| edit(FILE, n), &|n| create(&name(n), &text())];
        let times = commands.map(|command| medians(rounds, [&|n| ours.call(command(n)), &|n| bucket.call(command(n))]));
        let cells = times.iter().flat_map(|[ours, bucket]| [time(*ours), time(*bucket)]);
        std::iter::once(format!("{distance:?}")).chain(cells).collect()
    });
    print_table("distance | `view` | bucket | `str_replace` | bucket | `create` | bucket", rows);
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

/// Prints the commands in a database of 1,000,000 files in 1,000 memories.
fn print_many(runtime: &Runtime, server: &PostgresServer, rounds: usize) {
    let few = Tool::new(runtime, open(runtime, &server.url(ROLE, ROLE), "few"));
    const FILL: &str = "INSERT INTO memory_tool.file (memory, path, version, created_at, modified_at, content) \
         SELECT 'many-' || memory, '/memories/topic' || file % 10 || '/note' || file || '.txt', \
         decode(md5(memory || '-' || file), 'hex'), 0, 0, \
         convert_to(repeat('a line of a note' || chr(10), 20), 'UTF8') \
         FROM generate_series(1, 1000) AS memory, generate_series(1, 1000) AS file";
    let start = Instant::now();
    server.sql_in(ROLE, ROLE, FILL).unwrap();
    server.sql_in(ROLE, ROLE, "VACUUM ANALYZE memory_tool.file").unwrap();
    let size = server.sql_in(ROLE, ROLE, "SELECT pg_size_pretty(pg_total_relation_size('memory_tool.file'))").unwrap();
    println!("1,000,000 files in 1,000 memories: filled in {:.0?}, {size}\n", start.elapsed());
    let many = Tool::new(runtime, open(runtime, &server.url(ROLE, ROLE), "many-500"));
    let name = |n: usize| format!("/memories/new/{n}.txt");
    let row = |title: &str, rounds: usize, command: &dyn Fn(usize) -> Value| {
        let [many, few] = medians(rounds, [&|n| many.call(command(n)), &|n| few.call(command(n))]);
        vec![title.to_owned(), time(many), time(few), ratio(many / few)]
    };
    let rows = [
        row("`view`, 4 KB", rounds, &|_| view(FILE)),
        row("`str_replace`, 4 KB", rounds, &|n| edit(FILE, n)),
        row("`create`, 4 KB", rounds, &|n| create(&name(n), &text())),
    ];
    print_table("1,000 memories of 1,000 files | time | in an empty memory before | ratio", rows);
    let names = sample(20, || drop(black_box(runtime.block_on(many.tool.store().memory_names()).unwrap())));
    let listing = sample(20, || many.call(view("/memories")));
    print_table(
        "1,000 memories of 1,000 files | time",
        [
            vec!["names of all memories".to_owned(), time(names)],
            vec!["`view` of a directory of 1,000 files".to_owned(), time(listing)],
        ],
    );
}

fn sample(rounds: usize, work: impl Fn()) -> f64 {
    let measure = |_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    median(&(0..rounds).map(measure).collect::<Vec<_>>())
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
