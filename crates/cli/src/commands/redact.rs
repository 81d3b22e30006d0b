//! `memory-tool redact`: removes contents from the history.

use clap::Args;

use crate::failure::{Failure, eprint_line};
use crate::history::{HistoryChangeArgument, failure, open_to_change, write_entries};
use crate::terminal::interruption::{CLEANUP_TIME, run_until_interrupted};

#[derive(Args, Debug)]
pub(crate) struct RedactArguments {
    /// The numbers of the entries
    #[arg(required_unless_present = "all", value_name = "ENTRY")]
    pub(crate) entries: Vec<u64>,

    /// Remove the whole history, even if it is damaged
    #[arg(long, conflicts_with = "entries")]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) change: HistoryChangeArgument,
}

/// Removes what entries contain.
pub(crate) fn run(arguments: &RedactArguments) -> Result<(), Failure> {
    let (entry, backend) = run_until_interrupted(CLEANUP_TIME, async {
        let (memory, history) = open_to_change(&arguments.change).await?;
        let redacted = match arguments.all {
            true => history.clear().await.map(|()| None),
            false => history.redact(&arguments.entries).await.map(Some),
        };
        Ok((redacted.map_err(failure)?, memory.backend().clone()))
    })?;
    write_entries(arguments.change.history.json, entry.as_slice(), &[])?;
    eprint_line(&format!(
        "memory-tool: removed from the history. {} Present files are no history: edit or delete them. Snapshots, \
         backups and kept versions of a bucket are not known here.",
        backend.remains_of_removed()
    ));
    Ok(())
}
