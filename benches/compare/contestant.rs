//! The contestants: our stores in this process, and the SDKs' tools as separate processes.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use memory_tool_core::{Engine, MemoryTool, Store};
use memory_tool_local::LocalStore;
use memory_tool_sqlite::SqliteStore;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::measure::target_directory;
use crate::process::Process;

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Contestant {
    Local,
    Sqlite,
    Python,
    TypeScript,
}

impl Contestant {
    pub(crate) const ALL: [Self; 4] = [Self::Local, Self::Sqlite, Self::Python, Self::TypeScript];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Sqlite => "SQLite",
            Self::Python => "Python SDK",
            Self::TypeScript => "TypeScript SDK",
        }
    }

    pub(crate) fn is_ours(self) -> bool {
        matches!(self, Self::Local | Self::Sqlite)
    }

    /// Creates the directory with the stores of this contestant.
    pub(crate) fn base(self, directory: &Path) -> PathBuf {
        let base = directory.join(format!("{self:?}"));
        fs::create_dir_all(&base).unwrap();
        base
    }

    /// Returns `None` if the contestant is not installed.
    pub(crate) fn start(self, directory: &Path) -> Option<Worker> {
        if self.is_ours() {
            let runner = Ours { of: self, base: self.base(directory), runtime: runtime(), tools: HashMap::new() };
            return Some(Worker { contestant: self, version: String::new(), runner: Box::new(runner) });
        }
        let mut process = Process::start(self.script(directory)).ok()?;
        let version = process.read_json().ok()?;
        Some(Worker { contestant: self, version, runner: Box::new(process) })
    }

    /// The command that starts the process of an SDK's tool. It prints its version, and then answers jobs.
    pub(crate) fn script(self, directory: &Path) -> Command {
        let peers = target_directory().join("../peers");
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        let mut command;
        if self == Self::Python {
            command = Command::new(peers.join("bin/python"));
            command.arg(scripts.join("python_sdk.py"));
        } else {
            command = Command::new("node");
            command.arg(scripts.join("typescript_sdk.mjs")).arg(peers);
        }
        command.arg(self.base(directory)).stderr(Stdio::null()); // the message of a missing package
        command
    }

    /// The URL of a store of ours, given its path.
    pub(crate) fn url(self, store: &Path) -> String {
        if self == Self::Sqlite { format!("sqlite:{}", database(store).display()) } else { store.display().to_string() }
    }
}

pub(crate) fn runtime() -> Runtime {
    Runtime::new().unwrap()
}

/// The file of a SQLite store.
pub(crate) fn database(store: &Path) -> PathBuf {
    store.with_extension("sqlite")
}

/// A tool that returns whole files, like the SDKs' tools.
fn tool(store: impl Store + 'static) -> Arc<dyn MemoryTool> {
    Arc::new(Engine::builder(store).max_view_characters(None).build())
}

/// Commands on one store, one after another. The sessions of a job are concurrent.
#[derive(Clone, Serialize)]
pub(crate) struct Session {
    /// A name for the store, which is created if it is missing.
    pub(crate) store: String,
    /// Inputs of the memory tool.
    pub(crate) commands: Vec<Value>,
}

#[derive(Default, Deserialize)]
pub(crate) struct Outcome {
    /// Seconds from the start of the first session to the end of the last.
    pub(crate) elapsed: f64,
    /// Seconds of each command.
    pub(crate) seconds: Vec<f64>,
    pub(crate) failures: Vec<String>,
    /// The last reply of each session.
    pub(crate) replies: Vec<String>,
}

/// Runs jobs. It opens the stores before it starts the clock, and keeps them open.
trait Runner {
    fn run(&mut self, job: &[Session]) -> Outcome;
}

impl Runner for Process {
    fn run(&mut self, job: &[Session]) -> Outcome {
        self.write_line(&serde_json::to_string(job).unwrap());
        self.read_json().unwrap()
    }
}

/// One of our stores in this process. Each session is a task.
struct Ours {
    of: Contestant,
    base: PathBuf,
    runtime: Runtime,
    tools: HashMap<String, Arc<dyn MemoryTool>>,
}

impl Ours {
    fn tool(&mut self, store: &str) -> Arc<dyn MemoryTool> {
        let path = self.base.join(store);
        let open = || match self.of {
            Contestant::Sqlite => tool(self.runtime.block_on(SqliteStore::open(database(&path))).unwrap()),
            _ => tool(self.runtime.block_on(LocalStore::open(path)).unwrap()),
        };
        Arc::clone(self.tools.entry(store.to_owned()).or_insert_with(open))
    }
}

impl Runner for Ours {
    fn run(&mut self, job: &[Session]) -> Outcome {
        let sessions: Vec<_> =
            job.iter().map(|session| call(self.tool(&session.store), session.commands.clone())).collect();
        let mut outcome = Outcome::default();
        let start = Instant::now();
        let sessions: Vec<_> = sessions.into_iter().map(|session| self.runtime.spawn(session)).collect();
        for session in sessions {
            let session = self.runtime.block_on(session).unwrap();
            outcome.elapsed = start.elapsed().as_secs_f64();
            outcome.seconds.extend(session.seconds);
            outcome.failures.extend(session.failures);
            outcome.replies.extend(session.replies);
        }
        outcome
    }
}

async fn call(tool: Arc<dyn MemoryTool>, commands: Vec<Value>) -> Outcome {
    let mut outcome = Outcome::default();
    for command in commands {
        let start = Instant::now();
        let reply = tool.call(command).await;
        outcome.seconds.push(start.elapsed().as_secs_f64());
        match reply {
            Ok(reply) => outcome.replies = vec![reply.to_string()],
            Err(error) => outcome.failures.push(error.to_string()),
        }
    }
    outcome
}

pub(crate) struct Worker {
    pub(crate) contestant: Contestant,
    /// The name and version of an SDK.
    pub(crate) version: String,
    runner: Box<dyn Runner>,
}

impl Worker {
    pub(crate) fn run(&mut self, job: &[Session]) -> Outcome {
        if job.is_empty() { Outcome::default() } else { self.runner.run(job) }
    }

    /// Runs a job that must succeed.
    pub(crate) fn run_all(&mut self, job: &[Session]) -> Outcome {
        let outcome = self.run(job);
        assert!(outcome.failures.is_empty(), "{:?}: {:?}", self.contestant, outcome.failures);
        outcome
    }
}
