//! The tool `memory_search`.

use memory_tool::command::CommandName;
use memory_tool::search::{Search, SearchError, SearchReport};
use memory_tool::store::Moment;
use memory_tool::{Error, MemoryPath, Store, StoreError};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use crate::fronts::mcp::arguments::{object_schema, read_json, whole};

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
    let fields = fields
        .into_iter()
        .map(|(name, kind, description)| (name.to_owned(), json!({"type": kind, "description": description})));
    let annotations = ToolAnnotations::new().read_only(true).destructive(false).idempotent(true).open_world(false);
    Tool::new(NAME, DESCRIPTION, object_schema(fields, &["pattern"]))
        .with_title("Search memory")
        .with_annotations(annotations)
}

/// An error of a search, for the model.
#[derive(Debug)]
pub(super) enum SearchFailure {
    /// The arguments are wrong.
    Invalid(String),
    /// The error of a command.
    Command(Error),
}

/// Searches a store with the arguments of a request.
pub(super) async fn call(store: &dyn Store, arguments: JsonObject) -> Result<SearchReport, SearchFailure> {
    let search = Arguments(arguments).search()?;
    search.run(store).await.map_err(|error| match error {
        SearchError::Store(StoreError::NotFound { path }) => match MemoryPath::try_from(path) {
            Ok(path) => SearchFailure::Command(Error::NotFound { command: CommandName::View, path }),
            Err(error) => SearchFailure::Command(error.into()),
        },
        SearchError::Store(error) => SearchFailure::Command(Error::Storage { kind: error.kind(), source: error }),
        error => SearchFailure::Invalid(format!("Error: Invalid `pattern`: {error}.")),
    })
}

/// The arguments as the client sent them. Some clients fill in every field, and send each value as a string.
struct Arguments(Map<String, Value>);

impl Arguments {
    fn search(mut self) -> Result<Search, SearchFailure> {
        let pattern = match self.0.remove("pattern") {
            Some(Value::String(pattern)) => pattern,
            Some(_) => return Err(invalid("pattern", "a string")),
            None => return Err(SearchFailure::Invalid("Error: Field `pattern` is missing".to_owned())),
        };
        let mut search = Search::new(pattern);
        if let Some(path) = self.take("path") {
            let path = path.as_str().ok_or_else(|| invalid("path", "a string"))?;
            let path = MemoryPath::parse(path).map_err(|error| SearchFailure::Command(error.into()))?;
            search = search.within(path);
        }
        if self.flag("regex")? {
            search = search.regex();
        }
        if self.flag("paths_only")? {
            search = search.paths_only();
        }
        if let Some(context) = self.take("context") {
            let lines = whole(&read_json(context)).and_then(|lines| usize::try_from(lines).ok());
            let lines = lines.ok_or_else(|| invalid("context", "a whole number from 0 to 20"))?;
            search = search.context(lines.min(MAX_CONTEXT), lines.min(MAX_CONTEXT));
        }
        search = self.time("since")?.into_iter().fold(search, Search::since);
        Ok(self.time("before")?.into_iter().fold(search, Search::before))
    }

    /// The value of a field, unless it counts as left out.
    fn take(&mut self, field: &str) -> Option<Value> {
        let value = self.0.remove(field)?;
        let is_left_out = value.is_null() || matches!(value.as_str(), Some("" | "null")) || value == json!([]);
        (!is_left_out).then_some(value)
    }

    fn flag(&mut self, field: &str) -> Result<bool, SearchFailure> {
        let value = self.take(field).map_or(Value::Bool(false), read_json);
        value.as_bool().ok_or_else(|| invalid(field, "true or false"))
    }

    fn time(&mut self, field: &str) -> Result<Option<Moment>, SearchFailure> {
        let Some(value) = self.take(field) else { return Ok(None) };
        let read = value.as_str().and_then(|given| given.parse().ok());
        read.map(Some).ok_or_else(|| invalid(field, "a time such as 2026-11-26T10:00:00Z, or an age such as 24h"))
    }
}

fn invalid(field: &str, expected: &str) -> SearchFailure {
    SearchFailure::Invalid(format!("Error: Field `{field}` must be {expected}"))
}
