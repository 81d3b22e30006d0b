//! The program `memory-tool` as a function, which the packages for Python and Node.js call too. Programs in Rust use
//! the crate `memory-tool` instead.

mod command_line;
mod commands;
mod differences;
mod exit_status;
mod failure;
mod files;
mod history;
mod log;
mod memory;
mod options;
mod others;
mod places;
mod protocol;
mod terminal;
mod tool_command;
mod transfer;
mod warnings;

use std::ffi::OsString;
use std::io;
use std::process::Command;
use std::sync::OnceLock;

use crate::command_line::Arguments;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;

pub use crate::log::start_log_of_package;

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
        Ok(Arguments { action }) => action.run(),
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
