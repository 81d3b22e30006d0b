//! `memory-tool mcp`: the memory as a server of the Model Context Protocol on standard input and output.

use clap::Args;
use memory_tool_server::{Mcp, McpError};

use crate::commands::run::RunArguments;
use crate::exit_status::ExitStatus;
use crate::failure::{Context as _, Failure, eprint_error};
use crate::memory::open_or_create;
use crate::options::NoHistoryArgument;
use crate::terminal::interruption::{Interruption, start_runtime};

#[derive(Args, Debug)]
pub(crate) struct McpArguments {
    /// Offer the six commands as separate tools
    ///
    /// They are memory_view, memory_create, memory_str_replace, memory_insert, memory_delete and memory_rename.
    #[arg(long)]
    pub(crate) separate_tools: bool,

    #[command(flatten)]
    pub(crate) histories: NoHistoryArgument,

    #[command(flatten)]
    pub(crate) serving: RunArguments,
}

/// Serves the memory until the input ends or a signal arrives.
pub(crate) fn run(arguments: &McpArguments) -> Result<ExitStatus, Failure> {
    let runtime = start_runtime()?;
    let ended = runtime.block_on(serve(arguments));
    // Standard input may block, and a command that does not end must not delay the end.
    runtime.shutdown_background();
    ended
}

async fn serve(arguments: &McpArguments) -> Result<ExitStatus, Failure> {
    let mut interruption = Interruption::listen().context("cannot start")?;
    let mut options = arguments.serving.options();
    options.history |= !arguments.histories.no_history;
    let memory = match interruption.or(open_or_create(&arguments.serving.memory.store.url, &options)).await {
        Ok(memory) => memory?,
        Err(status) => return Ok(ExitStatus::Interrupted { status }),
    };
    let mcp = Mcp::new(&options).separate_tools(arguments.separate_tools).on_failure(eprint_error);
    let mut signal = None;
    let end = async { signal = Some(interruption.status().await) };
    let served = mcp.serve(&memory, tokio::io::stdin(), tokio::io::stdout(), end).await;
    match (signal, served) {
        (Some(status), _) => Ok(ExitStatus::Interrupted { status }),
        (None, Ok(())) => Ok(ExitStatus::Success),
        (None, Err(McpError::Input(error))) => Err(error).context("cannot read standard input"),
        (None, Err(McpError::Output(error))) => Err(Failure::Output(error)),
        (None, Err(error)) => Err(Failure::other(error)),
    }
}
