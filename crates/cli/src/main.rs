//! `memory-tool`: Claude's memory tool as a program. Its documentation is in `README.md` and `pages`.

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
mod output;
mod policies;
mod progress_line;
mod protocol;
mod rekey;
mod run;
mod transfer;
mod verify;

use std::process::ExitCode;

use crate::arguments::{Action, Arguments};
#[cfg(feature = "chat")]
use crate::chat::ChatEnd;
use crate::commands::Outcome;
use crate::conformance::Verdict;
use crate::export::ExportEnd;
use crate::failure::Failure;
#[cfg(feature = "mcp")]
use crate::mcp::McpEnd;
use crate::rekey::Rotation;
use crate::transfer::Completeness;
use crate::verify::Integrity;

/// The status of a command that ran and reports a problem: an error reply, a failed case, damage, or an incomplete
/// transfer.
const PROBLEM: u8 = 1;
/// The status of a [`Failure`]. clap uses it for wrong usage.
const FAILED: u8 = 2;
/// The status of `chat` after a response that is cut off.
#[cfg(feature = "chat")]
const CUT_OFF: u8 = 3;

fn main() -> ExitCode {
    let Arguments { action } = Arguments::of_this_process();
    match perform(action) {
        Ok(status) => status,
        Err(failure) => {
            failure::eprint_error(&failure);
            ExitCode::from(FAILED)
        }
    }
}

fn perform(action: Action) -> Result<ExitCode, Failure> {
    match action {
        Action::Run(arguments) => run::run(&arguments).map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "chat")]
        Action::Chat(arguments) => chat::run(&arguments).map(|ended| match ended {
            ChatEnd::Done => ExitCode::SUCCESS,
            ChatEnd::Declined => ExitCode::from(PROBLEM),
            ChatEnd::CutOff => ExitCode::from(CUT_OFF),
            ChatEnd::Interrupted { status } => ExitCode::from(status),
        }),
        #[cfg(feature = "mcp")]
        Action::Mcp(arguments) => mcp::run(&arguments).map(|ended| match ended {
            McpEnd::Done => ExitCode::SUCCESS,
            McpEnd::Interrupted { status } => ExitCode::from(status),
        }),
        Action::Conformance(arguments) => conformance::run(&arguments).map(|verdict| match verdict {
            Verdict::Passed => ExitCode::SUCCESS,
            Verdict::Failed => ExitCode::from(PROBLEM),
            Verdict::Interrupted { status } => ExitCode::from(status),
        }),
        Action::Verify(arguments) => verify::run(&arguments).map(|integrity| match integrity {
            Integrity::Intact => ExitCode::SUCCESS,
            Integrity::Damaged => ExitCode::from(PROBLEM),
        }),
        Action::Gc(arguments) => gc::run(&arguments).map(|()| ExitCode::SUCCESS),
        Action::Expire(arguments) => expire::run(&arguments).map(|()| ExitCode::SUCCESS),
        Action::Keygen(arguments) => keygen::run(&arguments).map(|()| ExitCode::SUCCESS),
        Action::Rekey(arguments) => rekey::run(&arguments).map(|rotation| match rotation {
            Rotation::Complete => ExitCode::SUCCESS,
            Rotation::Incomplete => ExitCode::from(PROBLEM),
        }),
        Action::Copy(arguments) => copy::run(&arguments).map(status_of),
        Action::Export(arguments) => export::run(&arguments).map(|ended| match ended {
            ExportEnd::Done(completeness) => status_of(completeness),
            ExportEnd::Interrupted { status } => ExitCode::from(status),
        }),
        Action::Import(arguments) => import::run(&arguments).map(status_of),
        Action::Completions(arguments) => completions::run(&arguments).map(|()| ExitCode::SUCCESS),
        Action::Man(arguments) => man::run(&arguments).map(|()| ExitCode::SUCCESS),
        Action::Command(command) => commands::run(command).map(|outcome| match outcome {
            Outcome::Success => ExitCode::SUCCESS,
            Outcome::Error => ExitCode::from(PROBLEM),
        }),
    }
}

fn status_of(completeness: Completeness) -> ExitCode {
    match completeness {
        Completeness::Complete => ExitCode::SUCCESS,
        Completeness::Incomplete => ExitCode::from(PROBLEM),
    }
}
