//! [`Failure`], and printing errors for the operator.

use std::error::Error;
use std::io::{self, Write as _};

use memory_tool::store::Problem;
use memory_tool::{BoxError, OpenError};

use crate::command_line::NAME;
use crate::exit_status::ExitStatus;
use crate::terminal::escapes::on_one_line;

/// An error that ends the program without a result. Callers match some variants.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    #[error("{message}")]
    Failed { message: String, source: Option<BoxError> },
    /// An error whose message suffices.
    #[error(transparent)]
    Other(BoxError),
    /// The memory could not be opened. The error names it.
    #[error(transparent)]
    Store(OpenError),
    /// A memory does not exist, and the command does not create one. The causes add nothing to the message.
    #[error("{0}")]
    NotFound(OpenError),
    #[error("the store is encrypted; add --key-file, --key-env or --passphrase-file")]
    Encrypted,
    #[error("cannot write standard output")]
    Output(#[source] io::Error),
    #[error("interrupted")]
    Interrupted { status: u8 },
}

impl Failure {
    /// A failure without a cause.
    pub fn new(message: impl Into<String>) -> Self {
        Self::Failed { message: message.into(), source: None }
    }

    pub fn caused(message: impl Into<String>, source: impl Into<BoxError>) -> Self {
        Self::Failed { message: message.into(), source: Some(source.into()) }
    }

    pub(crate) fn other(error: impl Into<BoxError>) -> Self {
        Self::Other(error.into())
    }

    pub(crate) fn exit_status(&self) -> u8 {
        match self {
            Self::Interrupted { status } => *status,
            _ => ExitStatus::FAILED,
        }
    }
}

/// Adds what failed to an error.
pub trait Context<T> {
    fn context(self, message: impl Into<String>) -> Result<T, Failure>;
}

impl<T, E: Into<BoxError>> Context<T> for Result<T, E> {
    fn context(self, message: impl Into<String>) -> Result<T, Failure> {
        self.map_err(|error| Failure::caused(message, error))
    }
}

/// Writes an error with its causes as one line to standard error.
pub(crate) fn eprint_error(error: &dyn Error) {
    eprint_error_of(NAME, error);
}

/// The same for the program with this name.
pub fn eprint_error_of(program: &str, error: &dyn Error) {
    eprint_line(&on_one_line(&format!("{program}: {}", with_causes(error))));
}

/// The error with its causes, for the operator only.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let text = error.to_string();
    let has_causes = |source| text.ends_with(&Problem::of(source).message);
    if error.source().is_some_and(has_causes) { text } else { Problem::of(error).message }
}

/// Writes a line to standard error.
pub fn eprint_line(line: &str) {
    eprint_part(&format!("{line}\n"));
}

/// Writes a part of a line to standard error.
pub(crate) fn eprint_part(text: &str) {
    // An error of standard error cannot be reported; the exit status remains.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Writes the tool's error to standard error if it has causes, which its reply never contains (`[W5]`).
pub(crate) fn eprint_causes(error: &memory_tool::Error) {
    if error.source().is_some() {
        eprint_error(error);
    }
}
