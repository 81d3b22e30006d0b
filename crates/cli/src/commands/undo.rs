//! `memory-tool undo`: takes back changes.

use std::num::NonZeroUsize;

use clap::Args;
use memory_tool::history::{HistoryError, LogFilter};

use crate::failure::Failure;
use crate::history::{ByArgument, HistoryChangeArgument, change};

#[derive(Args, Debug)]
pub(crate) struct UndoArguments {
    /// Take back the last N changes in one step
    #[arg(short = 'n', long, value_name = "N", default_value = "1")]
    pub(crate) count: NonZeroUsize,

    /// Take back entry N instead; may be repeated
    #[arg(long = "entry", value_name = "N", conflicts_with_all = ["count", "by_actor", "by_command"])]
    pub(crate) entries: Vec<u64>,

    /// Replace files that have changed since
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) by: ByArgument,

    #[command(flatten)]
    pub(crate) change: HistoryChangeArgument,
}

/// Takes back the last changes, or changes by an actor or a command.
pub(crate) fn run(arguments: &UndoArguments) -> Result<(), Failure> {
    change(&arguments.change, arguments.force, async |history| {
        let by = &arguments.by;
        if arguments.entries.is_empty() && by.actor.is_none() && by.command.is_none() {
            return history.undo(arguments.count.get()).await;
        }
        let mut entries = arguments.entries.clone();
        if by.actor.is_some() || by.command.is_some() {
            let filter = by.actor.iter().fold(LogFilter::new(), LogFilter::actor);
            let filter = by.command.iter().fold(filter, LogFilter::command);
            let found = history.entries(&filter.limit(arguments.count.get())).await?;
            entries.extend(found.iter().map(|entry| entry.number));
        }
        if entries.is_empty() { Err(HistoryError::NothingToUndo) } else { history.revert(&entries).await }
    })
}
