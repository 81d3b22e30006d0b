//! [`ClearToolUses`] and [`Compact`]: requests to the API to shorten a long conversation (`[W4]`).

use serde::Serialize;

/// The name and value of the header that enables the tool and context editing in older versions of the API (`[W4]`).
pub const BETA_HEADER: (&str, &str) = ("anthropic-beta", "context-management-2025-06-27");

/// The name and value of the header that enables [`Compact`]. To send both headers, join their values with a comma.
pub const COMPACTION_BETA_HEADER: (&str, &str) = ("anthropic-beta", "compact-2026-01-12");

/// An element of `context_management.edits` in a request that clears old tool uses (`[W4]`). The API has defaults for
/// unset fields.
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
#[must_use]
pub struct ClearToolUses {
    /// The amount of context that triggers the edit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger: Option<ContextAmount>,
    /// The number of recent tool uses to keep, as [`ContextAmount::ToolUses`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<ContextAmount>,
    /// The minimum amount to clear, as [`ContextAmount::InputTokens`]. If less can be cleared, the edit is skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clear_at_least: Option<ContextAmount>,
    /// The tools whose uses are never cleared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclude_tools: Option<Vec<String>>,
}

/// An element of `context_management.edits` in a request that summarizes a long conversation. See
/// [compaction](https://platform.claude.com/docs/en/build-with-claude/compaction) in Anthropic's documentation. The API
/// has defaults for unset fields.
///
/// The summary is a `compaction` block in the response. Send it back with the other blocks of the response, and the API
/// ignores all earlier content.
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
#[must_use]
pub struct Compact {
    /// The amount of context that triggers the edit, as [`ContextAmount::InputTokens`] of at least 50,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger: Option<ContextAmount>,
    /// Whether to stop after the summary, with the stop reason `compaction`. The program can then add content.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pause_after_compaction: bool,
    /// The instructions for the summary, which replace the default instructions of the API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
}

impl Compact {
    /// Creates an edit with the defaults of the API.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `trigger` to a number of input tokens.
    pub fn with_trigger(mut self, input_tokens: u64) -> Self {
        self.trigger = Some(ContextAmount::InputTokens(input_tokens));
        self
    }

    /// Sets `pause_after_compaction`.
    pub fn with_pause(mut self) -> Self {
        self.pause_after_compaction = true;
        self
    }

    /// Sets `instructions`.
    pub fn with_instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }
}

/// An amount of context.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ContextAmount {
    /// A number of input tokens.
    InputTokens(u64),
    /// A number of tool uses.
    ToolUses(u64),
}

impl ClearToolUses {
    /// Creates an edit with the defaults of the API.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `trigger`.
    pub fn with_trigger(mut self, trigger: ContextAmount) -> Self {
        self.trigger = Some(trigger);
        self
    }

    /// Sets `keep` to a number of tool uses.
    pub fn with_keep(mut self, tool_uses: u64) -> Self {
        self.keep = Some(ContextAmount::ToolUses(tool_uses));
        self
    }

    /// Sets `clear_at_least` to a number of input tokens.
    pub fn with_clear_at_least(mut self, input_tokens: u64) -> Self {
        self.clear_at_least = Some(ContextAmount::InputTokens(input_tokens));
        self
    }

    /// Sets `exclude_tools`.
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
    fn w4_context_editing_has_the_documented_format() {
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
    fn compaction_has_the_documented_format() {
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
