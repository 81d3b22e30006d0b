//! Runs the sessions of a floor: each session is a thread.

use std::collections::HashMap;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Instant;

use memory_tool_core::Command;
use serde_json::Value;

use crate::protocol::{Job, Outcome};
use crate::worker::Runner;

/// A store with the same effects as ours, but without locks and checks.
pub(super) trait Bare: Send + Sync {
    fn open(name: &str) -> Self;

    fn call(&self, operation: &Operation) -> Result<String, String>;
}

/// A command, parsed before the clock starts.
pub(super) enum Operation {
    Command(Command),
    /// An append of this many bytes to a preallocated log, and a flush.
    Log(usize),
}

impl From<Value> for Operation {
    fn from(input: Value) -> Self {
        match input["log"].as_u64() {
            Some(bytes) => Self::Log(bytes as usize),
            None => Self::Command(Command::parse(input).unwrap()),
        }
    }
}

pub(super) struct Threads<S> {
    stores: HashMap<String, Arc<S>>,
}

impl<S> Default for Threads<S> {
    fn default() -> Self {
        Self { stores: HashMap::new() }
    }
}

impl<S: Bare> Threads<S> {
    fn store(&mut self, name: &str) -> Arc<S> {
        Arc::clone(self.stores.entry(name.to_owned()).or_insert_with(|| Arc::new(S::open(name))))
    }
}

impl<S: Bare> Runner for Threads<S> {
    fn run(&mut self, job: Job) -> Outcome {
        let sessions = job.sessions.into_iter().map(|session| {
            let operations: Vec<Operation> = session.commands.into_iter().map(Operation::from).collect();
            (self.store(&session.store), operations)
        });
        let sessions: Vec<_> = sessions.collect();
        let barrier = Barrier::new(sessions.len());
        let mut outcome = Outcome::default();
        thread::scope(|scope| {
            let run = |(store, operations): &(Arc<S>, Vec<_>)| {
                barrier.wait();
                let start = Instant::now();
                (start, run_session(&**store, operations), Instant::now())
            };
            let sessions: Vec<_> = sessions.iter().map(|session| scope.spawn(move || run(session))).collect();
            let (mut starts, mut ends) = (Vec::new(), Vec::new());
            for session in sessions {
                let (start, (seconds, failures, reply), end) = session.join().unwrap();
                starts.push(start);
                ends.push(end);
                outcome.seconds.extend(seconds);
                outcome.failures.extend(failures);
                outcome.replies.extend(job.wants_replies.then_some(reply));
            }
            let (start, end) = (starts.into_iter().min().unwrap(), ends.into_iter().max().unwrap());
            outcome.elapsed = (end - start).as_secs_f64();
        });
        outcome
    }
}

/// Returns the seconds of each operation, the messages of failed operations, and the last reply.
fn run_session(store: &impl Bare, operations: &[Operation]) -> (Vec<f64>, Vec<String>, String) {
    let (mut seconds, mut failures, mut last) = (Vec::with_capacity(operations.len()), Vec::new(), String::new());
    for operation in operations {
        let start = Instant::now();
        let reply = store.call(operation);
        seconds.push(start.elapsed().as_secs_f64());
        match reply {
            Ok(reply) => last = reply,
            Err(error) => failures.push(error),
        }
    }
    (seconds, failures, last)
}
