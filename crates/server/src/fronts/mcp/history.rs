//! The tool `memory_history`.

use memory_tool::command::DEFAULT_MAX_VIEW_CHARACTERS;
use memory_tool::history::{Entry, History, HistoryError, LogFilter};
use memory_tool::store::StorePath;
use memory_tool::{Memory, MemoryPath, Store};
use rmcp::model::Tool;

use crate::access::mounts::Mount;
use crate::fronts::mcp::reading::{Arguments, ReadFailure, definition_of};

pub(super) const NAME: &str = "memory_history";

const DESCRIPTION: &str = "\
Lists the changes of your memory, newest first: their time, command, actor and files. With `entry`, it shows the lines \
that this change removed and added. Use it to find text that was changed or deleted, and to see what changed \
since you last looked. It changes nothing: write an earlier text back with the commands of your memory.";

/// The number of listed entries.
const MAX_LISTED: usize = 50;
/// The number of listed changes of an entry.
const MAX_CHANGES: usize = 10;
/// The number of files with shown lines.
const MAX_FILES: usize = 50;

pub(super) fn definition() -> Tool {
    let fields = [
        ("path", "string", "Only changes of this file or directory, through its renames. The default is /memories."),
        ("entry", "integer", "The number of a change in the list, to see its lines."),
        ("text", "string", "Only changes of files with this text, before or after the change, or in their names."),
        ("deleted", "boolean", "Whether to list only deletions of files that do not exist now."),
        ("since", "string", "Only changes since this time, such as 2026-11-26T10:00:00Z, or age, as 7d."),
        ("skip", "integer", "The number of lines of the result to leave out, if an earlier result was too long."),
    ];
    definition_of(NAME, "History of memory", DESCRIPTION, &fields, &[])
}

/// Lists changes, or shows one, with the arguments of a request. `mount` is given for a shared memory.
pub(super) async fn call(
    memory: &Memory,
    mut arguments: Arguments,
    mount: Option<&Mount>,
) -> Result<String, ReadFailure> {
    let given = arguments.path("path")?;
    let path = given.map(|given| mount.and_then(|mount| mount.inner(&given)).unwrap_or(given)).map(StorePath::from);
    let entry = arguments.whole("entry", "the number of a change in the list")?;
    let (text, since) = (arguments.text("text")?, arguments.time("since")?);
    let is_deleted = arguments.flag("deleted")?;
    let skip = arguments.whole("skip", "a whole number of lines")?.unwrap_or_default();
    let Some(history) = memory.history() else { return Ok("The memory has no history.".to_owned()) };
    let (found, lines) = match entry {
        Some(number) => (lines_of(&history, number as u64, path.as_ref(), mount).await?, usize::MAX),
        None => {
            let filter = LogFilter::new().limit(skip.saturating_add(MAX_LISTED + 1));
            let filter = path.into_iter().fold(filter, LogFilter::path);
            let filter = text.into_iter().fold(filter, LogFilter::text);
            let filter = since.into_iter().fold(filter, LogFilter::since);
            let filter = if is_deleted { filter.deleted() } else { filter };
            (
                history
                    .entries(&filter)
                    .await?
                    .iter()
                    .map(|entry| in_one_line(entry, mount))
                    .collect::<Vec<_>>()
                    .join("\n"),
                MAX_LISTED,
            )
        }
    };
    if found.is_empty() {
        return Ok("There are no changes.".to_owned());
    }
    let of_shared = mount.filter(|_| entry.is_none()).map(|mount| {
        format!("\n[These are changes of a shared memory. With `entry`, also give the path {}.]", mount.point)
    });
    Ok(shortened(&found, skip, lines) + &of_shared.unwrap_or_default())
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
    mount: Option<&Mount>,
) -> Result<String, ReadFailure> {
    let is_meant = |changed: &StorePath| path.is_none_or(|path| changed == path || changed.is_under(path));
    let head = in_one_line(&history.entry(number).await?, mount);
    let mut found = history.entry_diff(number, MAX_FILES).await?;
    found.files.retain(|file| is_meant(&file.path));
    found.files.iter_mut().for_each(|file| file.path = in_tree(&file.path, mount));
    let files = found.files.iter().map(|file| format!("\n{}", file.unified()));
    let unknown = found.unknown.iter().filter(|path| is_meant(path)).map(|path| in_tree(path, mount));
    let unknown = unknown.map(|path| format!("\n[The texts of {path} are not known: not kept, or erased.]\n"));
    let more = (found.more > 0).then(|| format!("\n[Files not shown: {}.]\n", found.more));
    Ok(format!("{head}\n{}", files.chain(unknown).chain(more).collect::<String>()))
}

/// The path as the caller sees it.
fn in_tree(path: &StorePath, mount: Option<&Mount>) -> StorePath {
    let outer = || mount?.outer(&MemoryPath::try_from(path).ok()?).map(StorePath::from);
    outer().unwrap_or_else(|| path.clone())
}

fn in_one_line(entry: &Entry, mount: Option<&Mount>) -> String {
    let time = humantime::format_rfc3339_seconds(entry.time);
    let actor = entry.actor.iter().map(|actor| format!(" by {actor}")).collect::<String>();
    let changes =
        entry.changes.iter().take(MAX_CHANGES).map(|change| change.in_words(|path| in_tree(path, mount).to_string()));
    let changes = changes.collect::<Vec<_>>().join(", ");
    let more = entry.changes.len().saturating_sub(MAX_CHANGES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let reason = entry.reason.iter().map(|reason| format!(" (reason: {reason})")).collect::<String>();
    let line = format!("entry {}, {time}, {}{actor}: {changes}{more}{reason}", entry.number, entry.action());
    line.replace(char::is_control, " ")
}

/// At most `max` lines after the first ones, as many as a `view` would show (`[V8]`).
fn shortened(text: &str, skip: usize, max: usize) -> String {
    let (mut shown, mut characters, mut lines) = (String::new(), 0, 0);
    let mut rest = text.split_inclusive('\n').skip(skip).peekable();
    while let Some(line) = rest.next_if(|line| {
        characters += line.chars().count();
        lines < max && (lines == 0 || characters <= DEFAULT_MAX_VIEW_CHARACTERS)
    }) {
        shown.extend(line.chars().take(DEFAULT_MAX_VIEW_CHARACTERS));
        lines += 1;
    }
    if rest.peek().is_some() {
        shown += &format!("\n[There is more. Leave out these lines with `skip`: {}.]", skip.saturating_add(lines));
    }
    shown
}
