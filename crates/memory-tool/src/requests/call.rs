//! [`Call`]: a call of the tool, and the parts of its reply or error for a function that words them.

use memory_tool_core::{Command, Error, MemoryPath, Reply};
use serde_json::{Value, json};

use crate::command_queue::Turn;
use crate::memory::Memory;
use crate::requests::Outcome;

/// A call of the tool.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "fronts create it")]
pub struct Call {
    /// The input.
    pub input: Value,
    /// Runs the call when this turn comes.
    pub turn: Option<Turn>,
    /// Whether a function words the reply: the outcome then has its parts.
    pub is_worded: bool,
}

impl Call {
    pub(super) fn is_read(&self) -> bool {
        self.input["command"] == "view"
    }

    pub(super) async fn perform(self, memory: &Memory) -> Result<Outcome, Error> {
        let _guard = match self.turn {
            Some(turn) => Some(turn.await),
            None => None,
        };
        let reply = memory.tool().call(self.input).await?;
        let content = reply.to_content();
        Ok(if self.is_worded { Outcome::Worded(content, parts_of_reply(&reply)) } else { Outcome::Content(content) })
    }
}

/// The input of a call as an overridden method receives it: with the fields of its command and the types that they must
/// have. Returns `None` if the input is invalid: the tool then returns the error.
pub fn parse_command(input: Value) -> Option<Value> {
    serde_json::to_value(Command::parse(input).ok()?).ok()
}

/// The parts of a reply.
fn parts_of_reply(reply: &Reply) -> Value {
    let path = |path: &MemoryPath| json!({"path": path.as_str()});
    let (kind, details) = match reply {
        Reply::Directory(view) => ("directory", path(&view.path)),
        Reply::File(view) => ("file", path(&view.path)),
        Reply::Image(view) => ("image", path(&view.path)),
        Reply::Created { path: created } => ("created", path(created)),
        Reply::Replaced { path, snippet } => {
            ("replaced", json!({"path": path.as_str(), "snippet": snippet.to_string()}))
        }
        Reply::Inserted { path: edited } => ("inserted", path(edited)),
        Reply::Deleted { path: deleted } => ("deleted", path(deleted)),
        Reply::Renamed { old_path, new_path } => {
            ("renamed", json!({"path": new_path.as_str(), "old_path": old_path.as_str()}))
        }
        Reply::Cleared => ("cleared", json!({})),
        _ => ("other", json!({})),
    };
    parts(kind, false, reply.to_string(), details)
}

/// The parts of an error of the tool.
pub fn parts_of_error(error: &Error) -> Value {
    let details = match error {
        Error::SymbolicLink { path }
        | Error::NotARegularFile { path }
        | Error::AlreadyExists { path }
        | Error::DestinationExists { path }
        | Error::TooManyLines { path }
        | Error::EmptyOldStr { path }
        | Error::Conflict { path } => json!({"path": path.as_str()}),
        Error::NotFound { command, path } | Error::NotText { command, path, .. } => {
            json!({"command": command.as_str(), "path": path.as_str()})
        }
        Error::ParentIsFile { command, path, parent } => {
            json!({"command": command.as_str(), "path": path.as_str(), "parent": parent.as_str()})
        }
        Error::RenameIntoItself { old_path, new_path } => {
            json!({"path": new_path.as_str(), "old_path": old_path.as_str()})
        }
        Error::RootIsFixed { command } => json!({"command": command.as_str()}),
        Error::InvalidViewRange { total_lines, .. } | Error::InvalidInsertLine { total_lines, .. } => {
            json!({"total_lines": total_lines})
        }
        Error::NulCharacter { command, field } => json!({"command": command.as_str(), "field": field}),
        Error::NoMatch { path, old_str } => json!({"path": path.as_str(), "old_str": old_str}),
        Error::MultipleMatches { old_str, lines } => json!({"old_str": old_str, "lines": lines}),
        Error::Storage { kind, .. } => json!({"failure": kind.name()}),
        Error::Refused { path, policy, reason } => {
            json!({"path": path.as_str(), "policy": policy, "reason": reason})
        }
        _ => json!({}),
    };
    parts(error.name(), true, error.to_string(), details)
}

fn parts(kind: &str, is_error: bool, text: String, details: Value) -> Value {
    json!({"kind": kind, "is_error": is_error, "text": text, "details": details})
}
