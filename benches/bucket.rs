//! Benchmarks of the store in a bucket, on local servers. See `README.md`.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, and fails by panicking")]

mod measure;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use memory_tool_bucket::BucketStore;
use memory_tool_core::{Batch, Engine, MemoryTool, Store, StoreExt};
use memory_tool_test_servers::{AzureServer, Fault, Faults, GcsServer, Proxy, Requests, S3Server, Server};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, RetryConfig};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::measure::{medians, swap};

const INSERTS: usize = 50;
/// The delay of each response of a distant server.
const DISTANCE: Duration = Duration::from_millis(20);
const WRITERS: [usize; 5] = [1, 2, 4, 8, 16];
const ROUNDS: usize = 15;
/// The batch size for creating many files.
const BATCH: usize = 10_000;
const LOG: &str = "/memories/log";

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (s3, gcs, azure) = (S3Server::start().unwrap(), GcsServer::start().unwrap(), AzureServer::start().unwrap());
    print_contention(&runtime, &[("S3", &s3), ("GCS", &gcs), ("Azure", &azure)]);
    print_growth(&runtime, &s3);
}

/// Prints the edits of one file per second for different numbers of concurrent stores.
fn print_contention(runtime: &Runtime, servers: &[(&str, &dyn Server)]) {
    let columns: String = WRITERS.iter().map(|writers| format!(" {writers} |")).collect();
    println!("| edits per second by the number of writers |{columns}\n|---|{}", "---|".repeat(WRITERS.len()));
    for (name, server) in servers {
        let clients = || client(*server, server.url());
        print_rates(name, WRITERS.map(|writers| runtime.block_on(edits_a_second(writers, clients))));
        let proxy = Proxy::start(server.url()).unwrap();
        let chances = vec![(Fault::Delay(DISTANCE), 1.0)];
        proxy.fault_at_random(Faults { seed: 1, requests: Requests::all(), chances });
        let far_clients = || client(*server, proxy.url());
        let name = format!("{name}, {DISTANCE:?} away");
        print_rates(&name, WRITERS.map(|writers| runtime.block_on(edits_a_second(writers, far_clients))));
    }
}

fn print_rates(name: &str, rates: [f64; WRITERS.len()]) {
    let cells: String = rates.iter().map(|rate| format!(" {rate:.0} ({:.2}) |", rate / rates[0])).collect();
    println!("| {name} |{cells}");
}

async fn edits_a_second(writers: usize, client: impl Fn() -> Arc<dyn ObjectStore>) -> f64 {
    let prefix = Path::from(format!("contention-{writers}"));
    let opening = (0..writers).map(|_| BucketStore::open(client(), prefix.clone()));
    let stores = try_join_all(opening).await.unwrap();
    stores[0].write(LOG, "").await.unwrap();
    let start = Instant::now();
    let tasks: Vec<_> = stores.iter().cloned().map(|store| tokio::spawn(insert_lines(Engine::new(store)))).collect();
    for task in tasks {
        task.await.unwrap();
    }
    let took = start.elapsed();
    let kept = stores[0].read_to_string(LOG).await.unwrap().split('\n').filter(|line| !line.is_empty()).count();
    assert_eq!(kept, writers * INSERTS);
    kept as f64 / took.as_secs_f64()
}

async fn insert_lines(tool: Engine<BucketStore>) {
    for _ in 0..INSERTS {
        let insert = json!({"command": "insert", "path": LOG, "insert_line": 0, "insert_text": "a line of the log"});
        tool.call(insert).await.unwrap();
    }
}

/// Prints the times of commands by the number of files, and of bare requests for an object as large as the index.
fn print_growth(runtime: &Runtime, server: &dyn Server) {
    println!("\n| files in the store | index | `view` | `view` in a new process | bare `GET` | edit | bare `PUT` |");
    println!("|---|---|---|---|---|---|---|");
    for files in [10, 100, 1_000, 10_000, 50_000] {
        let fixture = runtime.block_on(Fixture::new(client(server, server.url()), files));
        let measured = fixture.measure(runtime);
        let [view, first_view, get, edit, put] = measured.map(|time| format!("{time:.1?}"));
        println!(
            "| {files} | {:.1} KB | {view} | {first_view} | {get} | {edit} | {put} |",
            fixture.index.len() as f64 / 1e3
        );
    }
}

/// A store of many files, and an object as large as its index.
struct Fixture {
    bucket: Arc<dyn ObjectStore>,
    prefix: Path,
    tool: Engine<BucketStore>,
    index: bytes::Bytes,
    bare: Path,
}

impl Fixture {
    async fn new(bucket: Arc<dyn ObjectStore>, files: usize) -> Self {
        let prefix = Path::from(format!("growth-{files}"));
        let store = BucketStore::open(Arc::clone(&bucket), prefix.clone()).await.unwrap();
        let numbers: Vec<_> = (0..files).collect();
        for numbers in numbers.chunks(BATCH) {
            let batch = numbers.iter().fold(Batch::new(), |batch, number| {
                let path = format!("/memories/customers/{number:06}.md").parse().unwrap();
                batch.write(path, "x".repeat(200))
            });
            store.apply(batch).await.unwrap();
        }
        store.write(LOG, "A\n").await.unwrap();
        let index = bucket.get(&prefix.clone().join("index.json")).await.unwrap().bytes().await.unwrap();
        let bare = Path::from(format!("bare-{files}"));
        bucket.put(&bare, index.clone().into()).await.unwrap();
        Self { bucket, prefix, tool: Engine::new(store), index, bare }
    }

    /// The times of a `view`, the first `view` of a process, a bare `GET`, an edit, and a bare `PUT`.
    fn measure(&self, runtime: &Runtime) -> [Duration; 5] {
        let call = |command: Value| runtime.block_on(self.tool.call(command)).unwrap();
        let view = |_| drop(call(json!({"command": "view", "path": LOG})));
        let first_view = |_| runtime.block_on(self.first_view());
        let get = |_| runtime.block_on(async { drop(self.bucket.get(&self.bare).await.unwrap().bytes().await) });
        let edit = |round| {
            let (old, new) = swap(round);
            drop(call(json!({"command": "str_replace", "path": LOG, "old_str": old, "new_str": new})));
        };
        let put = |_| drop(runtime.block_on(self.bucket.put(&self.bare, self.index.clone().into())).unwrap());
        medians(ROUNDS, [&view, &first_view, &get, &edit, &put])
    }

    /// The first read of a process, which does not know the index yet.
    async fn first_view(&self) {
        let store = BucketStore::open(Arc::clone(&self.bucket), self.prefix.clone()).await.unwrap();
        store.read(LOG).await.unwrap();
    }
}

fn client(server: &dyn Server, url: &str) -> Arc<dyn ObjectStore> {
    server.client(url, RetryConfig { max_retries: 0, ..RetryConfig::default() }).unwrap()
}
