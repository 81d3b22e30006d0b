//! `memory-tool serve`: the memories of a store over HTTP.

use memory_tool::OpenOptions;
use memory_tool_server::{Memories, Server, TokenFile};

use crate::arguments::ServeArguments;
use crate::exit_status::ExitStatus;
use crate::failure::{Context as _, Failure, eprint_line};
use crate::interruption::Interruption;
use crate::memory;

/// The open files of 2,048 connections and 256 memories.
#[cfg(unix)]
const FILES: u64 = 4_096;

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
    allow_files()?;
    let tokens = TokenFile::new(&arguments.tokens);
    let mut interruption = Interruption::listen().context("cannot start")?;
    if arguments.check {
        tokens.entries().context(format!("cannot read {}", arguments.tokens.display()))?;
        return match store.memories(OpenOptions::new()).await {
            Err(error) if !error.is_not_found() => Err(memory::failure(error)),
            _ => Ok(ExitStatus::Success),
        };
    }
    let memories = Memories::new(store.clone(), options);
    let listening = Server::listen(arguments.listen, &arguments.allow_host, tokens, memories).await;
    let server = listening.context(format!("cannot listen on {}", arguments.listen))?;
    eprint_line(&format!("memory-tool: listening on http://{}", server.address()));
    let mut status = 0;
    server.serve(async { status = interruption.status().await }).await;
    Ok(ExitStatus::Interrupted { status })
}

/// Raises the limit of open files, which is often 1,024, for connections and memories.
#[cfg(unix)]
fn allow_files() -> Result<(), Failure> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};

    let read = getrlimit(Resource::RLIMIT_NOFILE);
    let (limit, most) = read.map_err(std::io::Error::from).context("cannot read the limit of open files")?;
    if limit >= FILES {
        return Ok(());
    }
    setrlimit(Resource::RLIMIT_NOFILE, FILES, most).map_err(|_| {
        let message = format!("the limit of open files is {most}, but the server needs {FILES}");
        Failure::new(format!("{message}: raise the hard limit, for example with `ulimit -n {FILES}`"))
    })
}

#[cfg(not(unix))]
fn allow_files() -> Result<(), Failure> {
    Ok(())
}
