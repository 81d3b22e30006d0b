//! The six commands (`[W1]`).

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::store::path::MemoryPath;
use crate::tool::command_name::CommandName;
use crate::tool::error::{Error, InputError, type_name};
use crate::tool::lines::{InsertLine, ViewRange};

/// A command of the memory tool, parsed from the `input` of a `tool_use` block (`[W1]`).
///
/// ```
/// use memory_tool_core::Command;
/// use serde_json::json;
///
/// let command = Command::parse(json!({"command": "view", "path": "/memories", "view_range": null}))?;
/// assert!(matches!(command, Command::View(_)));
/// let error = Command::parse(json!({"command": "view"})).unwrap_err();
/// assert_eq!(error.to_string(), "Error: Missing field `path` of the command view");
/// # Ok::<(), memory_tool_core::Error>(())
/// ```
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "command", rename_all = "snake_case", try_from = "Value")]
#[expect(clippy::exhaustive_enums, reason = "memory_20250818 has exactly these commands")]
pub enum Command {
    /// Returns the contents of a directory or file.
    View(ViewCommand),
    /// Creates a file.
    Create(CreateCommand),
    /// Replaces a string in a file.
    StrReplace(StrReplaceCommand),
    /// Inserts text at a line of a file.
    Insert(InsertCommand),
    /// Deletes a file or directory.
    Delete(DeleteCommand),
    /// Renames or moves a file or directory.
    Rename(RenameCommand),
}

impl Command {
    /// Parses the `input` of a `tool_use` block (`[W1]`).
    ///
    /// Unknown fields are ignored. If `insert_text` is missing, `new_str` is used instead, and if `old_path` is
    /// missing, `path` is used, because models sometimes send those.
    ///
    /// # Errors
    /// [`Error::Input`] for a missing field, a wrong type or an unknown command, and [`Error::Path`] for an invalid
    /// path. [`Error::NulCharacter`] for text with U+0000 (`[C4]`): no tool needs this check itself.
    pub fn parse(input: Value) -> Result<Self, Error> {
        let Value::Object(mut fields) = input else {
            return Err(InputError::NotAnObject { found: type_name(&input) }.into());
        };
        let command = InputError::string_of(None, "command", fields.remove("command"))?.parse()?;
        let mut fields = Fields { command, fields };
        Ok(match fields.command {
            CommandName::View => {
                Self::View(ViewCommand { path: fields.path("path")?, view_range: fields.view_range() })
            }
            CommandName::Create => {
                Self::Create(CreateCommand { path: fields.path("path")?, file_text: fields.content("file_text")? })
            }
            CommandName::StrReplace => Self::StrReplace(StrReplaceCommand {
                path: fields.path("path")?,
                old_str: fields.content("old_str")?,
                new_str: fields.optional_content("new_str")?.unwrap_or_default(),
            }),
            CommandName::Insert => Self::Insert(InsertCommand {
                path: fields.path("path")?,
                insert_line: fields.insert_line()?,
                insert_text: fields.content(fields.name_or_alias("insert_text", "new_str"))?,
            }),
            CommandName::Delete => Self::Delete(DeleteCommand { path: fields.path("path")? }),
            CommandName::Rename => Self::Rename(RenameCommand {
                old_path: fields.path(fields.name_or_alias("old_path", "path"))?,
                new_path: fields.path("new_path")?,
            }),
        })
    }

    /// The name of the command.
    pub fn name(&self) -> CommandName {
        match self {
            Self::View(_) => CommandName::View,
            Self::Create(_) => CommandName::Create,
            Self::StrReplace(_) => CommandName::StrReplace,
            Self::Insert(_) => CommandName::Insert,
            Self::Delete(_) => CommandName::Delete,
            Self::Rename(_) => CommandName::Rename,
        }
    }
}

impl TryFrom<Value> for Command {
    type Error = Error;

    fn try_from(input: Value) -> Result<Self, Error> {
        Self::parse(input)
    }
}

/// Returns the listing of a directory, two levels deep, or the numbered lines of a file (`[V1]` to `[V10]`).
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ViewCommand {
    /// The path to view.
    pub path: MemoryPath,
    /// The lines to return (`[V4]`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub view_range: Option<ViewRange>,
}

impl ViewCommand {
    /// Creates a command for all of `path`.
    pub fn new(path: MemoryPath) -> Self {
        Self { path, view_range: None }
    }

    /// Sets the lines to return, such as `1..=10` or `11..`.
    #[must_use]
    pub fn with_view_range(mut self, view_range: impl Into<ViewRange>) -> Self {
        self.view_range = Some(view_range.into());
        self
    }
}

/// Creates a file (`[C1]` to `[C3]`).
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CreateCommand {
    /// The path of the file.
    pub path: MemoryPath,
    /// The text of the file.
    pub file_text: String,
}

impl CreateCommand {
    /// Creates a command.
    pub fn new(path: MemoryPath, file_text: impl Into<String>) -> Self {
        Self { path, file_text: file_text.into() }
    }
}

/// Replaces the only occurrence of a string in a file (`[S1]` to `[S5]`).
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StrReplaceCommand {
    /// The file.
    pub path: MemoryPath,
    /// The string to replace, which is literal.
    pub old_str: String,
    /// The replacement, which is literal. An empty string deletes `old_str`.
    pub new_str: String,
}

impl StrReplaceCommand {
    /// Creates a command.
    pub fn new(path: MemoryPath, old_str: impl Into<String>, new_str: impl Into<String>) -> Self {
        Self { path, old_str: old_str.into(), new_str: new_str.into() }
    }
}

/// Inserts text as new lines (`[I1]` to `[I3]`).
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct InsertCommand {
    /// The file.
    pub path: MemoryPath,
    /// The number of lines before the inserted text. 0 inserts at the start of the file.
    pub insert_line: InsertLine,
    /// The text to insert. A final line feed is optional.
    pub insert_text: String,
}

impl InsertCommand {
    /// Creates a command.
    pub fn new(path: MemoryPath, insert_line: usize, insert_text: impl Into<String>) -> Self {
        Self { path, insert_line: insert_line.into(), insert_text: insert_text.into() }
    }
}

/// Deletes a file, or a directory and its contents (`[D1]`, `[D2]`).
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DeleteCommand {
    /// The path to delete.
    pub path: MemoryPath,
}

impl DeleteCommand {
    /// Creates a command.
    pub fn new(path: MemoryPath) -> Self {
        Self { path }
    }
}

/// Renames or moves a file, or a directory and its contents (`[R1]` to `[R3]`).
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RenameCommand {
    /// The old path.
    pub old_path: MemoryPath,
    /// The new path, which must not exist.
    pub new_path: MemoryPath,
}

impl RenameCommand {
    /// Creates a command.
    pub fn new(old_path: MemoryPath, new_path: MemoryPath) -> Self {
        Self { old_path, new_path }
    }
}

impl FromStr for CommandName {
    type Err = InputError;

    fn from_str(given: &str) -> Result<Self, InputError> {
        let name = Self::ALL.into_iter().find(|name| name.as_str() == given);
        name.ok_or_else(|| InputError::UnknownCommand { command: given.to_owned() })
    }
}

/// The character that the API does not accept in a reply, and so no text may contain (`[C4]`, `[W2]`).
pub(super) const NUL: char = '\0';

pub(super) fn refuse_nul(command: CommandName, field: &'static str, text: &str) -> Result<(), Error> {
    if text.contains(NUL) { Err(Error::NulCharacter { command, field }) } else { Ok(()) }
}

struct Fields {
    command: CommandName,
    fields: Map<String, Value>,
}

impl Fields {
    /// Takes the value of a field. Null is the same as a missing field.
    fn optional(&mut self, field: &'static str) -> Option<Value> {
        self.fields.remove(field).filter(|value| !value.is_null())
    }

    /// Returns `alias` if only `alias` is present, and `field` otherwise.
    fn name_or_alias(&self, field: &'static str, alias: &'static str) -> &'static str {
        if !self.has(field) && self.has(alias) { alias } else { field }
    }

    fn has(&self, field: &str) -> bool {
        self.fields.get(field).is_some_and(|value| !value.is_null())
    }

    fn path(&mut self, field: &'static str) -> Result<MemoryPath, Error> {
        Ok(MemoryPath::parse(&self.text(field)?)?)
    }

    fn text(&mut self, field: &'static str) -> Result<String, InputError> {
        InputError::string_of(Some(self.command), field, self.fields.remove(field))
    }

    fn content(&mut self, field: &'static str) -> Result<String, Error> {
        let text = self.text(field)?;
        refuse_nul(self.command, field, &text)?;
        Ok(text)
    }

    fn optional_content(&mut self, field: &'static str) -> Result<Option<String>, Error> {
        self.has(field).then(|| self.content(field)).transpose()
    }

    fn insert_line(&mut self) -> Result<InsertLine, InputError> {
        const FIELD: &str = "insert_line";
        let command = Some(self.command);
        let value = self.optional(FIELD).ok_or(InputError::MissingField { command, field: FIELD })?;
        InsertLine::from_value(&value).ok_or_else(|| InputError::wrong_type(command, FIELD, "an integer", &value))
    }

    fn view_range(&mut self) -> Option<ViewRange> {
        self.optional("view_range").map(ViewRange::from_value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_round_trips_through_json() {
        let inputs = [
            json!({"command": "view", "path": "/memories", "view_range": [1, -1]}),
            json!({"command": "create", "path": "/memories/a", "file_text": "é\r\n"}),
            json!({"command": "str_replace", "path": "/memories/a", "old_str": "x", "new_str": "$&"}),
            json!({"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": ""}),
            json!({"command": "delete", "path": "/memories/a"}),
            json!({"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"}),
        ];
        for (input, name) in inputs.into_iter().zip(CommandName::ALL) {
            let command: Command = serde_json::from_value(input.clone()).unwrap();
            assert_eq!(command.name(), name);
            assert_eq!(serde_json::to_value(&command).unwrap(), input);
        }
    }

    #[test]
    fn texts_with_nul_are_refused_for_every_tool() {
        let inputs = [
            ("file_text", json!({"command": "create", "path": "/memories/a", "file_text": "a\0"})),
            ("old_str", json!({"command": "str_replace", "path": "/memories/a", "old_str": "\0", "new_str": ""})),
            ("new_str", json!({"command": "str_replace", "path": "/memories/a", "old_str": "a", "new_str": "\0"})),
            ("insert_text", json!({"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": "\0"})),
            ("new_str", json!({"command": "insert", "path": "/memories/a", "insert_line": 0, "new_str": "\0"})),
        ];
        for (expected, input) in inputs {
            let error = Command::parse(input).unwrap_err();
            assert!(matches!(error, Error::NulCharacter { field, .. } if field == expected), "{error}");
        }
    }

    #[test]
    fn a_view_range_is_resolved_against_the_number_of_lines() {
        let resolve =
            |range: Value| match Command::parse(json!({"command": "view", "path": "/memories", "view_range": range})) {
                Ok(Command::View(view)) => view.view_range.unwrap().resolve(10),
                other => panic!("{other:?}"),
            };
        assert_eq!(resolve(json!([2, 4])), Some((2, 4)));
        assert_eq!(resolve(json!([10, 10])), Some((10, 10)));
        assert_eq!(resolve(json!([3, -1])), Some((3, 10)));
        assert_eq!(resolve(json!([3, 99])), Some((3, 10)));
        assert_eq!(resolve(json!([1, i64::MAX])), Some((1, 10)));
        assert_eq!(resolve(json!([1, u64::MAX])), Some((1, 10)));
        assert_eq!(resolve(json!([1, 1e300])), Some((1, 10)));
        assert_eq!(resolve(json!([1.0, 2])), Some((1, 2)));
        assert_eq!(ViewRange::from(2..=4), ViewRange::new(2, 4));
        assert_eq!(ViewRange::from(3..), ViewRange::new(3, -1));
        for unfit in [
            json!([2, 1]),
            json!([0, 1]),
            json!([-5, 2]),
            json!([11, 12]),
            json!([1, 0]),
            json!([1, -2]),
            json!([i64::MIN, -1]),
            json!([-1, -1]),
            json!([]),
            json!([1]),
            json!([1, 2, 3]),
            json!([1.5, 2]),
            json!(["1", 2]),
            json!([null, 2]),
            json!("[1, 2]"),
            json!({"first": 1, "last": 2}),
        ] {
            assert_eq!(resolve(unfit.clone()), None, "{unfit}");
        }
    }
}
