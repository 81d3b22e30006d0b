//! The commands for the history: `log`, `show`, `undo`, `redo`, `restore` and `redact`.

use std::io;
use std::sync::Arc;

use memory_tool::history::{Entry, FileChange, FileDiff, History, HistoryError, LogFilter, Origin, TakenBack};
use memory_tool::store::StorePath;
use memory_tool::{Memory, Store};
use serde::Serialize;

use crate::arguments::values::Point;
use crate::arguments::{
    HistoryArgument, HistoryChangeArgument, LogArguments, RedactArguments, RedoArguments, RestoreArguments,
    ShowArguments, UndoArguments,
};
use crate::diff::{PrintedDiff, diff_text};
use crate::escapes::on_one_line;
use crate::failure::{Context as _, Failure, eprint_line};
use crate::interruption::{CLEANUP_TIME, run_until_interrupted};
use crate::memory;
use crate::output::{count, to_json, write_content, write_line};
use crate::pager::{Colors, Pager};

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

/// Lists entries.
pub(crate) fn log(arguments: &LogArguments) -> Result<(), Failure> {
    let entries = run_until_interrupted(CLEANUP_TIME, async {
        let (_memory, history) = open(&arguments.history, true).await?;
        let mut filter = LogFilter::new();
        filter = arguments.path.iter().fold(filter, |filter, path| filter.path(path.clone().into()));
        filter = arguments.by.actor.iter().fold(filter, LogFilter::actor);
        filter = arguments.by.command.iter().fold(filter, LogFilter::command);
        filter = arguments.limit.iter().fold(filter, |filter, limit| filter.limit(limit.get()));
        filter = arguments.before.iter().fold(filter, |filter, before| filter.before(*before));
        history.entries(&filter).await.context(READING)
    })?;
    write_entries(arguments.history.json, &entries, &[])
}

pub(crate) fn required(history: Option<&StoreHistory>) -> Result<&StoreHistory, Failure> {
    history.ok_or_else(|| Failure::new("the memory has no history"))
}

/// Prints an entry with its differences, or a file after it.
pub(crate) fn show(arguments: &ShowArguments) -> Result<(), Failure> {
    let number = arguments.entry;
    if let Some(path) = &arguments.path {
        let content = run_until_interrupted(CLEANUP_TIME, async {
            let (_memory, history) = open(&arguments.history, true).await?;
            history.read(&path.clone().into(), number).await.context(READING)
        })?;
        return write_content(&content).map(drop);
    }
    let (entry, differences) = run_until_interrupted(CLEANUP_TIME, async {
        let (_memory, history) = open(&arguments.history, true).await?;
        let entry = history.entry(number).await.context(READING)?;
        Ok((entry, history.entry_diff(number, usize::MAX).await.context(READING)?))
    })?;
    for path in &differences.unknown {
        eprint_line(&format!(
            "memory-tool: the contents of {path} are not known: they were not kept, or were redacted"
        ));
    }
    write_entries(arguments.history.json, &[entry], &differences.files)
}

/// Takes back the last changes, or changes by an actor or a command.
pub(crate) fn undo(arguments: &UndoArguments) -> Result<(), Failure> {
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

/// Takes back the last undo.
pub(crate) fn redo(arguments: &RedoArguments) -> Result<(), Failure> {
    change(&arguments.change, arguments.force, async |history| history.redo().await)
}

/// Restores a file, a directory or everything.
pub(crate) fn restore(arguments: &RestoreArguments) -> Result<(), Failure> {
    change(&arguments.change, false, async |history| {
        let number = number(arguments.to, &history).await?;
        history.restore(&arguments.path.clone().into(), number).await
    })
}

/// Removes what entries contain.
pub(crate) fn redact(arguments: &RedactArguments) -> Result<(), Failure> {
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

/// Makes a change, and prints its entry.
fn change(
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
        eprint_line(&format!(
            "memory-tool: did not change {}: its earlier contents are not kept",
            on_one_line(path.as_str())
        ));
    }
    Ok(())
}

fn failure(error: HistoryError) -> Failure {
    match error {
        HistoryError::Changed { .. } => {
            Failure::new(format!("{error}; --force replaces them, and keeps their contents"))
        }
        error => Failure::other(error),
    }
}

async fn open_to_change(arguments: &HistoryChangeArgument) -> Result<(Memory, StoreHistory), Failure> {
    let (memory, history) = open(&arguments.history, false).await?;
    Ok((memory, arguments.actor.iter().fold(history, |history, actor| history.by(actor.clone()))))
}

/// Opens a memory that exists.
async fn open(arguments: &HistoryArgument, read_only: bool) -> Result<(Memory, StoreHistory), Failure> {
    memory::refuse_temporary(&arguments.store.url)?;
    let mut options = arguments.store.options();
    (options.must_exist, options.read_only) = (true, read_only);
    options.scope.clone_from(&arguments.scope);
    let memory = memory::open(&arguments.store.url, &options).await?;
    let history = required(memory.history().as_ref())?.clone();
    Ok((memory, history))
}

fn write_entries(as_json: bool, entries: &[Entry], differences: &[FileDiff]) -> Result<(), Failure> {
    if as_json {
        for entry in entries {
            let differences = differences.iter().map(PrintedDiff::of).collect();
            let line = to_json(&io::stdout(), &PrintedEntry { entry, differences })?;
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

#[derive(Serialize)]
struct PrintedEntry<'a> {
    #[serde(flatten)]
    entry: &'a Entry,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    differences: Vec<PrintedDiff<'a>>,
}

/// An entry for people, as Git prints a commit.
fn entry_text(colors: Colors, entry: &Entry) -> String {
    let number = colors.paint("33", &format!("entry {}", entry.number));
    let actor = entry.actor.iter().map(|actor| format!("Actor:   {}\n", on_one_line(actor)));
    let date = humantime::format_rfc3339_seconds(entry.time);
    let action = match (&entry.origin, &entry.command) {
        (Origin::Edit, Some(command)) => on_one_line(command).to_string(),
        (Origin::Edit, None) => "by a program".to_owned(),
        (Origin::Undo(entries), _) => format!("undo of {}", numbers(entries)),
        (Origin::Redo(entry), _) => format!("redo of entry {entry}"),
        (Origin::Revert(entries), _) => format!("undo of {}", numbers(entries)),
        (Origin::Restore(entry), _) => format!("restore of the state after entry {entry}"),
        (Origin::Redaction(entries), _) => format!("redaction of {}", numbers(entries)),
        (_, command) => command.clone().unwrap_or_default(),
    };
    let changes = entry.changes.iter().map(|change| format!("    {}\n", change_text(colors, change)));
    let lost =
        (entry.is_redacted && entry.changes.is_empty()).then(|| "    lost: its changes are not known\n".to_owned());
    let head = format!("{number}\n{}Date:    {date}\nCommand: {action}\n", actor.collect::<String>());
    head + &changes.chain(lost).collect::<String>()
}

fn change_text(colors: Colors, change: &FileChange) -> String {
    let path = |path: &StorePath| on_one_line(path.as_str()).to_string();
    match change {
        FileChange::Write { path: changed, before: None, after, .. } => {
            format!("{} {} ({})", colors.paint("32", "A"), path(changed), count(after.size, "byte"))
        }
        FileChange::Write { path: changed, after, .. } => {
            format!("{} {} ({})", colors.paint("36", "M"), path(changed), count(after.size, "byte"))
        }
        FileChange::Remove { path: removed, .. } => format!("{} {}", colors.paint("31", "D"), path(removed)),
        FileChange::Rename { from, to, .. } => {
            format!("{} {} -> {}", colors.paint("35", "R"), path(from), path(to))
        }
        other => other.path().map_or_else(|| "redacted".to_owned(), path),
    }
}

pub(crate) fn numbers(entries: &[u64]) -> String {
    let listed = entries.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    format!("{} {listed}", if entries.len() == 1 { "entry" } else { "entries" })
}
