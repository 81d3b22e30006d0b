//! [`Recording`]: the replies of concurrent processes on one memory, with their times.

use std::fmt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use memory_tool_core::{BoxError, Engine, MemoryTool, OpenOptions, Store, StorePath};
use memory_tool_history::HistoryStore;
use memory_tool_test_fixtures::agreement::disagreement;
use memory_tool_test_fixtures::by_tier;
use memory_tool_test_fixtures::linearizability::workload::{command, generate, start};
use memory_tool_test_fixtures::linearizability::{Call, Outcome, batch_of, check_log, check_order, files_of, line_of};
use memory_tool_test_fixtures::session::Session;
use memory_tool_test_postgres::{name_store, open, open_with};
use serde_json::{Value, json};
use tokio::runtime::Builder;

/// The number of concurrent processes.
const PROCESSES: usize = 4;

/// The number of memories of a recording. Every second one has a history. Each has an order of its commands.
const MEMORIES: usize = 1;
const MEMORIES_OF_LONG_TIER: usize = 4;

/// The number of commands with a known effect of each memory.
const COMMANDS: usize = 250;
const _: () = assert!(MEMORIES_OF_LONG_TIER * COMMANDS >= 1_000);

/// The timeout of a command: short, so that commands on a silent server fail soon, but enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The time between attempts while the server does not respond.
const PAUSE: Duration = Duration::from_millis(20);

/// How often a disturbance checks whether the processes have ended.
const TICK: Duration = Duration::from_millis(2);

/// The number of attempts after the faults.
const MAX_ATTEMPTS: usize = 500;

/// The name of a memory with a history.
const WITH_HISTORY: &str = "with-history";

/// Opens the store that a process serves.
pub(crate) async fn served_store(url: &str) -> Result<Box<dyn Store>, BoxError> {
    let store = open_with(url, OpenOptions::new().timeout(TIMEOUT)).await?;
    Ok(if url.contains(WITH_HISTORY) { Box::new(HistoryStore::new(store)) } else { Box::new(store) })
}

/// Starts a process that serves the store at the URL.
pub(crate) fn start_session(url: &str) -> Session {
    let mut program = Command::new(std::env::current_exe().unwrap());
    name_store(&mut program, url);
    Session::start_as(&mut program)
}

/// How the processes of a recording reach the database and end.
pub(crate) struct Plan<'a> {
    pub(crate) seed: u64,
    /// The URL for the checks.
    pub(crate) url: String,
    /// The URL for each process.
    pub(crate) url_of_process: &'a (dyn Fn(usize) -> String + Sync),
    /// The probability that a process is killed during a command.
    pub(crate) kills: f64,
    /// The number of faults that each memory has to meet.
    pub(crate) least_faults: usize,
}

/// The progress of the processes of a memory, and of the disturbance.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Commands with a known effect.
    known: AtomicUsize,
    pub(crate) faults: AtomicUsize,
    least_faults: usize,
    is_over: AtomicBool,
}

impl Progress {
    fn goes_on(&self) -> bool {
        self.known.load(Ordering::Relaxed) < COMMANDS || self.faults.load(Ordering::Relaxed) < self.least_faults
    }

    /// Waits for a while. Returns false if the processes have ended.
    pub(crate) fn pause(&self, pause: Duration) -> bool {
        let end = Instant::now() + pause;
        while Instant::now() < end && !self.is_over.load(Ordering::Relaxed) {
            thread::sleep(TICK);
        }
        !self.is_over.load(Ordering::Relaxed)
    }
}

/// The counts of a recording.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    calls: usize,
    pub(crate) known: usize,
    pub(crate) unknown: usize,
    pub(crate) failed: usize,
    kills: usize,
    faults: usize,
    working: Duration,
    checking: Duration,
}

impl Recording {
    /// Runs the plan while `disturb` runs, until its argument is true. Then heals the faults, and checks everything.
    pub(crate) fn new(plan: &Plan<'_>, disturb: impl Fn(&Progress) + Sync, heal: impl Fn()) -> Result<Self, Failed> {
        let mut recording = Self::default();
        for memory in 0..by_tier(MEMORIES, MEMORIES_OF_LONG_TIER) {
            recording.add(plan, memory, &disturb, &heal).map_err(|error| format!("memory {memory}: {error}"))?;
        }
        Ok(recording)
    }

    fn add(
        &mut self,
        plan: &Plan<'_>,
        memory: usize,
        disturb: &(impl Fn(&Progress) + Sync),
        heal: &impl Fn(),
    ) -> Result<(), BoxError> {
        let name = if memory.is_multiple_of(2) { format!("{WITH_HISTORY}-{memory}") } else { memory.to_string() };
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let url = format!("{}?memory={name}", plan.url);
        let before = start();
        let store = runtime.block_on(async {
            let store = served_store(&url).await?;
            store.apply(batch_of(&before)).await?;
            Ok::<_, BoxError>(store)
        })?;
        drop(store);
        let (clock, progress) = (Instant::now(), Progress { least_faults: plan.least_faults, ..Progress::default() });
        let worker = |process: usize| Worker {
            process,
            seed: plan.seed.wrapping_mul(1_000).wrapping_add((memory * PROCESSES + process) as u64),
            url: format!("{}?memory={name}", (plan.url_of_process)(process)),
            kills: plan.kills,
            clock,
        };
        let (mut calls, mut sessions) = thread::scope(|threads| {
            threads.spawn(|| disturb(&progress));
            let progress = &progress;
            let working: Vec<_> =
                (0..PROCESSES).map(|process| threads.spawn(move || worker(process).work(progress))).collect();
            let ended: Vec<_> = working.into_iter().map(thread::ScopedJoinHandle::join).collect();
            progress.is_over.store(true, Ordering::Relaxed); // also after a failure, so that its cause is reported
            let (calls, sessions): (Vec<_>, Vec<_>) = ended.into_iter().map(Result::unwrap).unzip();
            (calls.concat(), sessions)
        });
        heal();
        self.working += clock.elapsed();
        self.faults += progress.faults.load(Ordering::Relaxed);
        let checked = Instant::now();
        for session in &mut sessions {
            works_again(session)?;
        }
        let end = runtime.block_on(async {
            let store = open(&url).await?;
            let end = files_of(&store).await;
            if url.contains(WITH_HISTORY)
                && let Some(disagreement) = disagreement(&HistoryStore::new(store.clone())).await?
            {
                return Err(disagreement.into());
            }
            let tool = Engine::new(store);
            for path in end.keys().cloned().chain([StorePath::memories()]) {
                let called = clock.elapsed();
                let command = json!({"command": "view", "path": path.to_string()});
                let reply = Some(line_of(&tool.call(command.clone()).await));
                calls.push(Call { process: PROCESSES, command, called, responded: clock.elapsed(), reply });
            }
            Ok::<_, BoxError>(end)
        })?;
        self.count(&calls);
        check_order(&before, &calls)?;
        check_log(&calls, &end)?;
        self.checking += checked.elapsed();
        Ok(())
    }

    fn count(&mut self, calls: &[Call]) {
        let count = |outcome| calls.iter().filter(|call| call.outcome() == outcome).count();
        self.calls += calls.len();
        self.known += count(Outcome::Known);
        self.unknown += count(Outcome::Unknown);
        self.failed += count(Outcome::Failed);
        self.kills += calls.iter().filter(|call| call.reply.is_none()).count();
    }
}

impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calls, known, unknown, failed, kills, faults, working, checking } = self;
        write!(f, "{calls} calls in {working:.1?}, checked in {checking:.1?}: {known} with a known outcome, ")?;
        write!(f, "{unknown} unknown ({kills} killed), {failed} failed, {faults} faults")
    }
}

/// A process must serve its memory after the faults.
fn works_again(session: &mut Session) -> Result<(), BoxError> {
    let view = json!({"command": "view", "path": "/memories"}).to_string();
    let mut last = Value::Null;
    for _ in 0..MAX_ATTEMPTS {
        last = session.call(&view);
        if last.get("is_error").is_none() {
            return Ok(());
        }
        thread::sleep(PAUSE);
    }
    Err(format!("a process does not work again: {last}").into())
}

struct Worker {
    process: usize,
    seed: u64,
    url: String,
    kills: f64,
    clock: Instant,
}

impl Worker {
    /// Runs commands until all processes together have enough of them and have met enough faults.
    fn work(self, progress: &Progress) -> (Vec<Call>, Session) {
        let mut session = self.open();
        let mut calls = Vec::new();
        let step = (command(), (0.0..1.0, 0_u64..6_000));
        while progress.goes_on() {
            let seed = self.seed.wrapping_mul(100_000).wrapping_add(calls.len() as u64);
            let (command, (chance, microseconds)) = generate(seed, &step, 1).remove(0);
            let called = self.clock.elapsed();
            session.send(command.to_string());
            let reply = if chance < self.kills {
                thread::sleep(Duration::from_micros(microseconds));
                session = self.open();
                None
            } else {
                Some(session.receive_line().unwrap_or_else(|| panic!("{command} ended the process")))
            };
            let reply = reply.map(|reply| String::from_utf8(reply).unwrap());
            let call = Call { process: self.process, command, called, responded: self.clock.elapsed(), reply };
            match call.outcome() {
                Outcome::Known => drop(progress.known.fetch_add(1, Ordering::Relaxed)),
                Outcome::Unknown => {}
                Outcome::Failed => thread::sleep(PAUSE),
            }
            calls.push(call);
        }
        (calls, session)
    }

    /// Starts a process. While the server does not respond, it ends without a reply, and another one is started.
    fn open(&self) -> Session {
        for _ in 0..MAX_ATTEMPTS {
            let mut session = start_session(&self.url);
            session.send_raw(format!("{}\n", json!({"command": "view", "path": "/memories"})));
            if session.receive_line().is_some() {
                return session;
            }
            thread::sleep(PAUSE);
        }
        panic!("no process can open the store");
    }
}
