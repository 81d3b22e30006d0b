//! [`ClearToolUses`] and [`Compact`]: what the API does with a conversation that grows, beside the tool (`[W4]`).
//!
//! It clears old tool results, or sums up what came before; what Claude wrote into its memory until then stays.

use serde::Serialize;

/// The header with which older API versions enable the tool and context editing: its name and value (`[W4]`).
pub const BETA_HEADER: (&str, &str) = ("anthropic-beta", "context-management-2025-06-27");

/// The header that enables [`Compact`]: its name and value. Both are sent where both kinds of edits are used, with a comma between
/// the values.
pub const COMPACTION_BETA_HEADER: (&str, &str) = ("anthropic-beta", "compact-2026-01-12");

/// An element of `context_management.edits` in a request: clear old tool uses (`[W4]`). What is not set is left to the API.
///
/// ```
/// use memory_tool_core::{ClearToolUses, ContextAmount, TOOL_NAME};
/// use serde_json::json;
///
/// let edit = ClearToolUses::new().with_trigger(ContextAmount::InputTokens(100_000)).with_exclude_tools([TOOL_NAME]);
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
    pub trigger: Option<ContextAmount>,
    /// How many of the newest tool uses stay: [`ContextAmount::ToolUses`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<ContextAmount>,
    /// Clear only if it frees as much: [`ContextAmount::InputTokens`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clear_at_least: Option<ContextAmount>,
    /// Tools whose uses are never cleared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclude_tools: Option<Vec<String>>,
}

/// An element of `context_management.edits` in a request: sum up the conversation when it nears the end of the context window, as
/// [Anthropic's documentation](https://platform.claude.com/docs/en/build-with-claude/compaction) describes it. What is not set is
/// left to the API.
///
/// The summary comes as a `compaction` block of the response. It has to be sent back with the whole content of the response, like any
/// other block; the API then leaves out what is before it.
///
/// ```
/// use memory_tool_core::{ClearToolUses, Compact};
/// use serde_json::json;
///
/// let compact = Compact::new().with_trigger(120_000).with_instructions("Keep the names of files in /memories.");
/// assert_eq!(
///     json!({"edits": [ClearToolUses::new(), compact]}),
///     json!({"edits": [{"type": "clear_tool_uses_20250919"}, {
///         "type": "compact_20260112",
///         "trigger": {"type": "input_tokens", "value": 120_000},
///         "instructions": "Keep the names of files in /memories.",
///     }]})
/// );
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename = "compact_20260112")]
#[non_exhaustive]
pub struct Compact {
    /// When to sum up: [`ContextAmount::InputTokens`], 50,000 or more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger: Option<ContextAmount>,
    /// Whether to stop after the summary, with the stop reason `compaction`, so that the program can add to it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pause_after_compaction: bool,
    /// What the summary is made by, in place of the API's own instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
}

impl Compact {
    /// The edit with the API's defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `trigger` to this many tokens of the input.
    #[must_use]
    pub fn with_trigger(mut self, input_tokens: u64) -> Self {
        self.trigger = Some(ContextAmount::InputTokens(input_tokens));
        self
    }

    /// Sets `pause_after_compaction`.
    #[must_use]
    pub fn with_pause(mut self) -> Self {
        self.pause_after_compaction = true;
        self
    }

    /// Sets `instructions`.
    #[must_use]
    pub fn with_instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }
}

/// An amount of conversation.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ContextAmount {
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
    pub fn with_trigger(mut self, trigger: ContextAmount) -> Self {
        self.trigger = Some(trigger);
        self
    }

    /// Sets `keep` to this many tool uses.
    #[must_use]
    pub fn with_keep(mut self, tool_uses: u64) -> Self {
        self.keep = Some(ContextAmount::ToolUses(tool_uses));
        self
    }

    /// Sets `clear_at_least` to this many tokens of the input.
    #[must_use]
    pub fn with_clear_at_least(mut self, input_tokens: u64) -> Self {
        self.clear_at_least = Some(ContextAmount::InputTokens(input_tokens));
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
            .with_trigger(ContextAmount::InputTokens(100_000))
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

    #[test]
    fn compaction_is_written_as_documented() {
        let edit = Compact::new().with_trigger(60_000).with_pause().with_instructions("Short.");
        assert_eq!(
            json!(edit),
            json!({
                "type": "compact_20260112",
                "trigger": {"type": "input_tokens", "value": 60_000},
                "pause_after_compaction": true,
                "instructions": "Short.",
            })
        );
        assert_eq!(json!(Compact::new()), json!({"type": "compact_20260112"}));
    }
}
