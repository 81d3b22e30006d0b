//! [`Recording`]: the replies of concurrent processes on one store, with their times.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use memory_tool_bucket::BucketStore;
use memory_tool_core::{Engine, Error, FailureKind, MemoryPath, MemoryTool, Store, StoreError};
use memory_tool_test_checker::{Operation, Response};
use memory_tool_test_servers::{Proxy, Record, Server};
use object_store::path::Path;
use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::faults;
use crate::workload::{self, Step};
use memory_tool_test_buckets::Mistake;
use memory_tool_test_buckets::client;
use memory_tool_test_buckets::reference::{Files, batch_of, files_of, line_of};
use memory_tool_test_buckets::session::{COLLECT, Session, program, timeout};

/// The number of concurrent processes. One more collects garbage.
pub(crate) const PROCESSES: usize = 4;

/// The maximum number of attempts to open the store, which takes more requests than any command.
const MAX_OPENS: usize = 20;

/// The time between two garbage collections.
const PAUSE: Duration = Duration::from_millis(5);

/// The plan of a recording.
pub(crate) struct Plan {
    /// The seed of all random choices.
    pub(crate) seed: u64,
    /// The number of commands of each process.
    pub(crate) commands: usize,
    pub(crate) mistake: Option<Mistake>,
}

/// A complete recording.
pub(crate) struct Recording {
    pub(crate) start: Files,
    pub(crate) calls: Vec<Call>,
    /// The requests of all processes.
    pub(crate) requests: Vec<Record>,
    /// The number of objects that garbage collection removed.
    pub(crate) collected: usize,
    pub(crate) end: Files,
}

impl Recording {
    /// Runs the plan on a new store under the prefix.
    pub(crate) fn new(server: &dyn Server, prefix: &Path, plan: &Plan) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let store = runtime.block_on(BucketStore::open(client(server).unwrap(), prefix.clone())).unwrap();
        let start = workload::start();
        runtime.block_on(store.apply(batch_of(&start))).unwrap();

        let clock = Instant::now();
        let start_worker = |process| Worker::start(server, prefix, plan, process);
        let mut workers: Vec<_> = (0..PROCESSES).map(start_worker).collect();
        let mut collector = start_worker(PROCESSES);
        collector.proxy.fault_at_random(faults::at_random_and_late(collector.seed));
        let (mut calls, collected) = run_workers(&mut workers, &mut collector, plan.commands, clock);
        let requests = workers.iter().chain([&collector]).flat_map(|worker| worker.proxy.take_records()).collect();

        let end = runtime.block_on(files_of(&store));
        calls.extend(runtime.block_on(view_all(&Engine::new(store), &end, clock)));
        Self { start, calls, requests, collected, end }
    }
}

/// Runs all processes. Returns their calls and the number of collected objects.
fn run_workers(workers: &mut [Worker], collector: &mut Worker, commands: usize, clock: Instant) -> (Vec<Call>, usize) {
    let is_over = AtomicBool::new(false);
    thread::scope(|threads| {
        let collecting = threads.spawn(|| collector.collect_until(&is_over));
        let working: Vec<_> =
            workers.iter_mut().map(|worker| threads.spawn(move || worker.work(commands, clock))).collect();
        let calls: Vec<_> = working.into_iter().map(|worker| worker.join()).collect();
        is_over.store(true, Ordering::Relaxed); // also after a failure, so that its cause is reported
        (calls.into_iter().flat_map(Result::unwrap).collect(), collecting.join().unwrap())
    })
}

/// Views all files after the other processes have finished.
async fn view_all(tool: &dyn MemoryTool, files: &Files, clock: Instant) -> Vec<Call> {
    let mut calls = Vec::new();
    for path in files.keys().cloned().chain([MemoryPath::root()]) {
        let command = json!({"command": "view", "path": path.to_string()});
        let called = clock.elapsed();
        let reply = line_of(&tool.call(command.clone()).await);
        calls.push(Call { process: PROCESSES, command, called, responded: clock.elapsed(), reply });
    }
    calls
}

/// A process, and the proxy between it and the server.
struct Worker {
    process: usize,
    /// The seed of its commands and faults.
    seed: u64,
    proxy: Proxy,
    session: Session,
}

impl Worker {
    /// Starts a process. Faults begin after it has opened the store.
    fn start(server: &dyn Server, prefix: &Path, plan: &Plan, process: usize) -> Self {
        let seed = plan.seed.wrapping_mul(PROCESSES as u64 + 1).wrapping_add(process as u64);
        let proxy = Proxy::start(server.url()).unwrap();
        let mut program = program(server, proxy.url(), prefix).unwrap();
        program.envs([timeout(faults::TIMEOUT)]).envs(plan.mistake.map(Mistake::variable));
        let session = (0..MAX_OPENS).find_map(|_| open(&mut program)).unwrap();
        proxy.take_records();
        proxy.fault_at_random(faults::at_random(seed));
        Self { process, seed, proxy, session }
    }

    fn work(&mut self, commands: usize, clock: Instant) -> Vec<Call> {
        let mut calls = Vec::new();
        for Step { command, lost } in workload::steps(self.seed, commands) {
            if let Some(fault) = lost {
                faults::lose_change(&self.proxy, fault);
            }
            let called = clock.elapsed();
            let reply = self.session.request(&command).unwrap();
            self.proxy.withdraw_exact();
            calls.push(Call { process: self.process, command, called, responded: clock.elapsed(), reply });
        }
        calls
    }

    /// Collects garbage repeatedly, and returns the number of removed objects.
    fn collect_until(&mut self, is_over: &AtomicBool) -> usize {
        let mut removed = 0;
        while !is_over.load(Ordering::Relaxed) {
            let reply: Option<usize> = serde_json::from_str(&self.session.request(COLLECT).unwrap()).unwrap();
            removed += reply.unwrap_or(0);
            thread::sleep(PAUSE);
        }
        removed
    }
}

/// Starts a process and opens its store. Returns `None` after a timeout.
fn open(program: &mut Command) -> Option<Session> {
    let mut session = Session::start(program).unwrap();
    session.request(json!({"command": "view", "path": "/memories"})).ok()?;
    Some(session)
}

/// A command of a process.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) process: usize,
    pub(crate) command: Value,
    /// A time before it was sent.
    pub(crate) called: Duration,
    /// A time after its reply was received.
    pub(crate) responded: Duration,
    pub(crate) reply: String,
}

/// The effect of a command according to its reply.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    /// The command had the effect that the reply describes.
    Known,
    /// The effect is unknown.
    Unknown,
    /// The command had no effect.
    Failed,
}

impl Call {
    pub(crate) fn outcome(&self) -> Outcome {
        let reports = |kind| self.reply == failure(kind);
        if reports(FailureKind::OutcomeUnknown) {
            Outcome::Unknown
        } else if reports(FailureKind::Busy) || reports(FailureKind::Other) {
            Outcome::Failed
        } else {
            Outcome::Known
        }
    }

    /// Returns the operation for the checker, or `None` if it had no effect.
    pub(crate) fn operation(&self) -> Option<Operation<Value, String>> {
        let response = match self.outcome() {
            Outcome::Known => Some(Response { reply: self.reply.clone(), at: self.responded }),
            Outcome::Unknown => None,
            Outcome::Failed => return None,
        };
        Some(Operation { command: self.command.clone(), called: self.called, response })
    }

    /// Whether another process used the same paths at the same time, and at least one of the two calls is a change.
    pub(crate) fn conflicts_with(&self, other: &Self) -> bool {
        let is_concurrent = self.called <= other.responded && other.called <= self.responded;
        let changes = |call: &Self| call.command["command"] != "view";
        let overlap = || self.paths().iter().any(|path| other.paths().iter().any(|other| path.overlaps(other)));
        self.process != other.process && is_concurrent && (changes(self) || changes(other)) && overlap()
    }

    fn paths(&self) -> Vec<MemoryPath> {
        let fields = ["path", "old_path", "new_path"].into_iter();
        fields.filter_map(|field| self.command[field].as_str()?.parse().ok()).collect()
    }
}

/// The reply to the model for a failure.
fn failure(kind: FailureKind) -> String {
    line_of(&Err(Error::Storage { kind, source: StoreError::failure(kind, "", "") }))
}
