//! [`Mcp`]: memories for clients of the Model Context Protocol.

mod arguments;
mod changes;
mod handler;
mod http;
mod message;
mod order;
mod prompts;
mod resources;
mod search;
mod sessions;
mod stdio;
mod tools;

use std::error::Error;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memory_tool::{Memory, MemoryOptions};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::fronts::mcp::handler::{Handler, Target};
use crate::fronts::mcp::tools::Tools;
use crate::http::error::log_failure;

pub(crate) use http::routes;

/// Reports an error with its causes to the operator. No reply contains the causes.
type Report = fn(&dyn Error);

/// The tools, resources and prompts for clients of the Model Context Protocol.
///
/// ```
/// use memory_tool::{Memory, MemoryOptions};
/// use memory_tool_server::Mcp;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let memory = Memory::open("in-process:").await?;
/// let input = br#"{"jsonrpc": "2.0", "id": 1, "method": "ping"}"#.as_slice();
/// let mut output = Vec::new();
/// Mcp::new(&MemoryOptions::new()).serve(&memory, input, &mut output, std::future::pending()).await?;
/// assert_eq!(output, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Mcp {
    separate_tools: bool,
    create_overwrites: bool,
    read_only: bool,
    report: Report,
}

/// An error of the input or output that [`Mcp::serve`] uses.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// The input cannot be read.
    #[error("cannot read the input")]
    Input(#[source] io::Error),
    /// The output cannot be written. A closed output is no error.
    #[error("cannot write the output")]
    Output(#[source] io::Error),
}

impl Mcp {
    /// One tool for all commands, and hints that fit memories with these options.
    pub fn new(options: &MemoryOptions) -> Self {
        let MemoryOptions { create_overwrites, read_only, .. } = *options;
        Self { separate_tools: false, create_overwrites, read_only, report: log_failure }
    }

    /// Offers each command as a separate tool, so that users can allow each one separately.
    #[must_use]
    pub fn separate_tools(mut self, separate: bool) -> Self {
        self.separate_tools = separate;
        self
    }

    /// Reports failures of the storage with this function. Without it, they are events of `tracing`.
    #[must_use]
    pub fn on_failure(mut self, report: fn(&dyn Error)) -> Self {
        self.report = report;
        self
    }

    /// Serves one client, with one message per line, until the input ends, the output is closed or `end` completes.
    ///
    /// # Errors
    /// [`McpError`] if the input or output fails.
    pub async fn serve(
        &self,
        memory: &Memory,
        input: impl AsyncRead,
        output: impl AsyncWrite,
        end: impl Future<Output = ()>,
    ) -> Result<(), McpError> {
        let target = Target::Own(memory.clone());
        let handler = Handler::new(Arc::new(Tools::new(self)), Some(target));
        stdio::serve(handler, input, output, end).await
    }
}

/// Locks a value that is valid even if a lock holder panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
