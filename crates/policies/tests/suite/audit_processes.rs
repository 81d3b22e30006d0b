//! One audit log shared by several processes. Some of them are killed.
//!
//! The test starts its own executable as these processes.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use async_trait::async_trait;
use libtest_mimic::Trial;
use memory_tool_core::{
    Actor, Batch, Engine, InMemoryStore, MemoryTool as _, Node, ReadOptions, Store, StoreError, StoreExt as _,
    StorePath,
};
use memory_tool_local::LocalStore;
use memory_tool_policies::{
    AuditEvent, AuditRecord, AuditedChange, AuditedFile, AuditedState, AuditedStore, AuditedTool, JsonLinesLog,
};
use memory_tool_test_fixtures::by_tier;
use memory_tool_test_fixtures::faults::block_on;
use serde_json::json;

const TASK: &str = "MEMORY_TOOL_TEST_TASK";
/// The directory of the log and of the local store, if any.
const DIRECTORY: &str = "MEMORY_TOOL_TEST_DIRECTORY";
const ACTOR: &str = "MEMORY_TOOL_TEST_ACTOR";

const APPEND: &str = "append";
const APPEND_FOR_EVER: &str = "append-for-ever";
const HALT_BEFORE: &str = "halt-before";
const HALT_AFTER: &str = "halt-after";

/// The actor with a store on disk.
const VICTIM_ON_DISK: &str = "victim on disk";

/// The number of files that each process creates in a round before it removes them.
const FILES: usize = 150;
const ROUNDS: usize = 12;

/// Runs the task of a process that a test has started. Returns whether there was one.
pub(crate) fn run_task_if_requested() -> bool {
    let (Ok(task), Some(directory)) = (std::env::var(TASK), std::env::var_os(DIRECTORY)) else { return false };
    run_task(&task, directory.as_ref());
    true
}

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("audit_processes::concurrent_processes_lose_and_mix_no_lines", || {
            append_at_once();
            Ok(())
        }),
        Trial::test("audit_processes::records_survive_kills", || {
            (0..by_tier(5, 40)).for_each(kill_while_appending);
            Ok(())
        }),
        Trial::test("audit_processes::after_a_kill_the_digest_shows_whether_the_change_was_made", || {
            kill_between(HALT_BEFORE, false);
            kill_between(HALT_AFTER, true);
            Ok(())
        }),
    ]
}

fn start(task: &str, directory: &Path, actor: &str) -> (Child, BufReader<ChildStdout>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(TASK, task).env(DIRECTORY, directory).env(ACTOR, actor).stdout(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let output = BufReader::new(process.stdout.take().unwrap());
    (process, output)
}

fn log_in(directory: &Path) -> std::path::PathBuf {
    directory.join("audit.jsonl")
}

struct Trail {
    records: Vec<AuditRecord>,
    /// The number of incomplete lines.
    skipped: usize,
}

impl Trail {
    fn read(directory: &Path) -> Self {
        let log = std::fs::read_to_string(log_in(directory)).unwrap();
        let mut trail = Self { records: Vec::new(), skipped: 0 };
        for line in log.lines().filter(|line| !line.is_empty()) {
            // A process may have appended its record to the incomplete line of a killed one.
            let start = line.rfind(r#"{"format":"#).unwrap_or(0);
            trail.skipped += usize::from(start > 0);
            match serde_json::from_str(&line[start..]) {
                Ok(record) => trail.records.push(record),
                Err(_) => trail.skipped += 1,
            }
        }
        trail
    }

    fn of(&self, actor: &str) -> Vec<AuditRecord> {
        self.records.iter().filter(|record| record.actor == actor).cloned().collect()
    }
}

fn run_task(task: &str, directory: &Path) {
    let actor = Actor::from_trusted_name(&std::env::var(ACTOR).unwrap()).unwrap();
    block_on(async {
        let log = JsonLinesLog::open(log_in(directory)).await.unwrap();
        match task {
            APPEND => append_rounds(Box::new(InMemoryStore::new()), log, actor, ROUNDS).await,
            APPEND_FOR_EVER => {
                let store: Box<dyn Store> = match actor.name() {
                    VICTIM_ON_DISK => Box::new(LocalStore::open(directory.join("store")).await.unwrap()),
                    _ => Box::new(InMemoryStore::new()),
                };
                append_rounds(store, log, actor, usize::MAX).await;
            }
            _ => {
                let store = LocalStore::open(directory.join("store")).await.unwrap();
                let halting = Halting { inner: store, before: task == HALT_BEFORE };
                let store = AuditedStore::new(halting, log.clone(), actor.clone());
                let tool = AuditedTool::new(Engine::builder(store).actor(actor.clone()).build(), log, actor);
                tool.call(edit()).await.unwrap();
            }
        }
    });
}

/// Creates files and removes all of them in one change, whose record is large. Prints the number of completed commands.
async fn append_rounds(store: Box<dyn Store>, log: JsonLinesLog, actor: Actor, rounds: usize) {
    let store = AuditedStore::new(store, log.clone(), actor.clone());
    let tool = AuditedTool::new(Engine::builder(store).actor(actor.clone()).build(), log, actor);
    let mut done = 0;
    for _ in 0..rounds {
        for number in 0..FILES {
            let path = format!("/memories/{}/{number}", "a-rather-long-name-of-a-directory-".repeat(5));
            tool.call(json!({"command": "create", "path": path, "file_text": "text"})).await.unwrap();
            done += 1;
            report(done);
        }
        tool.clear_all_memory().await.unwrap();
        done += 1;
        report(done);
    }
}

fn report(done: usize) {
    println!("{done}");
}

fn append_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let actors: Vec<_> = (0..8).map(|number| format!("process {number}")).collect();
    let processes: Vec<_> = actors.iter().map(|actor| start(APPEND, directory.path(), actor)).collect();
    for (mut process, mut output) in processes {
        output.read_to_string(&mut String::new()).unwrap();
        assert!(process.wait().unwrap().success());
    }
    let commands = ROUNDS * (FILES + 1);
    let trail = Trail::read(directory.path());
    for actor in &actors {
        let records = trail.of(actor);
        assert_eq!(records.len(), 2 * commands);
        assert_in_order(&records);
    }
    assert_eq!((trail.records.len(), trail.skipped), (8 * 2 * commands, 0));
}

/// Checks that the records of one process are complete and in order.
fn assert_in_order(records: &[AuditRecord]) {
    for (command, pair) in records.chunks(2).enumerate() {
        let AuditEvent::Intent { changes } = &pair[0].event else { unreachable!("{:?}", pair[0]) };
        match (&changes[0], command % (FILES + 1)) {
            (AuditedChange::Remove { before: AuditedState::Directory { listed, .. }, .. }, FILES) => {
                assert_eq!(listed.len(), FILES);
            }
            (AuditedChange::Write { path, .. }, number) => assert_eq!(path.file_name(), Some(&*number.to_string())),
            other => unreachable!("{other:?}"),
        }
        if let Some(outcome) = pair.get(1) {
            assert_eq!(outcome.id, pair[0].id);
        }
    }
}

/// Kills two of three appending processes. The log must contain all commands that they reported and all commands of the
/// third.
fn kill_while_appending(round: usize) {
    let directory = tempfile::tempdir().unwrap();
    let victims = ["victim", VICTIM_ON_DISK].map(|actor| (actor, start(APPEND_FOR_EVER, directory.path(), actor)));
    let (mut witness, mut witness_output) = start(APPEND, directory.path(), "witness");
    for (actor, (mut process, mut output)) in victims {
        let mut line = String::new();
        for _ in 0..=round * 11 {
            line.clear();
            output.read_line(&mut line).unwrap();
        }
        process.kill().unwrap();
        process.wait().unwrap();
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        let whole = rest.rfind('\n').map_or("", |end| &rest[..end]);
        let done: usize = whole.lines().last().unwrap_or(line.trim()).parse().unwrap();
        let records = Trail::read(directory.path()).of(actor);
        assert!(records.len() >= 2 * done, "{} records of {done} commands", records.len());
        assert_in_order(&records);
    }
    witness_output.read_to_string(&mut String::new()).unwrap();
    assert!(witness.wait().unwrap().success());
    let trail = Trail::read(directory.path());
    let records = trail.of("witness");
    assert_eq!(records.len(), 2 * ROUNDS * (FILES + 1));
    assert!(trail.skipped <= 2, "{} fragments of two processes", trail.skipped);
    assert_in_order(&records);
}

fn edit() -> serde_json::Value {
    json!({"command": "str_replace", "path": "/memories/a", "old_str": "tea", "new_str": "coffee"})
}

/// Kills a process between the intent and the outcome of an edit, right before or right after the change.
fn kill_between(task: &str, is_done: bool) {
    let directory = tempfile::tempdir().unwrap();
    let path: StorePath = "/memories/a".parse().unwrap();
    block_on(async {
        let store = LocalStore::open(directory.path().join("store")).await.unwrap();
        store.write(&path, "tea").await.unwrap();
    });
    let (mut process, mut output) = start(task, directory.path(), "alice");
    output.read_line(&mut String::new()).unwrap();
    process.kill().unwrap();
    process.wait().unwrap();

    let trail = Trail::read(directory.path());
    assert_eq!((trail.records.len(), trail.skipped), (1, 0));
    let unfinished = &trail.records[0];
    assert_eq!((&*unfinished.actor, &*unfinished.command), ("alice", "str_replace"));
    let AuditEvent::Intent { changes } = &unfinished.event else { unreachable!() };
    let [AuditedChange::Write { before: AuditedState::File(before), after, .. }] = &changes[..] else { unreachable!() };
    let stored = block_on(async {
        let store = LocalStore::open(directory.path().join("store")).await.unwrap();
        let Node::File(file) = store.read(&path).await.unwrap() else { unreachable!() };
        AuditedFile::of(&file.content)
    });
    assert_eq!(stored, if is_done { after.clone() } else { before.clone() });
    assert_ne!(before, after);
}

/// A store that reports and waits to be killed before or after it applies a batch.
#[derive(Debug)]
struct Halting {
    inner: LocalStore,
    before: bool,
}

#[async_trait]
impl Store for Halting {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        self.inner.read_opts(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        if !self.before {
            self.inner.apply(batch).await?;
        }
        report(0);
        std::future::pending().await
    }
}
