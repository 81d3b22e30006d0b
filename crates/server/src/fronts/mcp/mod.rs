//! [`Mcp`]: memories for clients of the Model Context Protocol.

mod arguments;
mod changes;
mod handler;
mod history;
mod http;
mod message;
mod order;
mod prompts;
mod reading;
mod resources;
mod search;
mod sessions;
mod stdio;
mod tools;

use std::error::Error;
use std::sync::Arc;

use axum::Router;
use memory_tool::{Memory, MemoryOptions, MemoryPath};
pub use stdio::McpError;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::fronts::mcp::handler::{Handler, Target};
use crate::fronts::mcp::tools::{Offer, Tools};
use crate::http::error::log_failure;
use crate::service::Service;

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
pub struct Mcp(Offer);

impl Mcp {
    /// One tool for all commands, and hints that fit memories with these options.
    pub fn new(options: &MemoryOptions) -> Self {
        let MemoryOptions { create_overwrites, read_only, history, history_age, .. } = *options;
        let (history, changes_wait) = (history || history_age.is_some(), options.propose.is_some());
        Self(Offer { separate_tools: false, create_overwrites, read_only, history, changes_wait, report: log_failure })
    }

    /// Offers each command as a separate tool, so that users can allow each one separately.
    #[must_use]
    pub fn separate_tools(mut self, separate: bool) -> Self {
        self.0.separate_tools = separate;
        self
    }

    /// Reports failures of the storage with this function. Without it, they are events of `tracing`.
    #[must_use]
    pub fn on_failure(mut self, report: fn(&dyn Error)) -> Self {
        self.0.report = report;
        self
    }

    /// The text of the prompt `tidy_memory` for the whole memory.
    pub fn tidy_prompt(&self) -> String {
        prompts::tidy(&MemoryPath::root(), self.0.changes_wait)
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
        let handler = Handler::new(Arc::new(Tools::new(self.0)), Some(target));
        stdio::serve(handler, input, output, end).await
    }

    /// The endpoint `/mcp` for streamable HTTP.
    pub(crate) fn routes(&self) -> Router<Arc<Service>> {
        http::routes(Tools::new(self.0))
    }
}
