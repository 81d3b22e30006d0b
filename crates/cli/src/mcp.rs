//! `memory-tool mcp`: the memory as a server of the Model Context Protocol.

mod arguments;
mod changes;
mod connections;
mod http;
mod message;
mod order;
mod prompts;
mod resources;
mod search;
mod server;
mod sessions;
mod stdio;
mod token;
mod tools;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::arguments::McpArguments;
use crate::exit_status::ExitStatus;
use crate::failure::{Context as _, Failure};
use crate::interruption::Interruption;
use crate::mcp::http::Endpoint;
use crate::mcp::server::SharedMemory;
use crate::run::{open_or_create, start_runtime};

/// Serves the memory until the input ends or a signal arrives.
pub(crate) fn run(arguments: &McpArguments) -> Result<ExitStatus, Failure> {
    let runtime = start_runtime()?;
    let ended = runtime.block_on(serve(arguments));
    // Standard input may block, and a command that does not end must not delay the end.
    runtime.shutdown_background();
    ended
}

async fn serve(arguments: &McpArguments) -> Result<ExitStatus, Failure> {
    // The address and the token are checked first: if one is invalid, nothing is created.
    let endpoint = Endpoint::listen(&arguments.http).await?;
    let mut interruption = Interruption::listen().context("cannot start")?;
    let memory = match interruption.or(open_or_create(&arguments.serving)).await {
        Ok(memory) => memory?,
        Err(status) => return Ok(ExitStatus::Interrupted { status }),
    };
    let memory = Arc::new(SharedMemory::new(&memory, tools::definitions(arguments)));
    match endpoint {
        Some(endpoint) => Ok(endpoint.serve(memory, &mut interruption).await),
        None => stdio::serve(memory, &mut interruption).await,
    }
}

/// Locks a value that is valid even if a lock holder panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
