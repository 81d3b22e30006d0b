//! [`simulate`]: a run of a cluster.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::time::Duration;

use futures::future::join_all;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use memory_tool_bucket::DEFAULT_GRACE;
use memory_tool_core::{Batch, Engine, Error, ErrorKind, MemoryTool as _, StoreError, StoreExt as _, StorePath};
use memory_tool_history::LogFilter;
use memory_tool_test_fixtures::Objects as CollectedObjects;
use memory_tool_test_fixtures::linearizability::workload::start as files;
use memory_tool_test_fixtures::linearizability::{Call, Files, Mistake, Outcome, batch_of, files_of, line_of};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::bucket::{Bucket, Connection, Faults, Objects};
use crate::checks::{Part, PartOfHistory};
use crate::plan::{Event, Plan, Process, Task};
use crate::random;
use crate::session::{PREFIX, Session, builder};
use crate::start::{objects, runtime};

/// Longer than the time after which a session checks the log again, however slow its requests were.
const IDLE: Duration = Duration::from_secs(60 * 60);
/// Far longer than any run.
const LIMIT: Duration = Duration::from_secs(24 * 60 * 60);
const PATIENCE: Duration = Duration::from_secs(30);
/// The number of the process that looks at the store after a part.
const OBSERVER: usize = 99;

/// The result of a run.
#[derive(Debug)]
#[non_exhaustive]
pub struct Run {
    /// A number that depends on all requests and their outcomes.
    pub hash: u64,
    /// The requests, if they were traced.
    pub requests: Option<Vec<String>>,
    /// What happened.
    pub stats: Stats,
    /// The first defect.
    pub result: Result<(), String>,
}

/// Counts of what happened.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Commands.
    pub calls: usize,
    /// Commands with an unknown outcome, also of processes that were killed.
    pub unknown: usize,
    /// Commands that failed without an effect.
    pub failed: usize,
    /// Commits that collections trimmed.
    pub trimmed: usize,
    /// Objects that collections removed.
    pub removed: usize,
}

/// Runs the cluster of a seed, whose tasks have at most `most` commands in each part. The sessions may make a mistake.
pub fn simulate(seed: u64, most: usize, is_traced: bool, mistake: Option<Mistake>) -> Run {
    random::seed(seed);
    let plan = Plan::draw(most);
    let objects = objects(plan.start, plan.has_history);
    random::seed(seed);
    let runtime = runtime();
    let (log, stats, parts, result) = runtime.block_on(async {
        random::start();
        let bucket = Bucket::new(plan.cloud, plan.page, objects, is_traced);
        let cluster = Cluster::new(plan, &bucket, mistake);
        let endless = |_| cluster.defect().and(Err(format!("it does not end within {LIMIT:?}")));
        let result = timeout(LIMIT, cluster.run()).await.unwrap_or_else(endless);
        (bucket.log(), cluster.stats.get(), cluster.parts.take(), result)
    });
    drop(runtime);
    random::stop();
    let result = result.and_then(|()| parts.iter().try_for_each(Part::check));
    Run { hash: log.hash(), requests: log.lines, stats, result }
}

struct Cluster<'a> {
    plan: Plan,
    bucket: &'a std::sync::Arc<Bucket>,
    mistake: Option<Mistake>,
    part: RefCell<Part>,
    parts: RefCell<Vec<Part>>,
    /// Counts calls and replies, for their order.
    time: Cell<u64>,
    is_over: Cell<bool>,
    stats: Cell<Stats>,
    /// The first defect.
    defect: RefCell<Option<String>>,
}

impl<'a> Cluster<'a> {
    fn new(plan: Plan, bucket: &'a std::sync::Arc<Bucket>, mistake: Option<Mistake>) -> Self {
        Self {
            plan,
            bucket,
            mistake,
            part: RefCell::default(),
            parts: RefCell::default(),
            time: Cell::default(),
            is_over: Cell::default(),
            stats: Cell::default(),
            defect: RefCell::default(),
        }
    }

    async fn run(&self) -> Result<(), String> {
        let mut sessions: Vec<Option<Session>> = vec![None; self.plan.processes.len()];
        let backup = RefCell::new(None);
        for part in 0..2 {
            let is_new = part == 0 && self.bucket.objects().keys_with("").is_empty();
            let (start, newest) = if is_new { (Files::new(), 0) } else { self.observe().await? };
            self.part.replace(Part { start, ..Part::default() });
            let backing_up = async {
                sleep(random::time_up_to(Duration::from_secs(2))).await;
                backup.replace(Some(self.bucket.objects().clone()));
            };
            let working = self.work(part, &mut sessions);
            futures::join!(working, backing_up.boxed_local());
            self.end_part(&sessions, newest).await?;
            if part == 0 {
                self.event(&mut sessions, backup.take()).await?;
            }
        }
        self.check_collection().await
    }

    fn report(&self, what: String) {
        self.bucket.note(&what);
        self.defect.borrow_mut().get_or_insert(what);
    }

    /// Damage is a defect, and so is any failure without faults.
    fn expect<T, E: Debug>(
        &self,
        result: Result<T, E>,
        kind: impl FnOnce(&E) -> Option<ErrorKind>,
        what: &str,
    ) -> Option<T> {
        let error = match result {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        let kind = kind(&error);
        if kind == Some(ErrorKind::Damaged)
            || self.plan.faults.each == 0.0 && kind.is_some_and(|kind| kind != ErrorKind::Busy)
        {
            self.report(format!("{what}: {error:?}"));
        }
        None
    }

    fn defect(&self) -> Result<(), String> {
        self.defect.take().map_or(Ok(()), Err)
    }

    /// Runs all processes, in the presence of the tasks.
    async fn work(&self, part: usize, sessions: &mut [Option<Session>]) {
        self.bucket.set_faults(self.plan.faults);
        random::make_clocks_wrong(self.plan.clocks_wrong_by);
        self.is_over.set(false);
        let processes = self.plan.processes.iter().enumerate().zip(sessions);
        let processes = processes.map(|((number, process), session)| self.process(number, process, part, session));
        let working = async {
            processes.collect::<FuturesUnordered<_>>().collect::<Vec<_>>().await;
            self.is_over.set(true);
        };
        let tasks = self.plan.tasks.iter().enumerate().map(|(number, task)| self.maintain(50 + number, *task));
        futures::join!(working.boxed_local(), join_all(tasks).boxed_local());
        self.bucket.set_faults(Faults::default());
        random::make_clocks_wrong(Duration::ZERO);
    }

    /// Opens the store until that succeeds.
    async fn open(&self, number: usize, distance: Duration) -> Session {
        loop {
            let client = self.bucket.client(number, distance);
            let opened = Session::open(client, self.plan.timeout, self.plan.has_history, self.mistake).await;
            if let Some(session) = self.expect(opened, |error| Some(error.kind()), "opening") {
                return session;
            }
            if self.defect.borrow().is_some() {
                std::future::pending::<()>().await;
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Runs the commands of a process, which is killed at times, and started again.
    async fn process(&self, number: usize, process: &Process, part: usize, session: &mut Option<Session>) {
        let mut tasks: Vec<VecDeque<_>> = process.commands[part].iter().cloned().map(VecDeque::from).collect();
        loop {
            let opened = match session.take() {
                Some(session) => session,
                None => self.open(number, process.distance).await,
            };
            let tasks = tasks.iter_mut().map(|commands| self.commands(number, &opened, commands));
            let is_killed = random::happens(self.plan.interruptions);
            let life =
                if is_killed { random::time_up_to(Duration::from_secs(1)) } else { Duration::from_secs(1_000_000) };
            match timeout(life, join_all(tasks)).await {
                Ok(_) => return *session = Some(opened),
                Err(_) => opened.client.kill(),
            }
        }
    }

    async fn commands(&self, number: usize, session: &Session, commands: &mut VecDeque<Value>) {
        while let Some(command) = commands.pop_front() {
            sleep(random::time_up_to(self.plan.pause)).await;
            self.call(number, session, command).await;
        }
    }

    fn tick(&self) -> Duration {
        self.time.set(self.time.get() + 1);
        Duration::from_nanos(self.time.get())
    }

    async fn call(&self, process: usize, session: &Session, command: Value) {
        let call =
            Call { process, command: command.clone(), called: self.tick(), responded: Duration::MAX, reply: None };
        let number = self.part.borrow().calls.len();
        self.bucket.note(format_args!("process {process} calls {number}: {command:.100}"));
        self.part.borrow_mut().calls.push(call);
        let tool = Engine::new(session.for_call(number));
        let calling = tool.call(command);
        let reply = if random::happens(self.plan.interruptions / 4.0) {
            timeout(random::time_up_to(Duration::from_millis(200)), calling).await.ok()
        } else {
            Some(calling.await)
        };
        let Some(reply) = reply else { return };
        let mut part = self.part.borrow_mut();
        let call = &mut part.calls[number];
        (call.reply, call.responded) = (Some(line_of(&reply)), self.tick());
        self.bucket.note(format_args!("process {process} called {number}: {:.100}", line_of(&reply)));
        let kind = |error: &Error| if let Error::Storage { kind, .. } = error { Some(*kind) } else { None };
        self.expect(reply, kind, "a command");
    }

    /// Does the work of a task until the processes have ended.
    async fn maintain(&self, number: usize, task: Task) {
        let distance = Duration::from_millis(random::within(0..30));
        let mut session = self.open(number, distance).await;
        while !self.is_over.get() {
            sleep(random::time_up_to(Duration::from_secs(1))).await;
            let is_killed = random::happens(self.plan.interruptions);
            let life =
                if is_killed { random::time_up_to(Duration::from_millis(500)) } else { Duration::from_secs(10_000) };
            if timeout(life, self.work_on(task, &session).boxed_local()).await.is_err() || task == Task::Open {
                session.client.kill();
                session = self.open(number, distance).await;
            }
        }
    }

    async fn work_on(&self, task: Task, session: &Session) {
        let kind = |error: &StoreError| Some(error.kind());
        match task {
            Task::Collect => {
                let age = random::one_of(&[Duration::ZERO, Duration::ZERO, Duration::from_secs(2), DEFAULT_GRACE]);
                if let Some(report) = self.expect(session.bucket.gc(age).await, kind, "a collection") {
                    let mut stats = self.stats.get();
                    stats.trimmed += report.trimmed_commits as usize;
                    stats.removed += report.removed_objects as usize;
                    self.stats.set(stats);
                }
            }
            Task::Verify => self.verify(session).await,
            Task::Repair => {
                let repaired = builder(&session.client, self.plan.timeout).repair().await;
                let report = self.expect(repaired, |error| Some(error.kind()), "a repair");
                if let Some(report) = report.filter(|report| report.is_changed || !report.lost.is_empty()) {
                    self.report(format!("an intact store was repaired: {report:?}"));
                }
            }
            Task::Open => _ = self.expect(session.store().list("/memories").await, kind, "a listing"),
        }
    }

    async fn verify(&self, session: &Session) {
        let verified = session.bucket.verify(|_| {}).await;
        let report = self.expect(verified, |error| Some(error.kind()), "a check");
        if let Some(report) = report.filter(|report| !report.problems.is_empty()) {
            self.report(format!("the check of the store found {report:?}"));
        }
        let Some(history) = &session.history else { return };
        let kind = |error: &_| match error {
            memory_tool_history::HistoryError::Store(error) => Some(error.kind()),
            _ => Some(ErrorKind::Other),
        };
        let report = self.expect(history.history().verify().await, kind, "a check of the history");
        if let Some(report) = report.filter(|report| !report.damage.is_empty() || !report.changed_by_others.is_empty())
        {
            self.report(format!("the check of the history found {report:?}"));
        }
    }

    /// A new session without faults.
    async fn observer(&self) -> Result<Session, String> {
        let client = self.bucket.client(OBSERVER, Duration::ZERO);
        let opened = Session::open(client, PATIENCE, self.plan.has_history, None).await;
        opened.map_err(|error| format!("the store cannot be opened: {error:?}"))
    }

    /// The files that a new session finds, and the number of the newest entry of the history.
    async fn observe(&self) -> Result<(Files, u64), String> {
        let session = self.observer().await?;
        let newest = match &session.history {
            Some(history) => history.history().newest().await.map_err(|error| format!("{error:?}"))?,
            None => 0,
        };
        Ok((files_of(session.store()).await, newest))
    }

    /// Checks a part after all requests have arrived. Each session and a new one must see its end.
    async fn end_part(&self, sessions: &[Option<Session>], newest: u64) -> Result<(), String> {
        self.bucket.settle().await;
        self.defect()?;
        let calls = self.part.borrow().calls.clone();
        let observer = self.observer().await?;
        let end = files_of(observer.store()).await;
        for (number, session) in sessions.iter().flatten().enumerate() {
            self.call(number, session, json!({"command": "view", "path": "/memories"})).await;
        }
        for path in end.keys() {
            self.call(OBSERVER, &observer, json!({"command": "view", "path": path.to_string()})).await;
        }
        self.verify(&observer).await;
        self.defect()?;
        let mut stats = self.stats.get();
        let count = |outcome| calls.iter().filter(|call| call.outcome() == outcome).count();
        stats.calls += calls.len();
        stats.unknown += count(Outcome::Unknown);
        stats.failed += count(Outcome::Failed);
        self.stats.set(stats);
        let history = self.history_since(&observer, newest).await?;
        let part = Part { end, history, ..self.part.take() };
        self.parts.borrow_mut().push(part);
        Ok(())
    }

    async fn history_since(&self, session: &Session, start: u64) -> Result<Option<PartOfHistory>, String> {
        let Some(history) = session.history.as_ref().map(|history| history.history()) else { return Ok(None) };
        let entries = history.entries(&LogFilter::new()).await.map_err(|error| format!("{error:?}"))?;
        let new: Vec<_> = entries.into_iter().rev().filter(|entry| entry.number > start).collect();
        if !new.iter().map(|entry| entry.number).eq(start + 1..=start + new.len() as u64) {
            return Err(format!("the history has the entries {new:?} after {start}"));
        }
        let mut past = BTreeMap::new();
        for _ in 0..2.min(new.len()) {
            let index = random::within(0..new.len() as u64);
            let at = history.at(start + index + 1).await.map_err(|error| format!("{error:?}"))?;
            past.insert(index as usize, files_of(&at).await);
        }
        Ok(Some(PartOfHistory { entries: new.into_iter().map(|entry| entry.actor).collect(), past }))
    }

    /// Changes the bucket under the idle sessions.
    async fn event(&self, sessions: &mut [Option<Session>], backup: Option<Objects>) -> Result<(), String> {
        sleep(IDLE).await;
        self.bucket.note(format_args!("{:?}", self.plan.event));
        match (self.plan.event, backup) {
            (Event::Restored, Some(backup)) if !backup.keys_with("/log/").is_empty() => {
                *self.bucket.objects() = backup;
            }
            (Event::Forgotten, _) => {
                let session = self.observer().await?;
                if !files_of(session.store()).await.is_empty() {
                    let batch = Batch::new().remove(StorePath::memories());
                    let batch = if session.history.is_some() { batch.remove(StorePath::records()) } else { batch };
                    session.store().apply(batch).await.map_err(|error| format!("{error:?}"))?;
                }
            }
            (Event::Replaced, _) => return self.replace_store(sessions).await,
            (Event::Damaged, _) => self.damage_and_repair().await?,
            _ => {}
        }
        Ok(())
    }

    /// Creates another store in the place of the one of the sessions, which must not change it.
    async fn replace_store(&self, sessions: &mut [Option<Session>]) -> Result<(), String> {
        *self.bucket.objects() = Objects::default();
        let other = self.observer().await?;
        other.store().apply(batch_of(&files())).await.map_err(|error| format!("{error:?}"))?;
        let before = files_of(other.store()).await;
        sleep(IDLE).await;
        for session in sessions.iter_mut().filter_map(Option::take) {
            let read = session.store().list("/memories").await.map(drop);
            for outcome in [read, session.store().write("/memories/mine", "").await] {
                if outcome.as_ref().map_err(StoreError::kind) != Err(ErrorKind::Damaged) {
                    return Err(format!("a session of a store that was replaced: {outcome:?}"));
                }
            }
        }
        if files_of(other.store()).await == before { Ok(()) } else { Err("the other store was changed".to_owned()) }
    }

    /// Removes an object of the log or a checkpoint. All sessions must see the repaired store.
    async fn damage_and_repair(&self) -> Result<(), String> {
        let part = random::one_of(&["/log/", "/checkpoints/", "/runs/"]);
        let keys = self.bucket.objects().keys_with(part);
        if let Some(key) = (!keys.is_empty()).then(|| random::one_of(&keys)) {
            self.bucket.note(format_args!("{key} is lost"));
            self.bucket.objects().remove(&key);
        }
        let client = self.bucket.client(OBSERVER, Duration::ZERO);
        let repaired = builder(&client, PATIENCE).repair().await.map_err(|error| format!("{error:?}"))?;
        self.bucket.note(format_args!("{repaired:?}"));
        sleep(IDLE).await;
        Ok(())
    }

    /// Everything that is unused can be collected.
    async fn check_collection(&self) -> Result<(), String> {
        let (session, error) = (self.observer().await?, |error: StoreError| format!("{error:?}"));
        let before = files_of(session.store()).await;
        session.bucket.accept_loss().await.map_err(error)?;
        for _ in 0..3 {
            session.bucket.gc(Duration::ZERO).await.map_err(error)?;
        }
        let connection = Connection(std::sync::Arc::clone(&session.client));
        CollectedObjects::read(&connection, &PREFIX.into()).await.check_collected()?;
        let after = files_of(self.observer().await?.store()).await;
        if before == after { Ok(()) } else { Err("a collection changed the files".to_owned()) }
    }
}
