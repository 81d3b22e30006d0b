//! [`Error`]: failures of servers.

use std::io;
use std::path::PathBuf;

/// A failure to install or start a server. A test that needs the server fails with it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A program that the installation needs is missing.
    #[error("{program} is missing: the test servers need {remedy}")]
    Missing {
        /// The program.
        program: String,
        /// How to install it.
        remedy: &'static str,
    },
    /// A step of the installation failed.
    #[error("`{command}` failed ({remedy})\n{output}")]
    Install {
        /// The command of the step.
        command: String,
        /// The most likely remedy.
        remedy: &'static str,
        /// The output of the command.
        output: String,
    },
    /// A server was started, but is not ready.
    #[error("{server} {problem}; its output is in {log}", log = .log.display())]
    Start {
        /// The server.
        server: &'static str,
        /// The problem.
        problem: &'static str,
        /// The file with its output.
        log: PathBuf,
    },
    /// A command of a server failed, such as a statement of a test.
    #[error("`{command}` failed: {output}")]
    Command {
        /// The command.
        command: String,
        /// Its output.
        output: String,
    },
    /// No port of the range is free.
    #[error("no port from {first} to {last} of 127.0.0.1 is free")]
    NoPort {
        /// The first port of the range.
        first: u16,
        /// The last port of the range.
        last: u16,
    },
    /// An address that is not `http://host:port`.
    #[error("invalid address `{0}`: expected http://host:port")]
    Address(String),
    /// An operation of the system failed.
    #[error("{doing} failed")]
    System {
        /// The operation.
        doing: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A request could not be signed.
    #[error("cannot sign the request for a container")]
    Signature(#[from] object_store::Error),
}

/// Adds the operation to an I/O error.
pub(crate) trait Doing<T> {
    fn doing(self, doing: impl Into<String>) -> Result<T, Error>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, doing: impl Into<String>) -> Result<T, Error> {
        self.map_err(|source| Error::System { doing: doing.into(), source })
    }
}
