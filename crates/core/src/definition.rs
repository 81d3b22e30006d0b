//! [`ToolDefinition`]: how the tool is declared to the Messages API (`[W3]`).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The tool's name on the wire (`[W3]`).
pub const TOOL_NAME: &str = "memory";
/// The tool's type and version on the wire (`[W3]`).
pub const TOOL_TYPE: &str = "memory_20250818";

/// The entry for the `tools` array of a request (`[W3]`). Optional fields that are not set are left out.
///
/// ```
/// use memory_tool_core::{CacheControl, ToolDefinition};
///
/// let definition = ToolDefinition::new().with_cache_control(CacheControl::ephemeral());
/// assert_eq!(
///     serde_json::to_string(&definition)?,
///     r#"{"type":"memory_20250818","name":"memory","cache_control":{"type":"ephemeral"}}"#
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ToolDefinition {
    /// Always [`TOOL_TYPE`].
    #[serde(rename = "type")]
    tool_type: &'static str,
    /// Always [`TOOL_NAME`].
    name: &'static str,
    /// A breakpoint for prompt caching.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_control: Option<CacheControl>,
    /// Who may call the tool: `direct`, or a version of the code execution tool such as `code_execution_20250825`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_callers: Option<Vec<String>>,
    /// Whether the tool is left out of the first prompt and loaded by tool search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defer_loading: Option<bool>,
    /// Examples of inputs, each an object as [`Command`](crate::Command) serializes to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_examples: Option<Vec<Map<String, Value>>>,
    /// Whether the API guarantees that names and inputs match the schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
}

impl ToolDefinition {
    /// The definition without optional fields.
    pub fn new() -> Self {
        Self {
            tool_type: TOOL_TYPE,
            name: TOOL_NAME,
            cache_control: None,
            allowed_callers: None,
            defer_loading: None,
            input_examples: None,
            strict: None,
        }
    }

    /// Sets `cache_control`.
    #[must_use]
    pub fn with_cache_control(mut self, cache_control: CacheControl) -> Self {
        self.cache_control = Some(cache_control);
        self
    }

    /// Sets `allowed_callers`.
    #[must_use]
    pub fn with_allowed_callers(mut self, callers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_callers = Some(callers.into_iter().map(Into::into).collect());
        self
    }

    /// Sets `defer_loading`.
    #[must_use]
    pub fn with_defer_loading(mut self, defer_loading: bool) -> Self {
        self.defer_loading = Some(defer_loading);
        self
    }

    /// Sets `input_examples`.
    #[must_use]
    pub fn with_input_examples(mut self, examples: impl IntoIterator<Item = Map<String, Value>>) -> Self {
        self.input_examples = Some(examples.into_iter().collect());
        self
    }

    /// Sets `strict`.
    #[must_use]
    pub fn with_strict(mut self, strict: bool) -> Self {
        self.strict = Some(strict);
        self
    }
}

impl Default for ToolDefinition {
    fn default() -> Self {
        Self::new()
    }
}

/// A breakpoint for prompt caching. The only type that the API has is `ephemeral`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename = "ephemeral")]
#[non_exhaustive]
pub struct CacheControl {
    /// How long the cached prompt lives: `5m` (the API's default) or `1h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<String>,
}

impl CacheControl {
    /// A breakpoint with the API's default lifetime.
    pub fn ephemeral() -> Self {
        Self { ttl: None }
    }

    /// Sets the lifetime: `5m` or `1h`.
    #[must_use]
    pub fn with_ttl(mut self, ttl: impl Into<String>) -> Self {
        self.ttl = Some(ttl.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn w3_every_optional_field_is_written_when_set() {
        let definition = ToolDefinition::new()
            .with_cache_control(CacheControl::ephemeral().with_ttl("1h"))
            .with_allowed_callers(["direct", "code_execution_20250825"])
            .with_defer_loading(true)
            .with_input_examples([Map::from_iter([("command".to_owned(), json!("view"))])])
            .with_strict(true);
        assert_eq!(
            serde_json::to_value(&definition).unwrap(),
            json!({
                "type": "memory_20250818",
                "name": "memory",
                "cache_control": {"type": "ephemeral", "ttl": "1h"},
                "allowed_callers": ["direct", "code_execution_20250825"],
                "defer_loading": true,
                "input_examples": [{"command": "view"}],
                "strict": true,
            })
        );
        assert_eq!(
            serde_json::to_value(ToolDefinition::new()).unwrap(),
            json!({"type": "memory_20250818", "name": "memory"})
        );
    }
}
