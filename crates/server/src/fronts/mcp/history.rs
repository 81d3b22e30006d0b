//! The tool `memory_history`.

use memory_tool::command::DEFAULT_MAX_VIEW_CHARACTERS;
use memory_tool::history::{Entry, FileChange, History, HistoryError, LogFilter};
use memory_tool::store::StorePath;
use memory_tool::{Memory, Store};
use rmcp::model::Tool;

use crate::fronts::mcp::reading::{Arguments, ReadFailure, definition_of};

pub(super) const NAME: &str = "memory_history";

const DESCRIPTION: &str = "\
Lists the changes of your memory, newest first: their time, command, actor and files. With `entry`, it shows the lines \
that this change removed and added. Use it to find text that was changed or deleted, and to see what changed \
since you last looked. It changes nothing: write an earlier text back with the commands of your memory.";

/// The number of listed entries.
const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 100;
/// The number of listed changes of an entry.
const MAX_CHANGES: usize = 10;
/// The number of files with shown lines.
const MAX_FILES: usize = 50;

pub(super) fn definition() -> Tool {
    let fields = [
        ("path", "string", "Only changes of this file or directory, through its renames. The default is /memories."),
        ("entry", "integer", "The number of a change in the list, to see its lines."),
        ("limit", "integer", "The number of changes to list, up to 100. The default is 20."),
        ("since", "string", "Only changes since this time, such as 2026-11-26T10:00:00Z, or age, as 7d."),
    ];
    definition_of(NAME, "History of memory", DESCRIPTION, &fields, &[])
}

/// Lists changes, or shows one, with the arguments of a request.
pub(super) async fn call(memory: &Memory, mut arguments: Arguments) -> Result<String, ReadFailure> {
    let path = arguments.path("path")?.map(StorePath::from);
    let entry = arguments.whole("entry", "the number of a change in the list")?;
    let limit = arguments.whole("limit", "a whole number from 1 to 100")?.unwrap_or(DEFAULT_LIMIT);
    let since = arguments.time("since")?;
    let Some(history) = memory.history() else { return Ok("The memory has no history.".to_owned()) };
    let text = match entry {
        Some(number) => lines_of(&history, number as u64, path.as_ref()).await?,
        None => {
            let filter = path.into_iter().fold(LogFilter::new().limit(limit.min(MAX_LIMIT)), LogFilter::path);
            let entries = history.entries(&since.into_iter().fold(filter, LogFilter::since)).await?;
            entries.iter().map(in_one_line).collect::<Vec<_>>().join("\n")
        }
    };
    Ok(if text.is_empty() { "There are no changes.".to_owned() } else { shortened(text) })
}

impl From<HistoryError> for ReadFailure {
    fn from(error: HistoryError) -> Self {
        match error {
            HistoryError::Store(error) => error.into(),
            error => Self::Invalid(format!("Error: {error}")),
        }
    }
}

/// The lines that a change removed and added.
async fn lines_of<S: Store>(
    history: &History<S>,
    number: u64,
    path: Option<&StorePath>,
) -> Result<String, ReadFailure> {
    let is_meant = |changed: &StorePath| path.is_none_or(|path| changed == path || changed.is_under(path));
    let head = in_one_line(&history.entry(number).await?);
    let found = history.entry_diff(number, MAX_FILES).await?;
    let files = found.files.iter().filter(|file| is_meant(&file.path)).map(|file| format!("\n{}", file.unified()));
    let unknown = found.unknown.iter().filter(|path| is_meant(path));
    let unknown = unknown.map(|path| format!("\n[The texts of {path} are not known: not kept, or erased.]\n"));
    let more = (found.more > 0).then(|| format!("\n[Files not shown: {}.]\n", found.more));
    Ok(format!("{head}\n{}", files.chain(unknown).chain(more).collect::<String>()))
}

fn in_one_line(entry: &Entry) -> String {
    let time = humantime::format_rfc3339_seconds(entry.time);
    let actor = entry.actor.iter().map(|actor| format!(" by {actor}")).collect::<String>();
    let changes = entry.changes.iter().take(MAX_CHANGES).map(in_words).collect::<Vec<_>>().join(", ");
    let more = entry.changes.len().saturating_sub(MAX_CHANGES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let reason = entry.reason.iter().map(|reason| format!(" (reason: {reason})")).collect::<String>();
    let line = format!("entry {}, {time}, {}{actor}: {changes}{more}{reason}", entry.number, entry.action());
    line.replace(char::is_control, " ")
}

fn in_words(change: &FileChange) -> String {
    match change {
        FileChange::Write { path, before: None, .. } => format!("created {path}"),
        FileChange::Write { path, .. } => format!("changed {path}"),
        FileChange::Remove { path, .. } => format!("deleted {path}"),
        FileChange::Rename { from, to, .. } => format!("renamed {from} to {to}"),
        _ => "a change that was erased".to_owned(),
    }
}

/// As much text as a `view` shows (`[V8]`).
fn shortened(text: String) -> String {
    match text.char_indices().nth(DEFAULT_MAX_VIEW_CHARACTERS) {
        Some((end, _)) => format!("{}\n\n[Too long, the rest is left out. Name a file in `path`.]", &text[..end]),
        None => text,
    }
}
