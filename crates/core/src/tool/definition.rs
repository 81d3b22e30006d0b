//! [`ToolDefinition`]: the declaration of the tool for the Messages API (`[W3]`).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::tool::command_name::CommandName;

/// The name of the tool (`[W3]`).
pub const TOOL_NAME: &str = "memory";
/// The type of the tool, which includes its version (`[W3]`).
pub const TOOL_TYPE: &str = "memory_20250818";

/// The entry for the `tools` array of a request (`[W3]`). Unset fields are not serialized.
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
///
/// # As a function tool
/// For models and frameworks without the built-in type, declare the tool as a function with a description and a JSON
/// Schema. Calls and results are the same.
///
/// ```
/// # use memory_tool_core::{TOOL_NAME, ToolDefinition};
/// # use serde_json::json;
/// let custom_tool = ToolDefinition::new().to_function_tool(); // for the Messages API
/// assert_eq!(custom_tool["name"], "memory");
/// assert_eq!(custom_tool["input_schema"]["required"], json!(["command"]));
///
/// // For APIs that are compatible with OpenAI.
/// let function = json!({"type": "function", "function": {
///     "name": TOOL_NAME,
///     "description": ToolDefinition::description(),
///     "parameters": ToolDefinition::input_schema(),
/// }});
/// assert_eq!(function["function"]["parameters"], custom_tool["input_schema"]);
/// ```
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
#[must_use]
pub struct ToolDefinition {
    /// Always [`TOOL_TYPE`].
    #[serde(rename = "type")]
    tool_type: &'static str,
    /// Always [`TOOL_NAME`].
    name: &'static str,
    /// A breakpoint for prompt caching.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_control: Option<CacheControl>,
    /// The allowed callers: `direct`, or a version of the code execution tool, such as `code_execution_20250825`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_callers: Option<Vec<String>>,
    /// Whether tool search loads the tool, instead of the first prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defer_loading: Option<bool>,
    /// Example inputs, in the serialized form of [`Command`](crate::Command).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_examples: Option<Vec<Map<String, Value>>>,
    /// Whether the API guarantees that names and inputs match the schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
}

impl ToolDefinition {
    /// Creates a definition without optional fields.
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
    pub fn with_cache_control(mut self, cache_control: CacheControl) -> Self {
        self.cache_control = Some(cache_control);
        self
    }

    /// Sets `allowed_callers`.
    pub fn with_allowed_callers(mut self, callers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_callers = Some(callers.into_iter().map(Into::into).collect());
        self
    }

    /// Sets `defer_loading`.
    pub fn with_defer_loading(mut self, defer_loading: bool) -> Self {
        self.defer_loading = Some(defer_loading);
        self
    }

    /// Sets `input_examples`.
    pub fn with_input_examples(mut self, examples: impl IntoIterator<Item = Map<String, Value>>) -> Self {
        self.input_examples = Some(examples.into_iter().collect());
        self
    }

    /// Sets `strict`.
    pub fn with_strict(mut self, strict: bool) -> Self {
        self.strict = Some(strict);
        self
    }

    /// A description of the tool and its use, for models without the built-in type.
    ///
    /// The text is from the public documentation of the tool. It ends with the protocol that the API adds to the system
    /// prompt, which it does only for the built-in type.
    pub fn description() -> &'static str {
        "\
Stores and retrieves information across conversations in a directory of text files, /memories. You can create, read, \
update and delete files that persist between conversations, and so build knowledge over time without keeping \
everything in the context window.

Commands:
- `view` shows the contents of a directory, up to 2 levels deep, or of a file with line numbers.
- `create` makes a new file.
- `str_replace` replaces text in a file.
- `insert` inserts text at a specific line of a file.
- `delete` deletes a file, or a directory with all its contents.
- `rename` renames or moves a file or directory. It does not overwrite.

ALWAYS VIEW YOUR MEMORY DIRECTORY BEFORE DOING ANYTHING ELSE: use the `view` command to check for earlier progress. As \
you make progress, record status, progress and thoughts in your memory. ASSUME INTERRUPTION: your context window might \
be reset at any moment, so you risk losing any progress that is not recorded in your memory directory."
    }

    /// The JSON Schema of the commands: a single object with only `command` as a required field. The description of
    /// each field names the commands that use it.
    ///
    /// Each field has one plain type. The schema has no alternatives, no null, no limits on numbers or lengths and no
    /// `additionalProperties`, because many APIs and clients reject them. A call that matches the schema can therefore
    /// lack a field, and its result is then an error.
    pub fn input_schema() -> Value {
        let text = |description| json!({"type": "string", "description": description});
        json!({
            "type": "object",
            "properties": {
                "command": {
                    "type": "string",
                    "enum": CommandName::ALL.map(CommandName::as_str),
                    "description": "The command to run.",
                },
                "path": text(
                    "Required for `view`, `create`, `str_replace`, `insert` and `delete`: the path of the file, or of \
                     the directory to view or delete. Paths start with /memories, for example /memories/notes.txt."
                ),
                "view_range": {
                    "type": "array",
                    "items": {"type": "integer"},
                    "description": "Optional for `view`: two integers, the first and the last line to show, for \
                                    example [1, 10]. Lines are numbered from 1. A last line of -1 means the end.",
                },
                "file_text": text("Required for `create`: the text of the new file."),
                "old_str": text(
                    "Required for `str_replace`: the text to replace, exactly as it is in the file, where it must be \
                     unique."
                ),
                "new_str": text(
                    "Optional for `str_replace`: the text to put in place of `old_str`, which is deleted if you leave \
                     this out."
                ),
                "insert_line": {
                    "type": "integer",
                    "description": "Required for `insert`: the line after which to insert. 0 is the start of the \
                                    file.",
                },
                "insert_text": text("Required for `insert`: the text to insert, as one or more whole lines."),
                "old_path": text("Required for `rename`: the path of the file or directory to rename or move."),
                "new_path": text("Required for `rename`: the new path, which must not exist yet."),
            },
            "required": ["command"],
        })
    }

    /// Converts the definition to a custom tool of the Messages API, with its name, [description](Self::description)
    /// and [`input_schema`](Self::input_schema), and all optional fields that are set. If `strict` is set, the schema
    /// also has `"additionalProperties": false`, which the API then requires.
    pub fn to_function_tool(&self) -> Value {
        let mut schema = Self::input_schema();
        if self.strict == Some(true) {
            schema["additionalProperties"] = false.into();
        }
        let mut tool = json!(self);
        if let Some(fields) = tool.as_object_mut() {
            fields.remove("type");
            fields.insert("description".to_owned(), Self::description().into());
            fields.insert("input_schema".to_owned(), schema);
        }
        tool
    }
}

impl Default for ToolDefinition {
    fn default() -> Self {
        Self::new()
    }
}

/// A breakpoint for prompt caching, of the only type `ephemeral`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename = "ephemeral")]
#[non_exhaustive]
#[must_use]
pub struct CacheControl {
    /// The lifetime of the cached prompt: `5m`, which is the default of the API, or `1h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<String>,
}

impl CacheControl {
    /// Creates a breakpoint with the default lifetime of the API.
    pub fn ephemeral() -> Self {
        Self { ttl: None }
    }

    /// Sets the lifetime: `5m` or `1h`.
    pub fn with_ttl(mut self, ttl: impl Into<String>) -> Self {
        self.ttl = Some(ttl.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::command::Command;

    #[test]
    fn w3_every_optional_field_is_serialized_if_set() {
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

    fn commands() -> [Value; 6] {
        [
            json!({"command": "view", "path": "/memories", "view_range": [1, -1]}),
            json!({"command": "create", "path": "/memories/a", "file_text": "x"}),
            json!({"command": "str_replace", "path": "/memories/a", "old_str": "x", "new_str": "y"}),
            json!({"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": "x"}),
            json!({"command": "delete", "path": "/memories/a"}),
            json!({"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"}),
        ]
        .map(|input| json!(Command::parse(input).unwrap()))
    }

    fn is_valid(value: &Value, schema: &Value) -> bool {
        match schema["type"].as_str() {
            Some("string") => value.is_string() && schema["enum"].as_array().is_none_or(|names| names.contains(value)),
            Some("integer") => value.is_i64(),
            Some("array") => {
                value.as_array().is_some_and(|items| items.iter().all(|item| is_valid(item, &schema["items"])))
            }
            _ => false,
        }
    }

    #[test]
    fn the_schema_has_the_fields_of_the_six_commands_and_no_others() {
        let schema = ToolDefinition::input_schema();
        let mut unused = schema["properties"].as_object().unwrap().clone();
        for command in commands() {
            for (field, value) in command.as_object().unwrap() {
                assert!(is_valid(value, &schema["properties"][field]), "{field}: {value}");
                unused.remove(field);
            }
        }
        assert_eq!(unused, Map::new());
        assert_eq!(schema["properties"]["command"]["enum"], json!(CommandName::ALL.map(CommandName::as_str)));
        assert_eq!((&schema["type"], &schema["required"]), (&json!("object"), &json!(["command"])));
    }

    #[test]
    fn the_schema_describes_which_commands_use_and_require_a_field() {
        let schema = ToolDefinition::input_schema();
        for command in commands() {
            let name = format!("`{}`", command["command"].as_str().unwrap());
            assert!(ToolDefinition::description().contains(&name));
            let fields = command.as_object().unwrap();
            for field in fields.keys().filter(|field| *field != "command") {
                let description = schema["properties"][field]["description"].as_str().unwrap();
                let (users, _) = description.split_once(':').unwrap();
                assert!(users.contains(&name), "{field} of {name}: {description}");
                let mut without = fields.clone();
                without.remove(field);
                let is_required = Command::parse(without.into()).is_err();
                assert_eq!(users.starts_with("Required for "), is_required, "{field} of {name}: {description}");
                assert_eq!(users.starts_with("Optional for "), !is_required, "{field} of {name}: {description}");
            }
        }
    }

    #[test]
    fn a_function_tool_keeps_the_optional_fields() {
        let definition = ToolDefinition::new().with_cache_control(CacheControl::ephemeral());
        let mut expected = json!({
            "name": "memory",
            "description": ToolDefinition::description(),
            "input_schema": ToolDefinition::input_schema(),
            "cache_control": {"type": "ephemeral"},
        });
        assert_eq!(definition.to_function_tool(), expected);
        expected["strict"] = true.into();
        expected["input_schema"]["additionalProperties"] = false.into();
        assert_eq!(definition.with_strict(true).to_function_tool(), expected);
    }
}
