//! The stores of this project: each session is a task of a multi-threaded runtime.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use memory_tool_core::{Engine, MemoryTool, Store};
use memory_tool_local::LocalStore;
use memory_tool_sqlite::SqliteStore;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::protocol::{Job, Outcome};
use crate::worker::Runner;

pub(super) struct Ours {
    runtime: Runtime,
    open: fn(&Runtime, &str) -> Arc<dyn MemoryTool>,
    tools: HashMap<String, Arc<dyn MemoryTool>>,
}

impl Ours {
    pub(super) fn local() -> Self {
        Self::new(|runtime, name| tool(runtime.block_on(LocalStore::open(name)).unwrap()))
    }

    pub(super) fn sqlite() -> Self {
        Self::new(|runtime, name| tool(runtime.block_on(SqliteStore::open(format!("{name}.sqlite"))).unwrap()))
    }

    fn new(open: fn(&Runtime, &str) -> Arc<dyn MemoryTool>) -> Self {
        Self { runtime: Runtime::new().unwrap(), open, tools: HashMap::new() }
    }

    fn tool(&mut self, store: &str) -> Arc<dyn MemoryTool> {
        let open = || (self.open)(&self.runtime, store);
        Arc::clone(self.tools.entry(store.to_owned()).or_insert_with(open))
    }
}

/// A tool that returns whole files, like the SDKs' tools.
fn tool(store: impl Store + 'static) -> Arc<dyn MemoryTool> {
    Arc::new(Engine::builder(store).max_view_characters(None).build())
}

impl Runner for Ours {
    fn run(&mut self, job: Job) -> Outcome {
        let sessions: Vec<_> =
            job.sessions.into_iter().map(|session| (self.tool(&session.store), session.commands)).collect();
        let mut outcome = Outcome::default();
        let start = Instant::now();
        let sessions: Vec<_> =
            sessions.into_iter().map(|(tool, commands)| self.runtime.spawn(run_session(tool, commands))).collect();
        self.runtime.block_on(async {
            for session in sessions {
                let (seconds, failures, reply) = session.await.unwrap();
                outcome.seconds.extend(seconds);
                outcome.failures.extend(failures);
                outcome.replies.extend(job.wants_replies.then_some(reply));
            }
        });
        outcome.elapsed = start.elapsed().as_secs_f64();
        outcome
    }
}

/// Returns the seconds of each command, the messages of failed commands, and the last reply.
async fn run_session(tool: Arc<dyn MemoryTool>, commands: Vec<Value>) -> (Vec<f64>, Vec<String>, String) {
    let (mut seconds, mut failures, mut last) = (Vec::with_capacity(commands.len()), Vec::new(), String::new());
    for command in commands {
        let start = Instant::now();
        let reply = tool.call(command).await.map(|reply| reply.to_string());
        seconds.push(start.elapsed().as_secs_f64());
        match reply {
            Ok(reply) => last = reply,
            Err(error) => failures.push(error.to_string()),
        }
    }
    (seconds, failures, last)
}
