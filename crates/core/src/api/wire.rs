//! The `tool_use` (`[W1]`) and `tool_result` (`[W2]`) blocks of the Messages API.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::store::quote::quote;
use crate::tool::content::Content;
use crate::tool::definition::TOOL_NAME;
use crate::tool::error::{Error, InputError};
use crate::tool::input;
use crate::tool::reply::Reply;

/// Some programs write it before JSON, and parsers may ignore it (RFC 8259, section 8.1).
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A call of the tool: a `tool_use` block, or only its `input`.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ToolUse {
    /// The id of the block, or `None` for a bare input.
    pub id: Option<String>,
    /// The input, for [`MemoryTool::call`](crate::MemoryTool::call).
    pub input: Value,
}

impl ToolUse {
    /// Parses JSON. An object with the `type` `tool_use` is a block, and any other value is a bare input. Unknown
    /// fields are dropped to limit the use of RAM.
    ///
    /// # Errors
    /// [`RejectedToolUse`] for invalid JSON, and for a block with a missing field or for another tool. It contains the
    /// id of the block if possible.
    pub fn parse(json: &[u8]) -> Result<Self, RejectedToolUse> {
        let json = json.strip_prefix(BYTE_ORDER_MARK).unwrap_or(json);
        let value = input::parse(json).map_err(|error| RejectedToolUse::not_json(json, &error))?;
        Self::from_value(value)
    }

    /// Converts a parsed block, such as an element of the `content` of a response, or a bare input.
    ///
    /// # Errors
    /// [`RejectedToolUse`] for a block with a missing field or for another tool.
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
        let id = InputError::string_of(None, "id", block.remove("id"))?;
        let name = InputError::string_of(None, "name", block.remove("name"))?;
        if name != TOOL_NAME {
            return Err(InputError::UnknownTool { name });
        }
        let input = block.remove("input").filter(|input| !input.is_null());
        let input = input.ok_or(InputError::MissingField { command: None, field: "input" })?;
        Ok(Self { id: Some(id), input })
    }
}

/// An invalid call, with the id for its result.
#[derive(Debug)]
#[non_exhaustive]
pub struct RejectedToolUse {
    /// The id of the block, if it is known.
    pub id: Option<String>,
    /// The error.
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
    /// Creates a rejected call without an id.
    pub fn new(error: InputError) -> Self {
        Self { id: None, error: Error::Input(error) }
    }

    /// Tries to parse only the id. This succeeds if the error is in the value of another field, such as a lone
    /// surrogate or a number out of range, because ignored values are not checked for those.
    fn not_json(json: &[u8], error: &serde_json::Error) -> Self {
        let id = serde_json::from_slice::<BlockId>(json).ok().map(|block| block.id);
        Self { id, error: Error::Input(InputError::NotJson { reason: quote(&error.to_string()) }) }
    }
}

/// The only field of a block that its result requires.
#[derive(Deserialize)]
struct BlockId {
    id: String,
}

/// A `tool_result` block: the result of a call (`[W2]`).
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename = "tool_result")]
#[non_exhaustive]
pub struct ToolResult {
    /// The id of the `tool_use` block, or `None` for a bare input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
    /// The content for the model.
    pub content: Content,
    /// Whether the command failed. `false` is not serialized.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

impl ToolResult {
    /// Creates the block for the result of a command.
    pub fn new(tool_use_id: Option<String>, outcome: &Result<Reply, Error>) -> Self {
        match outcome {
            Ok(reply) => Self { tool_use_id, content: reply.to_content(), is_error: false },
            Err(error) => Self::error(tool_use_id, error),
        }
    }

    /// Creates the block for an error.
    pub fn error(tool_use_id: Option<String>, error: &Error) -> Self {
        Self { tool_use_id, content: Content::Text(error.to_string()).without_nul(), is_error: true }
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
    fn a_block_has_an_id_and_a_bare_input_has_none() {
        let block = br#"{"type":"tool_use","id":"toolu_1","name":"memory","input":{"command":"view"}}"#;
        let tool_use = ToolUse::parse(block).unwrap();
        assert_eq!((tool_use.id.as_deref(), tool_use.input), (Some("toolu_1"), json!({"command": "view"})));
        let tool_use = ToolUse::parse(br#"{"command":"view"}"#).unwrap();
        assert_eq!((tool_use.id, tool_use.input), (None, json!({"command": "view"})));
    }

    #[test]
    fn a_byte_order_mark_is_ignored() {
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
                "Error: Field `name` must be a string, got an integer: 7",
            ),
        ] {
            let rejected = ToolUse::parse(block.as_bytes()).unwrap_err();
            assert_eq!((rejected.id.as_deref(), rejected.error.to_string().as_str()), (Some("t"), message));
        }
    }

    #[test]
    fn a_block_with_an_unsupported_value_keeps_its_id() {
        for unsupported in [r#""\ud800""#, "1e400"] {
            let block =
                format!(r#"{{"type":"tool_use","input":{{"command":{unsupported}}},"id":"t","name":"memory"}}"#);
            assert_eq!(ToolUse::parse(block.as_bytes()).unwrap_err().id.as_deref(), Some("t"));
        }
        assert_eq!(ToolUse::parse(br#"{"id":"t""#).unwrap_err().id, None);
    }

    #[test]
    fn a_result_holds_no_nul() {
        let blocks = vec![crate::tool::content::ContentBlock::Text { text: "a\0b".to_owned() }];
        for outcome in [Ok(Reply::Text("a\0b".to_owned())), Ok(Reply::Blocks(blocks)), Err(Error::other("a\0b"))] {
            let result = serde_json::to_string(&ToolResult::new(None, &outcome)).unwrap();
            assert!(result.contains("a\u{fffd}b") && !result.contains("\\u0000"), "{result}");
        }
    }

    #[test]
    fn a_result_has_the_documented_format() {
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
