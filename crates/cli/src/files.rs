//! The shared parts of the commands for people: [`perform`], [`Stop`] and [`question`].

use std::io::{self, IsTerminal as _};
use std::thread;

use futures::channel::oneshot;
use memory_tool::store::{Batch, ReadOptions, StorePath};
use memory_tool::{ErrorKind, Memory, MemoryPath, Node, Store as _, StoreError};

use crate::commands::run::open_to_change;
use crate::exit_status::ExitStatus;
use crate::failure::{self, Context as _, Failure};
use crate::options::MemoryArgument;
use crate::terminal::interruption::{CLEANUP_TIME, run_until_interrupted};

/// Attempts to change a file while others change it. Each failed attempt means that another change succeeded.
const MAX_ATTEMPTS: usize = 1_000;

/// The reason why a command changed nothing.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The memory refused it, or its storage failed.
    Refused(StoreError),
    /// The paths do not fit the command.
    Wrong(String),
    Failed(Failure),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl Stop {
    /// Reports it, except failures, which end the program.
    pub(crate) fn report(self) -> Result<ExitStatus, Failure> {
        match self {
            Self::Refused(error) => failure::eprint_error(&error),
            Self::Wrong(message) => eprint(&message),
            Self::Failed(failure) => return Err(failure),
        }
        Ok(ExitStatus::Problem)
    }
}

/// Prints a message whose paths are escaped.
pub(crate) fn eprint(message: &str) {
    failure::eprint_line(&format!("memory-tool: {message}"));
}

/// Opens the memory, which must exist, and does the work of a command until a signal arrives.
pub(crate) fn perform(
    arguments: &MemoryArgument,
    read_only: bool,
    work: impl AsyncFnOnce(Memory) -> Result<ExitStatus, Stop>,
) -> Result<ExitStatus, Failure> {
    run_until_interrupted(CLEANUP_TIME, async {
        let memory = open(arguments, read_only).await?;
        work(memory).await.or_else(Stop::report)
    })
}

pub(crate) async fn open(arguments: &MemoryArgument, read_only: bool) -> Result<Memory, Failure> {
    let mut options = arguments.options();
    options.must_exist = true;
    options.read_only |= read_only;
    open_to_change(&arguments.store.url, &options).await
}

/// An empty batch of a command.
pub(crate) fn batch(arguments: &MemoryArgument, command: &'static str) -> Batch {
    let batch = Batch::new().for_command(command);
    arguments.policies.actor().into_iter().fold(batch, |batch, actor| batch.by(actor.clone()))
}

pub(crate) async fn read(memory: &Memory, path: &MemoryPath, command: &'static str) -> Result<Node, StoreError> {
    memory.store().read_opts(path, ReadOptions::new().for_command(command)).await
}

/// The text of a file, which the tool could edit too (`[V10]`).
pub(crate) fn text(path: &StorePath, content: Vec<u8>) -> Result<String, Stop> {
    let text = String::from_utf8(content).map_err(|_| StoreError::NotText { path: path.clone() })?;
    if text.contains('\0') { Err(Stop::Wrong(format!("{path} contains U+0000"))) } else { Ok(text) }
}

/// Repeats a change of contents that it read, until they were not changed at the same time.
pub(crate) async fn retried<T>(mut attempt: impl AsyncFnMut() -> Result<T, Stop>) -> Result<T, Stop> {
    for _ in 1..MAX_ATTEMPTS {
        match attempt().await {
            Err(Stop::Refused(error)) if error.is_conflict() || error.kind() == ErrorKind::AlreadyExists => {}
            ended => return ended,
        }
    }
    attempt().await
}

/// Whether a person can answer.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Reads standard input on another thread, so that a signal can end the program.
pub(crate) async fn from_input<T: Send + 'static>(
    read: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Failure> {
    let (sender, receiver) = oneshot::channel();
    thread::spawn(move || sender.send(read()));
    let read = receiver.await.unwrap_or_else(|_| Err(io::ErrorKind::UnexpectedEof.into()));
    read.context("cannot read standard input")
}

/// Asks a question, and returns the line in lowercase. It is empty at the end of the input.
pub(crate) async fn question(text: &str) -> Result<String, Failure> {
    failure::eprint_part(text);
    let line = from_input(|| {
        let mut line = String::new();
        io::stdin().read_line(&mut line).map(|_| line)
    });
    let line = line.await?;
    if !line.ends_with('\n') {
        failure::eprint_line("");
    }
    Ok(line.trim().to_lowercase())
}
