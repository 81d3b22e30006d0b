//! [`Recording`]: what processes that worked at once on one store were told, and when.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use memory_tool_core::{Engine, Error, FailureKind, MemoryPath, MemoryTool, Store, StoreError};
use memory_tool_object_store::BucketStore;
use memory_tool_test_checker::{Answer, Operation};
use memory_tool_test_servers::{Proxy, Record, Server};
use object_store::path::Path;
use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::faults;
use crate::workload::{self, Step};
use memory_tool_test_object_stores::Mistake;
use memory_tool_test_object_stores::client;
use memory_tool_test_object_stores::reference::{Files, batch_of, files_of, line_of};
use memory_tool_test_object_stores::session::{COLLECT, Session, deadline, program};

/// How many processes work at once; one more collects what they leave behind.
pub(crate) const PROCESSES: usize = 4;

/// How often a process may try to open the store, which takes more requests than any command, on a machine that is busy.
const OPENINGS: usize = 20;

/// The time between two collections.
const PAUSE: Duration = Duration::from_millis(5);

/// What is to be recorded.
pub(crate) struct Plan {
    /// What all choices follow from.
    pub(crate) seed: u64,
    /// The commands of each process.
    pub(crate) commands: usize,
    pub(crate) mistake: Option<Mistake>,
}

/// All that happened.
pub(crate) struct Recording {
    pub(crate) start: Files,
    pub(crate) calls: Vec<Call>,
    /// The requests of all processes.
    pub(crate) requests: Vec<Record>,
    /// How many objects were collected meanwhile.
    pub(crate) collected: usize,
    pub(crate) end: Files,
}

impl Recording {
    /// Lets processes work on a new store beneath the prefix until all have done what is planned.
    pub(crate) fn make(server: &dyn Server, prefix: &Path, plan: &Plan) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let store = runtime.block_on(BucketStore::open(client(server).unwrap(), prefix.clone())).unwrap();
        let start = workload::start();
        runtime.block_on(store.apply(batch_of(&start))).unwrap();

        let clock = Instant::now();
        let start_worker = |process| Worker::start(server, prefix, plan, process);
        let mut workers: Vec<_> = (0..PROCESSES).map(start_worker).collect();
        let mut collector = start_worker(PROCESSES);
        collector.proxy.fault_at_random(faults::at_random_and_late(collector.seed));
        let (mut calls, collected) = work_at_once(&mut workers, &mut collector, plan.commands, clock);
        let requests = workers.iter().chain([&collector]).flat_map(|worker| worker.proxy.take_records()).collect();

        let end = runtime.block_on(files_of(&store));
        calls.extend(runtime.block_on(look_at(&Engine::new(store), &end, clock)));
        Self { start, calls, requests, collected, end }
    }
}

/// Everything that the processes were told, and how many objects were collected meanwhile.
fn work_at_once(workers: &mut [Worker], collector: &mut Worker, commands: usize, clock: Instant) -> (Vec<Call>, usize) {
    let is_over = AtomicBool::new(false);
    thread::scope(|threads| {
        let collecting = threads.spawn(|| collector.collect_until(&is_over));
        let working: Vec<_> =
            workers.iter_mut().map(|worker| threads.spawn(move || worker.work(commands, clock))).collect();
        let calls: Vec<_> = working.into_iter().map(|worker| worker.join()).collect();
        is_over.store(true, Ordering::Relaxed); // also where one failed, or nobody would see why
        (calls.into_iter().flat_map(Result::unwrap).collect(), collecting.join().unwrap())
    })
}

/// What a client is shown of all files when nobody else is at work any more.
async fn look_at(tool: &dyn MemoryTool, files: &Files, clock: Instant) -> Vec<Call> {
    let mut calls = Vec::new();
    for path in files.keys().cloned().chain([MemoryPath::root()]) {
        let command = json!({"command": "view", "path": path.to_string()});
        let called = clock.elapsed();
        let reply = line_of(&tool.call(command.clone()).await);
        calls.push(Call { process: PROCESSES, command, called, answered: clock.elapsed(), reply });
    }
    calls
}

/// A process, and the proxy between it and the server.
struct Worker {
    process: usize,
    /// What its commands and faults follow from.
    seed: u64,
    proxy: Proxy,
    session: Session,
}

impl Worker {
    /// Starts a process, and lets faults begin when it has opened the store.
    fn start(server: &dyn Server, prefix: &Path, plan: &Plan, process: usize) -> Self {
        let seed = plan.seed.wrapping_mul(PROCESSES as u64 + 1).wrapping_add(process as u64);
        let proxy = Proxy::start(server.url()).unwrap();
        let mut program = program(server, proxy.url(), prefix).unwrap();
        program.envs([deadline(faults::DEADLINE)]).envs(plan.mistake.map(Mistake::variable));
        let session = (0..OPENINGS).find_map(|_| open(&mut program)).unwrap();
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
            let reply = self.session.ask(&command).unwrap();
            self.proxy.withdraw_exact();
            calls.push(Call { process: self.process, command, called, answered: clock.elapsed(), reply });
        }
        calls
    }

    /// Collects again and again, and gives how many objects were removed.
    fn collect_until(&mut self, is_over: &AtomicBool) -> usize {
        let mut removed = 0;
        while !is_over.load(Ordering::Relaxed) {
            let answer: Option<usize> = serde_json::from_str(&self.session.ask(COLLECT).unwrap()).unwrap();
            removed += answer.unwrap_or(0);
            thread::sleep(PAUSE);
        }
        removed
    }
}

/// A process that has opened the store, unless it did not come to that before its deadline.
fn open(program: &mut Command) -> Option<Session> {
    let mut session = Session::start(program).unwrap();
    session.ask(json!({"command": "view", "path": "/memories"})).ok()?;
    Some(session)
}

/// A command of a process.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) process: usize,
    pub(crate) command: Value,
    /// Before it was sent.
    pub(crate) called: Duration,
    /// After its reply was there.
    pub(crate) answered: Duration,
    pub(crate) reply: String,
}

/// What a reply says of the command's effect.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    /// It had that which the reply shows.
    Known,
    /// Nobody knows.
    Unknown,
    /// It had none.
    Failed,
}

impl Call {
    pub(crate) fn outcome(&self) -> Outcome {
        let says = |kind| self.reply == failure(kind);
        if says(FailureKind::OutcomeUnknown) {
            Outcome::Unknown
        } else if says(FailureKind::Busy) || says(FailureKind::Other) {
            Outcome::Failed
        } else {
            Outcome::Known
        }
    }

    /// The operation that the checker sees. One that had no effect is none.
    pub(crate) fn operation(&self) -> Option<Operation<Value, String>> {
        let answer = match self.outcome() {
            Outcome::Known => Some(Answer { reply: self.reply.clone(), at: self.answered }),
            Outcome::Unknown => None,
            Outcome::Failed => return None,
        };
        Some(Operation { command: self.command.clone(), called: self.called, answer })
    }

    /// Whether another process worked on the same paths at the same time, and at least one of the two to change them.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        let is_at_once = self.called <= other.answered && other.called <= self.answered;
        let changes = |call: &Self| call.command["command"] != "view";
        let overlap = || self.paths().iter().any(|path| other.paths().iter().any(|other| path.overlaps(other)));
        self.process != other.process && is_at_once && (changes(self) || changes(other)) && overlap()
    }

    fn paths(&self) -> Vec<MemoryPath> {
        let fields = ["path", "old_path", "new_path"].into_iter();
        fields.filter_map(|field| self.command[field].as_str()?.parse().ok()).collect()
    }
}

/// What the model reads of a failure.
fn failure(kind: FailureKind) -> String {
    line_of(&Err(Error::Storage { kind, source: StoreError::failure(kind, "", "") }))
}
