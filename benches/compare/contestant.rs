//! The contestants, and their work.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use memory_tool_core::{Engine, Store};
use memory_tool_local::LocalStore;
use memory_tool_sqlite::SqliteStore;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::file_floor::{FileFloor, Log};
use crate::in_process::{InProcess, Open, Target};
use crate::measure::target_directory;
use crate::process::Process;
use crate::sqlite_floor::SqliteFloor;
use crate::workloads::LOG;

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Contestant {
    Local,
    Sqlite,
    /// The same effects with `std::fs`.
    Floor,
    /// The same effects with prepared statements, called in place.
    SqliteFloor,
    Python,
    TypeScript,
}

impl Contestant {
    pub(crate) const ALL: [Self; 6] =
        [Self::Local, Self::Sqlite, Self::Floor, Self::SqliteFloor, Self::Python, Self::TypeScript];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Sqlite => "SQLite",
            Self::Floor => "floor",
            Self::SqliteFloor => "bare SQLite",
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
        let open: Open = match self {
            Self::Local => |runtime, path| tool(runtime.block_on(LocalStore::open(path)).unwrap()),
            Self::Sqlite => |runtime, path| tool(runtime.block_on(SqliteStore::open(database(path))).unwrap()),
            Self::Floor => |_, path| match path.ends_with(LOG) {
                true => Target::Floor(Arc::new(Log::create(path))),
                false => Target::Floor(Arc::new(FileFloor::open(path))),
            },
            Self::SqliteFloor => |_, path| Target::Floor(Arc::new(SqliteFloor::open(&database(path)))),
            Self::Python | Self::TypeScript => {
                let mut process = Process::start(self.script(directory)).ok()?;
                let version = process.read_json().ok()?;
                return Some(Worker { contestant: self, version, runner: Box::new(process) });
            }
        };
        let runner = Box::new(InProcess::new(self.base(directory), open));
        Some(Worker { contestant: self, version: String::new(), runner })
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
}

/// The file of a SQLite store.
pub(crate) fn database(store: &Path) -> PathBuf {
    store.with_extension("sqlite")
}

/// A tool that returns whole files, like the SDKs' tools.
fn tool(store: impl Store + 'static) -> Target {
    Target::Tool(Arc::new(Engine::builder(store).max_view_characters(None).build()))
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
pub(crate) trait Runner {
    fn run(&mut self, job: &[Session]) -> Outcome;
}

impl Runner for Process {
    fn run(&mut self, job: &[Session]) -> Outcome {
        self.write_line(&serde_json::to_string(job).unwrap());
        self.read_json().unwrap()
    }
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
