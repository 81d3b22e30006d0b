//! The contestants, and a process for each.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::protocol::{Hello, Job, Outcome};

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

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|contestant| contestant.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Sqlite => "sqlite",
            Self::Floor => "floor",
            Self::SqliteFloor => "sqlite-floor",
            Self::Python => "python",
            Self::TypeScript => "typescript",
        }
    }

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

    /// The directory with the stores of this contestant.
    pub(crate) fn base(self, directory: &Path) -> PathBuf {
        directory.join(self.name())
    }

    /// The command that starts the process.
    pub(crate) fn command(self, directory: &Path) -> Command {
        let peers = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../peers");
        let script = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(name);
        let mut command;
        match self {
            Self::Python => {
                command = Command::new(peers.join("bin/python"));
                command.arg(script("python_sdk.py"));
            }
            Self::TypeScript => {
                command = Command::new("node");
                command.arg(script("typescript_sdk.mjs")).arg(peers);
            }
            _ => {
                command = Command::new(env::current_exe().unwrap());
                command.arg("worker").arg(self.name());
            }
        }
        let base = self.base(directory);
        fs::create_dir_all(&base).unwrap();
        command.arg(base);
        command
    }
}

/// The process of a contestant.
pub(crate) struct Worker {
    pub(crate) contestant: Contestant,
    pub(crate) version: String,
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts the process. Returns `None` if the contestant is not installed.
    pub(crate) fn start(contestant: Contestant, directory: &Path) -> Option<Self> {
        Self::start_with(contestant, contestant.command(directory))
    }

    pub(crate) fn start_with(contestant: Contestant, mut command: Command) -> Option<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        if !contestant.is_ours() {
            command.stderr(Stdio::null()); // the message of a missing package
        }
        let mut process = command.spawn().ok()?;
        let (input, output) = (process.stdin.take(), BufReader::new(process.stdout.take()?));
        let mut worker = Self { contestant, version: String::new(), process, input, output };
        let hello: Hello = serde_json::from_str(&worker.read_line()).ok()?;
        worker.version = hello.version;
        Some(worker)
    }

    pub(crate) fn run(&mut self, job: &Job) -> Outcome {
        let mut line = serde_json::to_string(job).unwrap();
        line.push('\n');
        self.input.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
        let line = self.read_line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{:?}: {error}: {line}", self.contestant))
    }

    /// Runs a job that must succeed, unless it is empty.
    pub(crate) fn run_all(&mut self, job: &Job) -> Outcome {
        if job.commands() == 0 {
            return Outcome::default();
        }
        let outcome = self.run(job);
        assert!(outcome.failures.is_empty(), "{:?}: {:?}", self.contestant, outcome.failures);
        outcome
    }

    fn read_line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.input = None; // ends the process
        let _ = self.process.wait();
    }
}
