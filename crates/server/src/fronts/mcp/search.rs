//! The tool `memory_search`.

use memory_tool::command::CommandName;
use memory_tool::search::{Search, SearchError};
use memory_tool::{Error, MemoryPath, Store, StoreError};
use rmcp::model::Tool;
use serde_json::Value;

use crate::fronts::mcp::reading::{Arguments, ReadFailure, definition_of, invalid};

pub(super) const NAME: &str = "memory_search";

const DESCRIPTION: &str = "\
Finds text in your memory: the lines of all files, and the names of files and directories. Use it when you do not know \
which file has the information you need, or when the memory has many files. View a file to read more than its matching \
lines, or when you know its path. By default, it finds files that have all words of `pattern`, in any order and line, \
or in the path. Double quotes make a phrase. Upper and lower case, and accents, make no difference. The result lists \
paths with line numbers, and in brackets the limits and skipped files.";

const MAX_CONTEXT: usize = 20;

pub(super) fn definition() -> Tool {
    let fields = [
        ("pattern", "string", "The words to find, such as `green tea`, or a regular expression."),
        ("path", "string", "The directory or file to search, such as /memories/projects. The default is /memories."),
        ("regex", "boolean", "Whether `pattern` is a regular expression. The default is false."),
        ("context", "integer", "The number of lines to show before and after each match, up to 20. The default is 0."),
        ("paths_only", "boolean", "Whether to show only the paths of files and their numbers of matches."),
        ("since", "string", "Search only files changed since this time, such as 2026-11-26T10:00:00Z, or age, as 7d."),
        ("before", "string", "Search only files last changed before this time or age."),
    ];
    definition_of(NAME, "Search memory", DESCRIPTION, &fields, &["pattern"])
}

/// Searches a store with the arguments of a request.
pub(super) async fn call(store: &dyn Store, arguments: Arguments) -> Result<String, ReadFailure> {
    let report = search(arguments)?.run(store).await.map_err(|error| match error {
        SearchError::Store(StoreError::NotFound { path }) => ReadFailure::Command(match MemoryPath::try_from(path) {
            Ok(path) => Error::NotFound { command: CommandName::View, path },
            Err(error) => error.into(),
        }),
        SearchError::Store(error) => error.into(),
        error => ReadFailure::Invalid(format!("Error: Invalid `pattern`: {error}.")),
    })?;
    Ok(report.to_string())
}

fn search(mut arguments: Arguments) -> Result<Search, ReadFailure> {
    let pattern = match arguments.0.remove("pattern") {
        Some(Value::String(pattern)) => pattern,
        Some(_) => return Err(invalid("pattern", "a string")),
        None => return Err(ReadFailure::Invalid("Error: Field `pattern` is missing".to_owned())),
    };
    let search = arguments.path("path")?.into_iter().fold(Search::new(pattern), Search::within);
    let search = if arguments.flag("regex")? { search.regex() } else { search };
    let search = if arguments.flag("paths_only")? { search.paths_only() } else { search };
    let around = arguments.whole("context", "a whole number from 0 to 20")?.unwrap_or_default().min(MAX_CONTEXT);
    let search = arguments.time("since")?.into_iter().fold(search.context(around, around), Search::since);
    Ok(arguments.time("before")?.into_iter().fold(search, Search::before))
}
