//! The shared parts of the commands for people: [`perform`] and [`Stop`].

use memory_tool::store::{MAX_ATTEMPTS, StorePath};
use memory_tool::{ErrorKind, Memory, MemoryOptions, StoreError, StoreUrl};

use crate::exit_status::ExitStatus;
use crate::failure::{self, Failure};
use crate::memory::{Access, advise_read_only, open_existing};
use crate::options::MemoryArgument;
use crate::terminal::interruption::{CLEANUP_TIME, run_until_interrupted};

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

/// Opens the memory, which must exist, and does the work of the command with this name until a signal arrives.
pub(crate) fn perform(
    arguments: &MemoryArgument,
    command: &'static str,
    access: Access,
    work: impl AsyncFnOnce(Memory) -> Result<ExitStatus, Stop>,
) -> Result<ExitStatus, Failure> {
    run_until_interrupted(CLEANUP_TIME, async {
        let memory = open(arguments, command, access).await?;
        work(memory).await.or_else(Stop::report)
    })
}

pub(crate) async fn open(arguments: &MemoryArgument, command: &'static str, access: Access) -> Result<Memory, Failure> {
    open_with(&arguments.store.url, arguments.options(), command, access).await
}

pub(crate) async fn open_with(
    url: &StoreUrl,
    options: MemoryOptions,
    command: &'static str,
    access: Access,
) -> Result<Memory, Failure> {
    let opened = open_existing(url, options, access).await;
    Ok(opened.map_err(advise_read_only)?.for_command(command))
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
