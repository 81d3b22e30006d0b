//! [`ClearToolUses`]: the context editing that is used beside the tool (`[W4]`).
//!
//! The API clears old tool results from the conversation when it grows; what Claude wrote into its memory before stays.

use serde::Serialize;

/// The header with which older API versions enable the tool and context editing: its name and value (`[W4]`).
pub const BETA_HEADER: (&str, &str) = ("anthropic-beta", "context-management-2025-06-27");

/// An element of `context_management.edits` in a request: clear old tool uses (`[W4]`). What is not set is left to the API.
///
/// ```
/// use memory_tool_core::{ClearToolUses, Measure, TOOL_NAME};
/// use serde_json::json;
///
/// let edit = ClearToolUses::new().with_trigger(Measure::InputTokens(100_000)).with_exclude_tools([TOOL_NAME]);
/// assert_eq!(
///     json!({"context_management": {"edits": [edit]}}),
///     json!({"context_management": {"edits": [{
///         "type": "clear_tool_uses_20250919",
///         "trigger": {"type": "input_tokens", "value": 100_000},
///         "exclude_tools": ["memory"],
///     }]}})
/// );
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename = "clear_tool_uses_20250919")]
#[non_exhaustive]
pub struct ClearToolUses {
    /// When to clear.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Measure>,
    /// How many of the newest tool uses stay: [`Measure::ToolUses`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<Measure>,
    /// Clear only if it frees as much: [`Measure::InputTokens`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clear_at_least: Option<Measure>,
    /// Tools whose uses are never cleared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclude_tools: Option<Vec<String>>,
}

/// An amount of conversation.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Measure {
    /// Tokens of the input.
    InputTokens(u64),
    /// Uses of tools.
    ToolUses(u64),
}

impl ClearToolUses {
    /// The edit with the API's defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `trigger`.
    #[must_use]
    pub fn with_trigger(mut self, trigger: Measure) -> Self {
        self.trigger = Some(trigger);
        self
    }

    /// Sets `keep` to this many tool uses.
    #[must_use]
    pub fn with_keep(mut self, tool_uses: u64) -> Self {
        self.keep = Some(Measure::ToolUses(tool_uses));
        self
    }

    /// Sets `clear_at_least` to this many tokens of the input.
    #[must_use]
    pub fn with_clear_at_least(mut self, input_tokens: u64) -> Self {
        self.clear_at_least = Some(Measure::InputTokens(input_tokens));
        self
    }

    /// Sets `exclude_tools`.
    #[must_use]
    pub fn with_exclude_tools(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.exclude_tools = Some(tools.into_iter().map(Into::into).collect());
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn w4_context_editing_is_written_as_documented() {
        let edit = ClearToolUses::new()
            .with_trigger(Measure::InputTokens(100_000))
            .with_keep(3)
            .with_clear_at_least(5_000)
            .with_exclude_tools(["memory"]);
        assert_eq!(
            json!(edit),
            json!({
                "type": "clear_tool_uses_20250919",
                "trigger": {"type": "input_tokens", "value": 100_000},
                "keep": {"type": "tool_uses", "value": 3},
                "clear_at_least": {"type": "input_tokens", "value": 5_000},
                "exclude_tools": ["memory"],
            })
        );
        assert_eq!(json!(ClearToolUses::new()), json!({"type": "clear_tool_uses_20250919"}));
        assert_eq!(BETA_HEADER, ("anthropic-beta", "context-management-2025-06-27"));
    }
}
