//! [`Operation`]: an operation on an open memory.

use memory_tool::api::Content;
use memory_tool::command::{Command, Turn};
use memory_tool::{FileEntry, Memory, Usage};
use serde_json::Value;

use crate::errors::CallError;
use crate::{history, search};

/// An operation on an open memory.
#[expect(clippy::exhaustive_enums, reason = "the bindings create it")]
pub enum Operation {
    /// A call of the tool, when its turn comes.
    Call(Value, Option<Turn>),
    /// Reads a file as text.
    ReadText(String),
    /// Creates a file, or replaces its contents.
    WriteText(String, String),
    /// Lists the files under a directory.
    List(String),
    /// Removes a file or directory.
    Remove(String),
    /// Moves a file or directory.
    Rename(String, String),
    /// Removes all files.
    Clear,
    /// Removes all files, the history and the other records.
    Forget,
    /// Counts the files and their bytes.
    Usage,
    /// A method of the history, as JSON.
    History(String),
    /// A search, as JSON.
    Search(String),
}

/// The result of an operation.
#[expect(clippy::exhaustive_enums, reason = "the bindings convert it")]
pub enum Outcome {
    /// It has no result.
    Nothing,
    /// The text of a file, or the reply of the tool.
    Content(Content),
    /// The files under a directory.
    Entries(Vec<FileEntry>),
    /// The usage of the memory.
    Usage(Usage),
    /// The result of a search or of a method of the history.
    Json(Value),
}

impl Operation {
    /// The operation of a method of `Memory`. Returns `None` if there is no such method with as many arguments.
    pub fn of_method(name: &str, arguments: Vec<String>) -> Option<Self> {
        let mut arguments = arguments.into_iter();
        let operation = match (name, arguments.next(), arguments.next()) {
            ("read_text", Some(path), None) => Self::ReadText(path),
            ("write_text", Some(path), Some(text)) => Self::WriteText(path, text),
            ("list", Some(directory), None) => Self::List(directory),
            ("remove", Some(path), None) => Self::Remove(path),
            ("rename", Some(from), Some(to)) => Self::Rename(from, to),
            ("clear", None, None) => Self::Clear,
            ("forget", None, None) => Self::Forget,
            ("usage", None, None) => Self::Usage,
            ("history", Some(request), None) => Self::History(request),
            ("search", Some(request), None) => Self::Search(request),
            _ => return None,
        };
        arguments.next().is_none().then_some(operation)
    }

    /// Performs the operation.
    ///
    /// # Errors
    ///
    /// Returns the error of the operation.
    pub async fn run(self, memory: Memory) -> Result<Outcome, CallError> {
        Ok(match self {
            Self::Call(input, turn) => {
                let _guard = match turn {
                    Some(turn) => Some(turn.await),
                    None => None,
                };
                Outcome::Content(memory.tool().call(input).await?.to_content())
            }
            Self::ReadText(path) => Outcome::Content(Content::Text(memory.read_to_string(path.as_str()).await?)),
            Self::WriteText(path, text) => {
                memory.write(path.as_str(), text).await?;
                Outcome::Nothing
            }
            Self::List(directory) => Outcome::Entries(memory.list(directory.as_str()).await?),
            Self::Remove(path) => {
                memory.remove(path.as_str()).await?;
                Outcome::Nothing
            }
            Self::Rename(from, to) => {
                memory.rename(from.as_str(), to.as_str()).await?;
                Outcome::Nothing
            }
            Self::Clear => {
                memory.clear().await?;
                Outcome::Nothing
            }
            Self::Forget => {
                memory.forget().await?;
                Outcome::Nothing
            }
            Self::Usage => Outcome::Usage(memory.usage().await?),
            Self::History(request) => Outcome::Json(history::perform(&memory, &request).await?),
            Self::Search(request) => Outcome::Json(search::perform(&memory, &request).await?),
        })
    }
}

/// The input of a call as an overridden method receives it: with the fields of its command and the types that they must
/// have. Returns `None` if the input is invalid: the tool then returns the error.
pub fn parse_command(input: Value) -> Option<Value> {
    serde_json::to_value(Command::parse(input).ok()?).ok()
}
