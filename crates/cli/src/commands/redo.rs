//! `memory-tool redo`: takes back the last undo.

use clap::Args;

use crate::failure::Failure;
use crate::history::{HistoryChangeArgument, change};

#[derive(Args, Debug)]
pub(crate) struct RedoArguments {
    /// Replace files that have changed since
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) change: HistoryChangeArgument,
}

/// Takes back the last undo.
pub(crate) fn run(arguments: &RedoArguments) -> Result<(), Failure> {
    change(&arguments.change, arguments.force, async |history| history.redo().await)
}
