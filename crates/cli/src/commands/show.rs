//! `memory-tool show`: prints an entry of the history with its differences, or a file after it.

use clap::{Args, ValueHint};
use memory_tool::MemoryPath;
use memory_tool::history::HistoryError;

use crate::failure::{Context as _, Failure};
use crate::files::eprint;
use crate::history::{HistoryArgument, READING, open, write_entries};
use crate::memory::Access;
use crate::options::values::memory_path;
use crate::terminal::interruption::{CLEANUP_TIME, run_until_interrupted};
use crate::terminal::output::write_content;

#[derive(Args, Debug)]
pub(crate) struct ShowArguments {
    /// The number of the entry
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) entry: u64,

    /// Print this file after the entry instead
    #[arg(value_parser = memory_path, value_hint = ValueHint::Other)]
    pub(crate) path: Option<MemoryPath>,

    #[command(flatten)]
    pub(crate) history: HistoryArgument,
}

/// Prints an entry with its differences, or a file after it.
pub(crate) fn run(arguments: &ShowArguments) -> Result<(), Failure> {
    let number = arguments.entry;
    if let Some(path) = &arguments.path {
        let content = run_until_interrupted(CLEANUP_TIME, async {
            let (_memory, history) = open(&arguments.history, Access::Read).await?;
            let path = path.clone().into();
            let read = history.read(&path, number).await;
            let is_removed = matches!(read, Err(HistoryError::NotAFile { .. }));
            if is_removed && history.read(&path, number - 1).await.is_ok() {
                let before = number - 1;
                let message = format!("entry {number} removed {path}; it is in the state after entry {before}");
                return Err(Failure::new(message));
            }
            read.context(READING)
        })?;
        return write_content(&content).map(drop);
    }
    let (entry, differences) = run_until_interrupted(CLEANUP_TIME, async {
        let (_memory, history) = open(&arguments.history, Access::Read).await?;
        let entry = history.entry(number).await.context(READING)?;
        Ok((entry, history.entry_diff(number, usize::MAX).await.context(READING)?))
    })?;
    for path in &differences.unknown {
        eprint(&format!("the contents of {path} are not known: they were not kept, or were redacted"));
    }
    write_entries(arguments.history.json, &[entry], &differences.files)
}
