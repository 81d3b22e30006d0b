//! The program `memory-tool` as a function, which the packages for Python and Node.js call too. Programs in Rust use
//! the crate `memory-tool` instead.

mod append;
mod arguments;
mod cat;
mod commands;
mod completions;
mod conformance;
mod copy;
mod diff;
mod edit;
mod encryption;
mod escapes;
mod exit_status;
mod expire;
mod export;
mod failure;
mod files;
mod gc;
mod history;
mod import;
mod interruption;
mod keygen;
mod ls;
mod man;
#[cfg(feature = "mcp")]
mod mcp;
mod memories;
mod memory;
mod migrate;
mod mv;
mod others;
mod output;
mod pager;
mod policies;
mod progress_line;
mod protocol;
mod rekey;
mod rm;
mod run;
mod search;
#[cfg(feature = "server")]
mod serve;
#[cfg(feature = "server")]
mod token;
mod transfer;
mod verify;
mod warnings;

use std::ffi::OsString;
use std::io;
use std::process::Command;
use std::sync::OnceLock;

use crate::arguments::{Action, Arguments};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;

/// The words that start this program, if it is not the executable of this process.
static STARTED_BY: OnceLock<Vec<OsString>> = OnceLock::new();

/// Runs the program with these arguments, the name of the program included. Returns its exit status.
///
/// `started_by` are the words that start the program again, if the executable of this process is another program.
pub fn run(arguments: impl IntoIterator<Item = OsString>, started_by: Option<Vec<OsString>>) -> u8 {
    if let Some(words) = started_by {
        STARTED_BY.get_or_init(|| words);
    }
    let outcome = match Arguments::of(arguments) {
        Ok(Arguments { action }) => perform(action),
        Err(status) => return status,
    };
    outcome.map_or_else(
        |failure| {
            failure::eprint_error(&failure);
            match failure {
                Failure::Interrupted { status } => status,
                _ => ExitStatus::FAILED,
            }
        },
        ExitStatus::code,
    )
}

/// The program itself, to start in another process.
fn this_program() -> io::Result<Command> {
    match STARTED_BY.get().and_then(|words| words.split_first()) {
        Some((executable, words)) => {
            let mut command = Command::new(executable);
            command.args(words);
            Ok(command)
        }
        None => std::env::current_exe().map(Command::new),
    }
}

fn perform(action: Action) -> Result<ExitStatus, Failure> {
    let done = |()| ExitStatus::Success;
    match action {
        Action::Run(arguments) => run::run(&arguments).map(done),
        #[cfg(feature = "mcp")]
        Action::Mcp(arguments) => mcp::run(&arguments),
        #[cfg(feature = "server")]
        Action::Serve(arguments) => serve::run(&arguments),
        #[cfg(feature = "server")]
        Action::Token(arguments) => token::run(&arguments).map(done),
        Action::Conformance(arguments) => conformance::run(&arguments),
        Action::Verify(arguments) => verify::run(&arguments),
        Action::Gc(arguments) => gc::run(&arguments).map(done),
        Action::Expire(arguments) => expire::run(&arguments),
        Action::Keygen(arguments) => keygen::run(&arguments).map(done),
        Action::Rekey(arguments) => rekey::run(&arguments),
        Action::Copy(arguments) => copy::run(&arguments),
        Action::Export(arguments) => export::run(&arguments),
        Action::Import(arguments) => import::run(&arguments),
        Action::Ls(arguments) => ls::run(&arguments),
        Action::Cat(arguments) => cat::run(&arguments),
        Action::Edit(arguments) => edit::run(&arguments),
        Action::Append(arguments) => append::run(&arguments),
        Action::Mv(arguments) => mv::run(&arguments),
        Action::Rm(arguments) => rm::run(&arguments),
        Action::Memories(arguments) => memories::list(&arguments),
        Action::Forget(arguments) => memories::forget(&arguments),
        Action::Migrate(arguments) => migrate::run(&arguments).map(done),
        Action::Search(arguments) => search::run(&arguments),
        Action::Log(arguments) => history::log(&arguments).map(done),
        Action::Show(arguments) => history::show(&arguments).map(done),
        Action::Diff(arguments) => diff::run(&arguments),
        Action::Undo(arguments) => history::undo(&arguments).map(done),
        Action::Redo(arguments) => history::redo(&arguments).map(done),
        Action::Restore(arguments) => history::restore(&arguments).map(done),
        Action::Redact(arguments) => history::redact(&arguments).map(done),
        Action::Completions(arguments) => completions::run(&arguments),
        Action::Man(arguments) => man::run(&arguments).map(done),
        Action::Command(command) => commands::run(command),
    }
}
