//! The contestants that are written in Rust. A session is a task of our stores, and a thread of a floor.

use std::collections::HashMap;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use memory_tool_core::{Command, MemoryTool};
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::contestant::{Outcome, Runner, Session};

/// A store with the same effects as ours, but without locks and checks.
pub(crate) trait Floor: Send + Sync {
    fn call(&self, command: &Command) -> io::Result<String>;
}

#[derive(Clone)]
pub(crate) enum Target {
    Tool(Arc<dyn MemoryTool>),
    Floor(Arc<dyn Floor>),
}

pub(crate) type Open = fn(&Runtime, &Path) -> Target;

pub(crate) struct InProcess {
    base: PathBuf,
    runtime: Runtime,
    open: Open,
    targets: HashMap<String, Target>,
}

impl InProcess {
    pub(crate) fn new(base: PathBuf, open: Open) -> Self {
        Self { base, runtime: Runtime::new().unwrap(), open, targets: HashMap::new() }
    }

    fn prepare(&mut self, session: &Session) -> Start {
        let open = || (self.open)(&self.runtime, &self.base.join(&session.store));
        let commands = session.commands.clone();
        match self.targets.entry(session.store.clone()).or_insert_with(open).clone() {
            Target::Tool(tool) => Box::new(|runtime| runtime.spawn(call_tool(tool, commands))),
            Target::Floor(floor) => {
                // The time of a tool includes the parsing of its input. A floor gets parsed commands.
                let commands: Vec<_> = commands.into_iter().map(|input| Command::parse(input).unwrap()).collect();
                Box::new(|runtime| runtime.spawn_blocking(move || call_floor(&*floor, &commands)))
            }
        }
    }
}

type Start = Box<dyn FnOnce(&Runtime) -> JoinHandle<Outcome>>;

impl Runner for InProcess {
    fn run(&mut self, job: &[Session]) -> Outcome {
        let sessions: Vec<_> = job.iter().map(|session| self.prepare(session)).collect();
        let mut outcome = Outcome::default();
        let start = Instant::now();
        let sessions: Vec<_> = sessions.into_iter().map(|session| session(&self.runtime)).collect();
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

async fn call_tool(tool: Arc<dyn MemoryTool>, commands: Vec<Value>) -> Outcome {
    let mut outcome = Outcome::default();
    for command in commands {
        outcome.add(Instant::now(), tool.call(command).await.map(|reply| reply.to_string()));
    }
    outcome
}

fn call_floor(floor: &dyn Floor, commands: &[Command]) -> Outcome {
    let mut outcome = Outcome::default();
    for command in commands {
        outcome.add(Instant::now(), floor.call(command));
    }
    outcome
}

impl Outcome {
    fn add(&mut self, start: Instant, reply: Result<String, impl Display>) {
        self.seconds.push(start.elapsed().as_secs_f64());
        match reply {
            Ok(reply) => self.replies = vec![reply],
            Err(error) => self.failures.push(error.to_string()),
        }
    }
}
