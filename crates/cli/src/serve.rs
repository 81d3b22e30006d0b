//! `memory-tool serve`: the memories of a store over HTTP.

use memory_tool::OpenOptions;
use memory_tool_server::{Memories, Server, TokenFile};

use crate::arguments::ServeArguments;
use crate::exit_status::ExitStatus;
use crate::failure::{Context as _, Failure, eprint_line};
use crate::interruption::Interruption;
use crate::memory;

/// Serves the memories until a signal arrives.
pub(crate) fn run(arguments: &ServeArguments) -> Result<ExitStatus, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start")?;
    let ended = runtime.block_on(serve(arguments));
    runtime.shutdown_background();
    ended
}

async fn serve(arguments: &ServeArguments) -> Result<ExitStatus, Failure> {
    let (store, mut options) = (&arguments.serving.memory.store.url, arguments.serving.options());
    memory::refuse_temporary(store)?;
    options.check().map_err(memory::failed_options)?;
    options.history |= !arguments.no_history;
    memory::start_log(options.log);
    let tokens = TokenFile::new(&arguments.tokens);
    let mut interruption = Interruption::listen().context("cannot start")?;
    if arguments.check {
        tokens.entries().context(format!("cannot read {}", arguments.tokens.display()))?;
        return match store.memories(OpenOptions::new()).await {
            Err(error) if !error.is_not_found() => Err(memory::failure(error)),
            _ => Ok(ExitStatus::Success),
        };
    }
    #[cfg(feature = "mcp")]
    let mcp = memory_tool_server::Mcp::new(&options).separate_tools(arguments.separate_tools);
    let memories = Memories::new(store.clone(), options);
    let listening = Server::listen(arguments.listen, &arguments.allow_host, tokens, memories).await;
    let server = listening.context(format!("cannot listen on {}", arguments.listen))?;
    #[cfg(feature = "mcp")]
    let server = server.mcp(mcp);
    eprint_line(&format!("memory-tool: listening on http://{}", server.address()));
    let mut status = 0;
    server.serve(async { status = interruption.status().await }).await;
    Ok(ExitStatus::Interrupted { status })
}
