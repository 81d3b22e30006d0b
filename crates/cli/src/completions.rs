//! `memory-tool completions`: prints a completion script for a shell.

use std::io;

use crate::arguments::{self, CompletionsArguments, NAME};
use crate::failure::Failure;
use crate::output::write_text;

/// Prints the script.
pub(crate) fn run(arguments: &CompletionsArguments) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut arguments::command(), NAME, &mut script);
    write_text(&mut io::stdout().lock(), &script).map(|_| ())
}
