//! The JSON lines between the comparison and the processes of the contestants.
//!
//! A process first writes a [`Hello`]. Then it reads jobs and writes an [`Outcome`] for each. It opens the stores
//! before it starts the clock, and keeps them open.

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Deserialize, Serialize)]
pub(crate) struct Hello {
    pub(crate) version: String,
}

/// Sessions that run concurrently.
#[derive(Clone, Default, Deserialize, Serialize)]
pub(crate) struct Job {
    pub(crate) sessions: Vec<Session>,
    pub(crate) wants_replies: bool,
}

impl Job {
    /// A job of one session.
    pub(crate) fn single(store: &str, commands: Vec<Value>) -> Self {
        Self { sessions: vec![Session { store: store.to_owned(), commands }], wants_replies: false }
    }

    pub(crate) fn commands(&self) -> usize {
        self.sessions.iter().map(|session| session.commands.len()).sum()
    }
}

/// Commands on one store, one after another.
#[derive(Clone, Deserialize, Serialize)]
pub(crate) struct Session {
    /// A name for the store, which is created if it is missing.
    pub(crate) store: String,
    /// Inputs of the memory tool.
    pub(crate) commands: Vec<Value>,
}

#[derive(Default, Deserialize, Serialize)]
pub(crate) struct Outcome {
    /// Seconds from the start of the first session to the end of the last.
    pub(crate) elapsed: f64,
    /// Seconds of each command.
    pub(crate) seconds: Vec<f64>,
    /// The messages of the commands that failed.
    pub(crate) failures: Vec<String>,
    /// The last reply of each session, if the job wants them.
    pub(crate) replies: Vec<String>,
}
