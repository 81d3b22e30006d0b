//! The blocks of the Messages API that the tool takes in and gives out: `tool_use` (`[W1]`) and `tool_result` (`[W2]`).

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::command::type_name;
use crate::content::Content;
use crate::definition::TOOL_NAME;
use crate::error::{Error, InputError};
use crate::input;
use crate::quote::quote;
use crate::reply::Reply;

/// Some programs put it before a text; JSON parsers may ignore it (RFC 8259, section 8.1).
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A call of the tool as it arrives: a whole `tool_use` block, or its bare `input`.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ToolUse {
    /// The block's id; `None` for a bare input.
    pub id: Option<String>,
    /// The command, not parsed yet: [`MemoryTool::call`](crate::MemoryTool::call) takes it as it is.
    pub input: Value,
}

impl ToolUse {
    /// Parses one JSON text: an object whose `type` is `tool_use` is a block, any other value a bare input. Fields that no
    /// command has are dropped, so that the value takes no more memory than the text.
    ///
    /// # Errors
    /// [`RejectedToolUse`] for text that is not JSON in UTF-8, or a block that lacks a field or is for another tool. It
    /// keeps the block's id, so that the error can be answered to it.
    pub fn parse(json: &[u8]) -> Result<Self, RejectedToolUse> {
        let json = json.strip_prefix(BYTE_ORDER_MARK).unwrap_or(json);
        let value = input::parse(json).map_err(|error| RejectedToolUse::not_json(json, &error))?;
        Self::from_value(value)
    }

    /// Takes a block, or a bare input, that is JSON already: an element of a response's `content`.
    ///
    /// # Errors
    /// [`RejectedToolUse`] for a block that lacks a field or is for another tool.
    pub fn from_value(value: Value) -> Result<Self, RejectedToolUse> {
        match value {
            Value::Object(block) if block.get("type").and_then(Value::as_str) == Some("tool_use") => {
                let id = block.get("id").and_then(Value::as_str).map(str::to_owned);
                Self::from_block(block).map_err(|error| RejectedToolUse { id, error: Error::Input(error) })
            }
            input => Ok(Self { id: None, input }),
        }
    }

    fn from_block(mut block: serde_json::Map<String, Value>) -> Result<Self, InputError> {
        let mut take_string = |field| match block.remove(field) {
            Some(Value::String(text)) => Ok(text),
            None | Some(Value::Null) => Err(InputError::MissingField { command: None, field }),
            Some(other) => {
                Err(InputError::WrongType { command: None, field, expected: "a string", found: type_name(&other) })
            }
        };
        let id = take_string("id")?;
        let name = take_string("name")?;
        if name != TOOL_NAME {
            return Err(InputError::UnknownTool { name });
        }
        let input = block.remove("input").filter(|input| !input.is_null());
        let input = input.ok_or(InputError::MissingField { command: None, field: "input" })?;
        Ok(Self { id: Some(id), input })
    }
}

/// A call that cannot be run, with what is needed to answer it.
#[derive(Debug)]
#[non_exhaustive]
pub struct RejectedToolUse {
    /// The block's id, where it could be read.
    pub id: Option<String>,
    /// What is wrong.
    pub error: Error,
}

impl fmt::Display for RejectedToolUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for RejectedToolUse {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl RejectedToolUse {
    /// A rejected call without an id.
    pub fn new(error: InputError) -> Self {
        Self { id: None, error: Error::Input(error) }
    }

    /// Text that cannot be read as a whole may still tell its id: half a surrogate pair, or a number that no type can
    /// hold, is passed over where nobody asks for its value.
    fn not_json(json: &[u8], error: &serde_json::Error) -> Self {
        let id = serde_json::from_slice::<Identified>(json).ok().map(|block| block.id);
        Self { id, error: Error::Input(InputError::NotJson { reason: quote(&error.to_string()) }) }
    }
}

/// The one field of a block that its answer needs.
#[derive(Deserialize)]
struct Identified {
    id: String,
}

/// The answer to a call: a `tool_result` block (`[W2]`).
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename = "tool_result")]
#[non_exhaustive]
pub struct ToolResult {
    /// The id of the `tool_use` block that it answers; left out for a bare input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
    /// What the model reads.
    pub content: Content,
    /// Whether the command failed; left out where it did not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

impl ToolResult {
    /// The block that answers the call `tool_use_id` with the outcome of its command.
    pub fn new(tool_use_id: Option<String>, outcome: &Result<Reply, Error>) -> Self {
        match outcome {
            Ok(reply) => Self { tool_use_id, content: reply.to_content(), is_error: false },
            Err(error) => Self::error(tool_use_id, error),
        }
    }

    /// The block that answers the call `tool_use_id` with an error.
    pub fn error(tool_use_id: Option<String>, error: &Error) -> Self {
        Self { tool_use_id, content: Content::Text(error.to_string()), is_error: true }
    }
}

impl From<RejectedToolUse> for ToolResult {
    fn from(rejected: RejectedToolUse) -> Self {
        Self::error(rejected.id, &rejected.error)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_block_gives_its_id_and_a_bare_input_none() {
        let block = br#"{"type":"tool_use","id":"toolu_1","name":"memory","input":{"command":"view"}}"#;
        let tool_use = ToolUse::parse(block).unwrap();
        assert_eq!((tool_use.id.as_deref(), tool_use.input), (Some("toolu_1"), json!({"command": "view"})));
        let tool_use = ToolUse::parse(br#"{"command":"view"}"#).unwrap();
        assert_eq!((tool_use.id, tool_use.input), (None, json!({"command": "view"})));
    }

    #[test]
    fn a_byte_order_mark_is_passed_over() {
        assert_eq!(ToolUse::parse(b"\xef\xbb\xbf{}").unwrap().input, json!({}));
        assert!(ToolUse::parse(b"\xef\xbb\xbf\xef\xbb\xbf{}").is_err());
    }

    #[test]
    fn a_rejected_block_keeps_its_id() {
        for (block, message) in [
            (
                r#"{"type":"tool_use","id":"t","name":"bash","input":{}}"#,
                "Error: Unknown tool: bash. The only tool here is memory.",
            ),
            (r#"{"type":"tool_use","id":"t","name":"memory"}"#, "Error: Missing field `input`"),
            (
                r#"{"type":"tool_use","id":"t","name":7,"input":{}}"#,
                "Error: Field `name` must be a string, got an integer",
            ),
        ] {
            let rejected = ToolUse::parse(block.as_bytes()).unwrap_err();
            assert_eq!((rejected.id.as_deref(), rejected.error.to_string().as_str()), (Some("t"), message));
        }
    }

    #[test]
    fn a_block_that_no_value_can_hold_keeps_its_id() {
        for unreadable in [r#""\ud800""#, "1e400"] {
            let block = format!(r#"{{"type":"tool_use","input":{{"command":{unreadable}}},"id":"t","name":"memory"}}"#);
            assert_eq!(ToolUse::parse(block.as_bytes()).unwrap_err().id.as_deref(), Some("t"));
        }
        assert_eq!(ToolUse::parse(br#"{"id":"t""#).unwrap_err().id, None);
    }

    #[test]
    fn a_result_is_written_as_documented() {
        let path = "/memories/a".parse().unwrap();
        let result = ToolResult::new(Some("toolu_1".to_owned()), &Ok(Reply::Created { path }));
        let json =
            r#"{"type":"tool_result","tool_use_id":"toolu_1","content":"File created successfully at: /memories/a"}"#;
        assert_eq!(serde_json::to_string(&result).unwrap(), json);
        assert_eq!(serde_json::from_str::<ToolResult>(json).unwrap(), result);
        let result = ToolResult::new(None, &Err(Error::other("No.")));
        assert_eq!(
            serde_json::to_string(&result).unwrap(),
            r#"{"type":"tool_result","content":"No.","is_error":true}"#
        );
    }
}
