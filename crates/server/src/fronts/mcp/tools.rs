//! The tools that the server offers: one for all commands, or one for each.

use std::error::Error;

use memory_tool::api::{Content, ContentBlock as ReplyBlock, ImageSource, TOOL_NAME};
use memory_tool::command::{CommandName, Reply};
use memory_tool::{ErrorKind, ToolDefinition};
use rmcp::model::{CallToolRequestParams, CallToolResult, ContentBlock, ErrorData, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use crate::fronts::mcp::arguments::{self, COMMAND, VIEW_RANGE, fields, is_optional, object_schema};
use crate::fronts::mcp::reading::{ReadFailure, ReadingTool};
use crate::fronts::mcp::{history, search};
use crate::http::error::ApiError;

/// Reports an error with its causes to the operator. No reply contains the causes.
pub(super) type Report = fn(&dyn Error);

/// How many characters of an unknown tool's name an error repeats. Any client may send megabytes.
const MAX_QUOTED: usize = 128;

/// The options of the tools.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub(super) separate_tools: bool,
    pub(super) create_overwrites: bool,
    pub(super) read_only: bool,
    pub(super) history: bool,
    /// Whether changes wait in a proposal. Only prompts say so, because they come from the user.
    pub(super) changes_wait: bool,
    /// Reports failures of the storage.
    pub(super) report: Report,
}

/// The tools of a server.
#[derive(Debug)]
pub(super) struct Tools {
    list: Vec<Tool>,
    pub(super) offer: Offer,
}

impl Tools {
    pub(super) fn new(offer: Offer) -> Self {
        let Offer { separate_tools, create_overwrites, read_only, history, .. } = offer;
        let annotated = |tool: Tool, command: Option<CommandName>| {
            let annotations = annotations(command, create_overwrites);
            tool.with_annotations(if read_only { annotations.read_only(true).destructive(false) } else { annotations })
        };
        let mut list = if separate_tools {
            CommandName::ALL.map(|command| annotated(separate_tool(command), Some(command))).to_vec()
        } else {
            vec![annotated(single_tool(), None)]
        };
        list.push(search::definition());
        list.extend(history.then(history::definition));
        Self { list, offer }
    }

    /// The tools for a client.
    pub(super) fn offered(&self, reads_history: bool) -> impl Iterator<Item = &Tool> {
        self.list.iter().filter(move |tool| reads_history || tool.name != history::NAME)
    }

    /// Checks the name of the tool that a request calls.
    pub(super) fn check(&self, request: &CallToolRequestParams, reads_history: bool) -> Result<(), ErrorData> {
        if self.offered(reads_history).any(|tool| tool.name == request.name) {
            return Ok(());
        }
        let names: Vec<_> = self.offered(reads_history).map(|tool| tool.name.as_ref()).collect();
        let unknown: String = request.name.chars().take(MAX_QUOTED).flat_map(char::escape_debug).collect();
        let message = format!("Unknown tool: {unknown}. The tools are: {}", names.join(", "));
        Err(ErrorData::invalid_params(message, None))
    }

    /// The input of the command that a request calls.
    pub(super) fn input(request: CallToolRequestParams) -> Value {
        let mut input = request.arguments.unwrap_or_default();
        if let Some(command) = command_of_tool(&request.name) {
            input.insert(COMMAND.to_owned(), command.as_str().into());
        }
        arguments::corrected(input).into()
    }
}

fn single_tool() -> Tool {
    Tool::new(TOOL_NAME, ToolDefinition::description(), object_schema(properties(), &[COMMAND])).with_title("Memory")
}

fn separate_tool(command: CommandName) -> Tool {
    let used = fields(command);
    let properties = properties().filter(|(name, _)| used.contains(&name.as_str()));
    let required: Vec<_> = used.iter().copied().filter(|field| !is_optional(field)).collect();
    let schema = object_schema(properties.map(|(name, schema)| (name, without_commands(schema))), &required);
    let (title, description) = texts(command);
    Tool::new(tool_name(command), description, schema).with_title(title)
}

fn properties() -> impl Iterator<Item = (String, Value)> {
    let mut schema = ToolDefinition::input_schema();
    let mut properties = match schema.get_mut("properties").map(Value::take) {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    };
    // Some clients require a value for every field.
    if let Some(Value::String(text)) = properties.get_mut(VIEW_RANGE).map(|range| &mut range["description"]) {
        text.push_str(" Leave it out, or fill in [], for all lines.");
    }
    properties.into_iter()
}

/// The schema without the list of commands at the start of its description.
fn without_commands(mut schema: Value) -> Value {
    if let Some((_, rest)) = schema["description"].as_str().and_then(|text| text.split_once(": ")) {
        let mut characters = rest.chars();
        let first = characters.next().map(|first| first.to_ascii_uppercase());
        schema["description"] = first.into_iter().chain(characters).collect::<String>().into();
    }
    schema
}

/// The prefix keeps it apart from the tools of other servers.
fn tool_name(command: CommandName) -> String {
    format!("{TOOL_NAME}_{command}")
}

/// The title of the tool of a command, and its description.
fn texts(command: CommandName) -> (&'static str, &'static str) {
    match command {
        CommandName::View => (
            "View memory",
            "Shows the contents of a directory of your memory, up to 2 levels deep, or of a file with line numbers. \
             ALWAYS VIEW YOUR MEMORY DIRECTORY, /memories, BEFORE DOING ANYTHING ELSE, to check for earlier progress.",
        ),
        CommandName::Create => (
            "Create a memory file",
            "Makes a new file in your memory, which persists between conversations. As you make progress, record \
             status, progress and thoughts in your memory.",
        ),
        CommandName::StrReplace => ("Replace text in memory", "Replaces text in a file of your memory."),
        CommandName::Insert => ("Insert text into memory", "Inserts text at a specific line of a file in your memory."),
        CommandName::Delete => {
            ("Delete memory", "Deletes a file of your memory, or a directory with all its contents.")
        }
        CommandName::Rename => {
            ("Rename memory", "Renames or moves a file or directory of your memory. It does not overwrite.")
        }
    }
}

/// The hints for users. A client may ask them before a destructive call.
fn annotations(command: Option<CommandName>, create_overwrites: bool) -> ToolAnnotations {
    let (is_read_only, is_destructive, is_idempotent) = match command {
        Some(CommandName::View) => (true, false, true),
        Some(CommandName::Create) => (false, create_overwrites, create_overwrites),
        Some(CommandName::Insert) => (false, false, false),
        Some(CommandName::Delete) => (false, true, true),
        Some(CommandName::StrReplace | CommandName::Rename) | None => (false, true, false),
    };
    ToolAnnotations::new()
        .read_only(is_read_only)
        .destructive(is_destructive)
        .idempotent(is_idempotent)
        .open_world(false)
}

/// The command that a request calls, if it is one. A tool that only reads takes its turn as a view does.
pub(super) fn command(request: &CallToolRequestParams) -> Option<CommandName> {
    if ReadingTool::named(&request.name).is_some() {
        return Some(CommandName::View);
    }
    let given = || request.arguments.as_ref()?.get(COMMAND)?.as_str()?.parse().ok();
    command_of_tool(&request.name).or_else(given)
}

fn command_of_tool(name: &str) -> Option<CommandName> {
    CommandName::ALL.into_iter().find(|command| tool_name(*command) == name)
}

/// The result of a call.
pub(super) fn result(outcome: &Result<Reply, memory_tool::Error>) -> CallToolResult {
    match outcome {
        Ok(reply) => CallToolResult::success(match reply.to_content() {
            Content::Text(text) => vec![ContentBlock::text(text)],
            Content::Blocks(blocks) => blocks.into_iter().filter_map(content_block).collect(),
        }),
        Err(error) => failure(error.to_string(), error.kind(), error.is_retryable()),
    }
}

/// The result of a tool that only reads.
pub(super) fn read_result(outcome: Result<String, ReadFailure>) -> CallToolResult {
    match outcome {
        Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
        Err(ReadFailure::Invalid(message)) => failure(message, ErrorKind::Invalid, false),
        Err(ReadFailure::Command(error)) => result(&Err(error)),
    }
}

/// The result of a change that the server refuses.
pub(super) fn refused(error: &ApiError) -> CallToolResult {
    let kind = if error.status().is_client_error() { ErrorKind::Refused } else { ErrorKind::Other };
    failure(format!("Error: {error}"), kind, false)
}

fn failure(message: String, kind: ErrorKind, is_retryable: bool) -> CallToolResult {
    // Some clients show the model only the structured content, so it also contains the message.
    let structured = json!({"code": kind.name(), "message": message, "retryable": is_retryable});
    let mut result = CallToolResult::error(vec![ContentBlock::text(message)]);
    result.structured_content = Some(structured);
    result
}

fn content_block(block: ReplyBlock) -> Option<ContentBlock> {
    match block {
        ReplyBlock::Text { text } => Some(ContentBlock::text(text)),
        ReplyBlock::Image { source: ImageSource::Base64 { media_type, data } } => {
            Some(ContentBlock::image(data, media_type))
        }
        _ => None,
    }
}
