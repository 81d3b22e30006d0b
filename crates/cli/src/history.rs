//! Options, opening and printing for the commands of the history.

use std::io;
use std::sync::Arc;

use clap::Args;
use memory_tool::history::{Entry, FileChange, FileDiff, History, HistoryError, Id, LogFilter, Origin, TakenBack};
use memory_tool::policies::Scope;
use memory_tool::store::StorePath;
use memory_tool::{Memory, MemoryOptions, Store};
use serde::Serialize;

use crate::differences::{PrintedDiff, diff_text};
use crate::failure::{Context as _, Failure, eprint_line};
use crate::memory::{Access, open_existing};
use crate::options::values::Point;
use crate::options::{ActorArgument, StoreArgument};
use crate::terminal::escapes::on_one_line;
use crate::terminal::interruption::{CLEANUP_TIME, run_until_interrupted};
use crate::terminal::output::{count, to_json, write_line};
use crate::terminal::pager::{Colors, Pager};

/// Whose changes the commands for the history select.
#[derive(Args, Debug)]
pub(crate) struct ByArgument {
    /// Select only changes that this actor wrote or agreed to
    #[arg(id = "by_actor", long = "by", value_name = "ACTOR")]
    pub(crate) actor: Option<String>,

    /// Select only changes by this command, such as str_replace
    #[arg(id = "by_command", long = "by-command", value_name = "COMMAND")]
    pub(crate) command: Option<String>,
}

/// The arguments of all commands for the history.
#[derive(Args, Debug)]
pub(crate) struct HistoryArgument {
    /// Print JSON, one value per line
    #[arg(long)]
    pub(crate) json: bool,

    /// Work only in the part of the store that belongs to tenant NAME
    #[arg(long, value_name = "NAME", value_parser = Scope::from_trusted_name)]
    pub(crate) scope: Option<Scope>,

    #[command(flatten)]
    pub(crate) store: StoreArgument,
}

/// The arguments of the commands that change something with the history.
#[derive(Args, Debug)]
pub(crate) struct HistoryChangeArgument {
    #[command(flatten)]
    pub(crate) actor: ActorArgument,

    #[command(flatten)]
    pub(crate) history: HistoryArgument,
}

pub(crate) type StoreHistory = History<Arc<dyn Store>>;

pub(crate) const READING: &str = "cannot read the history";

/// The number of an entry.
pub(crate) async fn number(point: Point, history: &StoreHistory) -> Result<u64, HistoryError> {
    match point {
        Point::Entry(number) => Ok(number),
        Point::Time(time) => history.newest_at(time).await,
        Point::Now => history.newest().await,
    }
}

/// The memory at a moment.
pub(crate) async fn past(point: Point, history: &StoreHistory) -> Result<impl Store + use<>, Failure> {
    let number = number(point, history).await.context(READING)?;
    history.at(number).await.context(READING)
}

const NO_HISTORY: &str =
    "the memory has no history: `memory-tool mcp` starts one, and other commands do with --history";

/// The history of a memory that has one.
async fn started(memory: &Memory) -> Option<StoreHistory> {
    let history = memory.history()?;
    // The command reports the damage of a damaged history, or removes it.
    history.is_started().await.unwrap_or(true).then_some(history)
}

/// The history of a memory. Without one, this is an error.
pub(crate) async fn required(memory: &Memory) -> Result<StoreHistory, Failure> {
    started(memory).await.ok_or_else(|| Failure::new(NO_HISTORY))
}

/// Lists entries. A note reports that a memory has no history.
pub(crate) async fn entries(arguments: &HistoryArgument, filter: &LogFilter) -> Result<Vec<Entry>, Failure> {
    let memory = open_existing(&arguments.store.url, arguments.options(), Access::Read).await?;
    let Some(history) = started(&memory).await else {
        eprint_line(&format!("memory-tool: {NO_HISTORY}"));
        return Ok(Vec::new());
    };
    history.entries(filter).await.context(READING)
}

/// Makes a change, and prints its entry.
pub(crate) fn change(
    arguments: &HistoryChangeArgument,
    force: bool,
    make: impl AsyncFnOnce(StoreHistory) -> Result<TakenBack, HistoryError>,
) -> Result<(), Failure> {
    let taken_back = run_until_interrupted(CLEANUP_TIME, async {
        let (_memory, history) = open_to_change(arguments).await?;
        let history = if force { history.forced() } else { history };
        make(history).await.map_err(failure)
    })?;
    write_entries(arguments.history.json, &[taken_back.entry], &[])?;
    for path in taken_back.missing {
        let path = on_one_line(path.as_str());
        eprint_line(&format!("memory-tool: did not change {path}: its earlier contents are not kept"));
    }
    Ok(())
}

pub(crate) fn failure(error: HistoryError) -> Failure {
    match error {
        HistoryError::Changed { .. } => {
            let advice = "`memory-tool edit` changes single lines, and --force replaces files and keeps their contents";
            Failure::new(format!("{error}; {advice}"))
        }
        HistoryError::Exists { .. } => Failure::new(format!("{error} with --to, such as --to 24h")),
        error => Failure::other(error),
    }
}

pub(crate) async fn open_to_change(arguments: &HistoryChangeArgument) -> Result<(Memory, StoreHistory), Failure> {
    let (memory, history) = open(&arguments.history, Access::Change).await?;
    Ok((memory, by_actor(history, arguments)))
}

pub(crate) fn by_actor(history: StoreHistory, arguments: &HistoryChangeArgument) -> StoreHistory {
    arguments.actor.actor().into_iter().fold(history, History::by)
}

impl HistoryArgument {
    pub(crate) fn options(&self) -> MemoryOptions {
        let mut options = self.store.options();
        options.scope.clone_from(&self.scope);
        options
    }
}

/// Opens a memory that exists.
pub(crate) async fn open(arguments: &HistoryArgument, access: Access) -> Result<(Memory, StoreHistory), Failure> {
    let memory = open_existing(&arguments.store.url, arguments.options(), access).await?;
    let history = required(&memory).await?;
    Ok((memory, history))
}

pub(crate) fn write_entries(as_json: bool, entries: &[Entry], differences: &[FileDiff]) -> Result<(), Failure> {
    if as_json {
        for entry in entries {
            let differences = differences.iter().map(PrintedDiff::of).collect();
            let line = to_json(&io::stdout(), &PrintedEntry::of(entry, differences))?;
            write_line(&mut io::stdout().lock(), line)?;
        }
        return Ok(());
    }
    let pager = Pager::start();
    let mut text = entries.iter().map(|entry| entry_text(pager.colors, entry)).collect::<Vec<_>>().join("\n");
    for difference in differences {
        text += "\n";
        text += &diff_text(pager.colors, difference);
    }
    pager.write(&text)
}

/// An entry for programs.
#[derive(Serialize)]
struct PrintedEntry<'a> {
    number: u64,
    id: Id,
    time: String,
    actor: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    authors: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    command: Option<&'a str>,
    origin: &'a Origin,
    changes: &'a [FileChange],
    is_redacted: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    differences: Vec<PrintedDiff<'a>>,
}

impl<'a> PrintedEntry<'a> {
    fn of(entry: &'a Entry, differences: Vec<PrintedDiff<'a>>) -> Self {
        let Entry { number, id, time, ref actor, ref command, ref origin, ref changes, is_redacted, .. } = *entry;
        let time = humantime::format_rfc3339_millis(time).to_string();
        let (actor, reason, command) = (actor.as_deref(), entry.reason.as_deref(), command.as_deref());
        let authors = &entry.authors;
        Self { number, id, time, actor, authors, reason, command, origin, changes, is_redacted, differences }
    }
}

/// An entry for people, as Git prints a commit.
fn entry_text(colors: Colors, entry: &Entry) -> String {
    let number = colors.paint("33", &format!("entry {}", entry.number));
    let actor = entry.actor.iter().map(|actor| format!("Actor:   {}\n", on_one_line(actor)));
    let date = humantime::format_rfc3339_seconds(entry.time);
    let changes = entry.changes.iter().map(|change| format!("    {}\n", change_text(colors, change)));
    let lost =
        (entry.is_redacted && entry.changes.is_empty()).then(|| "    lost: its changes are not known\n".to_owned());
    let reason = entry.reason.iter().map(|reason| format!("Reason:  {}\n", on_one_line(reason)));
    let authors = entry.authors.iter().map(|author| format!("Author:  {}\n", on_one_line(author)));
    let (actor, reason) = (actor.chain(authors).collect::<String>(), reason.collect::<String>());
    let head = format!("{number}\n{actor}Date:    {date}\nCommand: {}\n{reason}", on_one_line(&entry.action()));
    head + &changes.chain(lost).collect::<String>()
}

fn change_text(colors: Colors, change: &FileChange) -> String {
    let path = |path: &StorePath| on_one_line(path.as_str()).to_string();
    match change {
        FileChange::Write { path: changed, before, after, .. } => {
            let mark = if before.is_none() { colors.paint("32", "A") } else { colors.paint("36", "M") };
            format!("{mark} {} ({})", path(changed), count(after.size, "byte"))
        }
        FileChange::Remove { path: removed, .. } => format!("{} {}", colors.paint("31", "D"), path(removed)),
        FileChange::Rename { from, to, .. } => {
            format!("{} {} -> {}", colors.paint("35", "R"), path(from), path(to))
        }
        other => other.path().map_or_else(|| "redacted".to_owned(), path),
    }
}
