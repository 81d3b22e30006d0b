//! `memory-tool restore`: restores a file, a directory or everything.

use clap::{Args, ValueHint};
use memory_tool::MemoryPath;

use crate::failure::Failure;
use crate::history::{HistoryChangeArgument, change, number};
use crate::options::values::{Point, memory_path};

#[derive(Args, Debug)]
pub(crate) struct RestoreArguments {
    /// The file or directory; /memories is everything
    #[arg(value_parser = memory_path, value_hint = ValueHint::Other)]
    pub(crate) path: MemoryPath,

    /// Restore the state after this entry, at this time, or this long ago
    ///
    /// Without it, the last state of a deleted file or directory is restored.
    #[arg(long, value_name = "ENTRY|TIME|AGE")]
    pub(crate) to: Option<Point>,

    #[command(flatten)]
    pub(crate) change: HistoryChangeArgument,
}

/// Restores a file, a directory or everything.
pub(crate) fn run(arguments: &RestoreArguments) -> Result<(), Failure> {
    change(&arguments.change, false, async |history| {
        let path = arguments.path.clone().into();
        let Some(point) = arguments.to else { return history.restore_deleted(&path).await };
        history.restore(&path, number(point, &history).await?).await
    })
}
