//! [`Recording`]: the replies of concurrent processes on one store, with their times.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use memory_tool_bucket::BucketStore;
use memory_tool_core::{Engine, MemoryTool, Store, StoreExt as _, StorePath};
use memory_tool_test_fixtures::linearizability::workload::start;
use memory_tool_test_fixtures::linearizability::{Call, Files, Mistake, batch_of, files_of, line_of};
use memory_tool_test_servers::{Proxy, Record, Server};
use object_store::ObjectStore;
use object_store::path::Path;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use crate::faults;
use crate::report::puts;
use crate::workload::{self, Step};
use memory_tool_test_buckets::session::{COLLECT, Session, program};
use memory_tool_test_buckets::{CHECKPOINT, patient_client, session};
use memory_tool_test_fixtures::Objects;

/// The number of concurrent processes. One more collects garbage.
pub(crate) const PROCESSES: usize = 4;

/// The maximum number of attempts to open the store, which takes more requests than any command.
const MAX_OPENS: usize = 1_000;

/// The number of commits before the first step. A process writes a checkpoint after 64.
const EARLIER_COMMITS: usize = 48;

/// The file of these commits.
const EARLIER: &str = "/memories/earlier";

/// How often a waiting collector checks whether the others have ended.
const TICK: Duration = Duration::from_millis(5);

/// The plan of a recording.
pub(crate) struct Plan {
    pub(crate) seed: u64,
    /// The number of commands of each process.
    pub(crate) commands: usize,
    /// The time between two collections.
    pub(crate) pause: Duration,
    pub(crate) mistake: Option<Mistake>,
}

/// A complete recording.
pub(crate) struct Recording {
    pub(crate) start: Files,
    pub(crate) calls: Vec<Call>,
    pub(crate) requests: Vec<Record>,
    /// The number of checkpoints that others than the collector wrote.
    pub(crate) checkpoints: usize,
    pub(crate) collected: Collected,
    pub(crate) end: Files,
}

/// The results of the garbage collections of a store.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Collected {
    pub(crate) objects: usize,
    pub(crate) commits: usize,
}

/// A store after its recording. Some requests have not arrived yet.
pub(crate) struct EndedStore {
    runtime: Runtime,
    bucket: Arc<dyn ObjectStore>,
    prefix: Path,
    files: Files,
    workers: Vec<Worker>,
}

impl EndedStore {
    /// Waits until all requests have arrived. Checks that the files are the same, and that a collection leaves no
    /// unused objects.
    ///
    /// # Errors
    /// A description of the change.
    pub(crate) fn check(self) -> Result<(), String> {
        let proxies: Vec<_> = self.workers.into_iter().map(|worker| worker.proxy).collect();
        while proxies.iter().any(|proxy| proxy.late() > 0) {
            thread::sleep(TICK);
        }
        self.runtime.block_on(async {
            let store = BucketStore::open(Arc::clone(&self.bucket), self.prefix.clone()).await;
            let store = store.map_err(|error| format!("{error:?}"))?;
            if files_of(&store).await != self.files {
                return Err("a late request changed the files".to_owned());
            }
            store.gc(Duration::ZERO).await.map_err(|error| format!("{error:?}"))?;
            if files_of(&store).await != self.files {
                return Err("a collection changed the files".to_owned());
            }
            Objects::read(&*self.bucket, &self.prefix).await.check_collected()
        })
    }
}

impl Recording {
    /// Runs the plan on a new store under the prefix.
    pub(crate) fn new(server: &dyn Server, prefix: &Path, plan: &Plan) -> (Self, EndedStore) {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let bucket = patient_client(server).unwrap();
        let store = runtime.block_on(BucketStore::open(Arc::clone(&bucket), prefix.clone())).unwrap();
        let start = start();
        runtime.block_on(store.apply(batch_of(&start))).unwrap();
        runtime.block_on(add_commits(&store));
        let timeout = faults::timeout(time_of_process(server, prefix));

        let clock = Instant::now();
        let start_worker = |process| Worker::start(server, prefix, plan, process, timeout);
        let mut workers: Vec<_> = (0..PROCESSES).map(start_worker).collect();
        let mut collector = start_worker(PROCESSES);
        collector.proxy.fault_at_random(faults::at_random_and_late(collector.seed));
        let (mut calls, collected) = run_workers(&mut workers, &mut collector, plan, clock);
        let requests: Vec<_> = workers.iter().flat_map(|worker| worker.proxy.take_records()).collect();
        let checkpoints = puts(&requests, CHECKPOINT);
        let requests = requests.into_iter().chain(collector.proxy.take_records()).collect();
        workers.push(collector);

        // The commit of this change takes the last number that a late commit could have.
        let tool = Engine::new(store);
        let create = json!({"command": "create", "path": "/memories/end", "file_text": ""});
        calls.push(runtime.block_on(call(&tool, create, clock)));
        let end = runtime.block_on(files_of(tool.store()));
        for path in end.keys().cloned().chain([StorePath::memories()]) {
            let view = json!({"command": "view", "path": path.to_string()});
            calls.push(runtime.block_on(call(&tool, view, clock)));
        }
        let ended = EndedStore { runtime, bucket, prefix: prefix.clone(), files: end.clone(), workers };
        (Self { start, calls, requests, checkpoints, collected, end }, ended)
    }
}

/// Makes the log almost as long as it can be without a checkpoint, so that the processes soon have to write one.
async fn add_commits(store: &BucketStore) {
    for number in 0..EARLIER_COMMITS {
        store.write(EARLIER, number.to_string()).await.unwrap();
    }
    store.remove(EARLIER).await.unwrap();
}

/// Runs all processes. Returns their calls and the results of the collections.
fn run_workers(workers: &mut [Worker], collector: &mut Worker, plan: &Plan, clock: Instant) -> (Vec<Call>, Collected) {
    let is_over = AtomicBool::new(false);
    thread::scope(|threads| {
        let collecting = threads.spawn(|| collector.collect_until(&is_over, plan.pause));
        let working: Vec<_> =
            workers.iter_mut().map(|worker| threads.spawn(move || worker.work(plan.commands, clock))).collect();
        let calls: Vec<_> = working.into_iter().map(|worker| worker.join()).collect();
        is_over.store(true, Ordering::Relaxed); // also after a failure, so that its cause is reported
        (calls.into_iter().flat_map(Result::unwrap).collect(), collecting.join().unwrap())
    })
}

/// Runs a command after the other processes have finished.
async fn call(tool: &dyn MemoryTool, command: Value, clock: Instant) -> Call {
    let called = clock.elapsed();
    let reply = line_of(&tool.call(command.clone()).await);
    Call { process: PROCESSES, command, called, responded: clock.elapsed(), reply: Some(reply) }
}

/// A process, and the proxy between it and the server.
struct Worker {
    process: usize,
    seed: u64,
    /// The timeout of its commands.
    timeout: Duration,
    proxy: Proxy,
    session: Session,
}

impl Worker {
    /// Starts a process. Faults begin after it has opened the store.
    fn start(server: &dyn Server, prefix: &Path, plan: &Plan, process: usize, mut timeout: Duration) -> Self {
        let seed = plan.seed.wrapping_mul(PROCESSES as u64 + 1).wrapping_add(process as u64);
        let proxy = Proxy::start(server.url()).unwrap();
        let mut program = program(server, proxy.url(), prefix).unwrap();
        if process == PROCESSES {
            timeout *= faults::PATIENCE_OF_COLLECTOR;
        }
        program.envs([session::timeout(timeout)]).envs(plan.mistake.map(Mistake::variable));
        let session = (0..MAX_OPENS).find_map(|_| open(&mut program)).unwrap();
        proxy.take_records();
        proxy.fault_at_random(faults::at_random(seed));
        Self { process, seed, timeout, proxy, session }
    }

    fn work(&mut self, commands: usize, clock: Instant) -> Vec<Call> {
        let mut calls = Vec::new();
        for Step { command, lost } in workload::steps(self.seed, commands, self.timeout) {
            if let Some(fault) = lost {
                faults::lose_change(&self.proxy, fault);
            }
            let called = clock.elapsed();
            let reply = self.session.request(&command).unwrap();
            self.proxy.withdraw_exact();
            calls.push(Call { process: self.process, command, called, responded: clock.elapsed(), reply: Some(reply) });
        }
        calls
    }

    fn collect_until(&mut self, is_over: &AtomicBool, pause: Duration) -> Collected {
        let mut collected = Collected::default();
        while !is_over.load(Ordering::Relaxed) {
            let start = Instant::now();
            while start.elapsed() < pause && !is_over.load(Ordering::Relaxed) {
                thread::sleep(TICK);
            }
            let reply: Option<(usize, usize)> = serde_json::from_str(&self.session.request(COLLECT).unwrap()).unwrap();
            let (objects, commits) = reply.unwrap_or_default();
            collected.objects += objects;
            collected.commits += commits;
        }
        collected
    }
}

/// Returns how long a process without faults takes to start and to open its store.
fn time_of_process(server: &dyn Server, prefix: &Path) -> Duration {
    let mut program = program(server, server.url(), prefix).unwrap();
    let attempt = |_| {
        let start = Instant::now();
        open(&mut program).map(|_| start.elapsed())
    };
    (0..MAX_OPENS).find_map(attempt).unwrap()
}

/// Starts a process and opens its store. Returns `None` after a timeout.
fn open(program: &mut Command) -> Option<Session> {
    let mut session = Session::start(program).unwrap();
    session.request(json!({"command": "view", "path": "/memories"})).ok()?;
    Some(session)
}
