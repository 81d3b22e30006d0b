//! `memory-tool`: Claude's memory tool as a program. `README.md` and `--help` say how to use it.

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
use crate::chat::Ended;
use crate::commands::Outcome;
use crate::conformance::Verdict;
use crate::failure::Failure;
use crate::rekey::Rotation;
use crate::transfer::Completeness;
use crate::verify::Integrity;

/// The status where the tool answered with an error, what was checked does not conform, what is stored is not whole, or not all of
/// it could be encrypted anew, copied, exported or imported.
const REFUSED: u8 = 1;
/// The status where there is no answer: wrong usage (clap's own status for it), or a [`Failure`].
const FAILED: u8 = 2;
/// The status where an answer of Claude's is cut off.
#[cfg(feature = "chat")]
const CUT: u8 = 3;

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
            Ended::Done => ExitCode::SUCCESS,
            Ended::Declined => ExitCode::from(REFUSED),
            Ended::Cut => ExitCode::from(CUT),
            Ended::Interrupted { status } => ExitCode::from(status),
        }),
        Action::Conformance(arguments) => conformance::run(&arguments).map(|verdict| match verdict {
            Verdict::Good => ExitCode::SUCCESS,
            Verdict::Bad => ExitCode::from(REFUSED),
            Verdict::Interrupted { status } => ExitCode::from(status),
        }),
        Action::Verify(arguments) => verify::run(&arguments).map(|integrity| match integrity {
            Integrity::Intact => ExitCode::SUCCESS,
            Integrity::Damaged => ExitCode::from(REFUSED),
        }),
        Action::Gc(arguments) => gc::run(&arguments).map(|()| ExitCode::SUCCESS),
        Action::Expire(arguments) => expire::run(&arguments).map(|()| ExitCode::SUCCESS),
        Action::Keygen(arguments) => keygen::run(&arguments).map(|()| ExitCode::SUCCESS),
        Action::Rekey(arguments) => rekey::run(&arguments).map(|rotation| match rotation {
            Rotation::Complete => ExitCode::SUCCESS,
            Rotation::Incomplete => ExitCode::from(REFUSED),
        }),
        Action::Copy(arguments) => copy::run(&arguments).map(status_of),
        Action::Export(arguments) => export::run(&arguments).map(|ended| match ended {
            export::Ended::Done(completeness) => status_of(completeness),
            export::Ended::Interrupted { status } => ExitCode::from(status),
        }),
        Action::Import(arguments) => import::run(&arguments).map(status_of),
        Action::Completions(arguments) => completions::run(&arguments).map(|()| ExitCode::SUCCESS),
        Action::Man(arguments) => man::run(&arguments).map(|()| ExitCode::SUCCESS),
        Action::Command(command) => commands::run(command).map(|outcome| match outcome {
            Outcome::Done => ExitCode::SUCCESS,
            Outcome::Refused => ExitCode::from(REFUSED),
        }),
    }
}

fn status_of(completeness: Completeness) -> ExitCode {
    match completeness {
        Completeness::Complete => ExitCode::SUCCESS,
        Completeness::Incomplete => ExitCode::from(REFUSED),
    }
}
