//! `memory-tool log`: lists entries of the history.

use std::num::NonZeroUsize;

use clap::{Args, ValueHint};
use memory_tool::MemoryPath;
use memory_tool::history::LogFilter;
use memory_tool::store::Moment;

use crate::failure::{Failure, eprint_line};
use crate::history::{ByArgument, HistoryArgument, entries, write_entries};
use crate::options::values::memory_path;
use crate::terminal::escapes::on_one_line;
use crate::terminal::interruption::{CLEANUP_TIME, run_until_interrupted};

#[derive(Args, Debug)]
pub(crate) struct LogArguments {
    /// List only changes of this file or directory, through its renames
    #[arg(value_parser = memory_path, value_hint = ValueHint::Other)]
    pub(crate) path: Option<MemoryPath>,

    /// List at most N entries
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) limit: Option<NonZeroUsize>,

    /// List only entries at or after this
    #[arg(long, value_name = "TIME|AGE")]
    pub(crate) since: Option<Moment>,

    /// List only entries at or before this
    #[arg(long, value_name = "TIME|AGE")]
    pub(crate) until: Option<Moment>,

    /// List only entries before number N
    #[arg(long, value_name = "N")]
    pub(crate) before: Option<u64>,

    /// List only entries with TEXT in names or contents
    ///
    /// It is in contents before or after the entry. Upper and lower case differ.
    #[arg(short = 'S', long)]
    pub(crate) text: Option<String>,

    /// List only deletions of files that do not exist now
    #[arg(long)]
    pub(crate) deleted: bool,

    #[command(flatten)]
    pub(crate) by: ByArgument,

    #[command(flatten)]
    pub(crate) history: HistoryArgument,
}

/// Lists entries.
pub(crate) fn run(arguments: &LogArguments) -> Result<(), Failure> {
    let mut filter = LogFilter::new();
    filter = arguments.path.iter().fold(filter, |filter, path| filter.path(path.clone().into()));
    filter = arguments.by.actor.iter().fold(filter, LogFilter::actor);
    filter = arguments.by.command.iter().fold(filter, LogFilter::command);
    filter = arguments.limit.iter().fold(filter, |filter, limit| filter.limit(limit.get()));
    filter = arguments.since.into_iter().fold(filter, LogFilter::since);
    filter = arguments.until.into_iter().fold(filter, LogFilter::until);
    filter = arguments.before.iter().fold(filter, |filter, before| filter.before(*before));
    filter = arguments.text.iter().fold(filter, LogFilter::text);
    let filter = if arguments.deleted { filter.deleted() } else { filter };
    let entries = run_until_interrupted(CLEANUP_TIME, entries(&arguments.history, &filter))?;
    if let ([], Some(actor)) = (entries.as_slice(), &arguments.by.actor) {
        eprint_line(&on_one_line(&format!("memory-tool: no entry is by {actor}")));
    }
    write_entries(arguments.history.json, &entries, &[])
}
