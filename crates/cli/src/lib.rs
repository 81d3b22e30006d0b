//! The program `memory-tool` as a function, which the packages for Python and Node.js call too. Programs in Rust use
//! the crate `memory-tool` instead.

mod arguments;
#[cfg(feature = "chat")]
mod chat;
#[cfg(feature = "chat")]
mod chat_error;
mod commands;
mod completions;
mod conformance;
mod copy;
mod encryption;
mod escapes;
mod expire;
mod export;
mod failure;
mod gc;
mod import;
mod interruption;
mod keygen;
mod man;
#[cfg(feature = "mcp")]
mod mcp;
mod memory;
mod others;
mod output;
mod policies;
mod progress_line;
mod protocol;
mod rekey;
mod run;
mod transfer;
mod verify;
mod warnings;

use std::ffi::OsString;
use std::io;
use std::process::Command;
use std::sync::OnceLock;

use crate::arguments::{Action, Arguments};
#[cfg(feature = "chat")]
use crate::chat::ChatEnd;
use crate::commands::Outcome;
use crate::conformance::Verdict;
use crate::failure::Failure;
#[cfg(feature = "mcp")]
use crate::mcp::McpEnd;
use crate::rekey::Rotation;
use crate::transfer::Completeness;
use crate::verify::Integrity;

const SUCCESS: u8 = 0;
/// The status of a command that ran and reports a problem: an error reply, a failed case, damage, or an incomplete
/// transfer.
const PROBLEM: u8 = 1;
/// The status of a [`Failure`]. clap uses it for wrong usage.
const FAILED: u8 = 2;
/// The status of `chat` after a response that is cut off.
#[cfg(feature = "chat")]
const CUT_OFF: u8 = 3;

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
    outcome.unwrap_or_else(|failure| {
        failure::eprint_error(&failure);
        match failure {
            Failure::Interrupted { status } => status,
            _ => FAILED,
        }
    })
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

fn perform(action: Action) -> Result<u8, Failure> {
    match action {
        Action::Run(arguments) => run::run(&arguments).map(|()| SUCCESS),
        #[cfg(feature = "chat")]
        Action::Chat(arguments) => chat::run(&arguments).map(|ended| match ended {
            ChatEnd::Done => SUCCESS,
            ChatEnd::Declined => PROBLEM,
            ChatEnd::CutOff => CUT_OFF,
            ChatEnd::Interrupted { status } => status,
        }),
        #[cfg(feature = "mcp")]
        Action::Mcp(arguments) => mcp::run(&arguments).map(|ended| match ended {
            McpEnd::Done => SUCCESS,
            McpEnd::Interrupted { status } => status,
        }),
        Action::Conformance(arguments) => conformance::run(&arguments).map(|verdict| match verdict {
            Verdict::Passed => SUCCESS,
            Verdict::Failed => PROBLEM,
            Verdict::Interrupted { status } => status,
        }),
        Action::Verify(arguments) => verify::run(&arguments).map(|integrity| match integrity {
            Integrity::Intact => SUCCESS,
            Integrity::Damaged => PROBLEM,
        }),
        Action::Gc(arguments) => gc::run(&arguments).map(|()| SUCCESS),
        Action::Expire(arguments) => expire::run(&arguments).map(|()| SUCCESS),
        Action::Keygen(arguments) => keygen::run(&arguments).map(|()| SUCCESS),
        Action::Rekey(arguments) => rekey::run(&arguments).map(|rotation| match rotation {
            Rotation::Complete => SUCCESS,
            Rotation::Incomplete => PROBLEM,
        }),
        Action::Copy(arguments) => copy::run(&arguments).map(status_of),
        Action::Export(arguments) => export::run(&arguments).map(status_of),
        Action::Import(arguments) => import::run(&arguments).map(status_of),
        Action::Completions(arguments) => completions::run(&arguments).map(|()| SUCCESS),
        Action::Man(arguments) => man::run(&arguments).map(|()| SUCCESS),
        Action::Command(command) => commands::run(command).map(|outcome| match outcome {
            Outcome::Success => SUCCESS,
            Outcome::Error => PROBLEM,
        }),
    }
}

fn status_of(completeness: Completeness) -> u8 {
    match completeness {
        Completeness::Complete => SUCCESS,
        Completeness::Incomplete => PROBLEM,
    }
}
