//! [`Error`]: why there is no server.

use std::io;
use std::path::PathBuf;

/// Why a server cannot be installed or started. A test that needs the server fails with it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A program of the system that the installation needs is missing.
    #[error("{program} is missing, which the servers of the object-store tests need: {remedy}")]
    Missing {
        /// The program.
        program: String,
        /// How to get it.
        remedy: &'static str,
    },
    /// A step of the installation failed.
    #[error("`{command}` failed: {remedy}\n{output}")]
    Install {
        /// The step, as it could be typed.
        command: String,
        /// What is the most likely cause.
        remedy: &'static str,
        /// What it printed.
        output: String,
    },
    /// A server was started, but does not serve.
    #[error("{server} {problem}; its output is in {log}", log = .log.display())]
    Start {
        /// The server.
        server: &'static str,
        /// What is wrong with it.
        problem: &'static str,
        /// The file that holds its output.
        log: PathBuf,
    },
    /// No port of the range that the servers use is free.
    #[error("no port from {first} to {last} of 127.0.0.1 is free")]
    NoPort {
        /// The first of the range.
        first: u16,
        /// The last of the range.
        last: u16,
    },
    /// An address that is not `http://host:port`.
    #[error("`{0}` is not of the form http://host:port")]
    Address(String),
    /// The system refused something.
    #[error("{doing}")]
    System {
        /// What was being done.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// A request could not be signed.
    #[error("the request for a container cannot be signed")]
    Signature(#[from] object_store::Error),
}

/// Says what was being done when the system refused it.
pub(crate) trait Doing<T> {
    fn doing(self, doing: impl Into<String>) -> Result<T, Error>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, doing: impl Into<String>) -> Result<T, Error> {
        self.map_err(|source| Error::System { doing: doing.into(), source })
    }
}
