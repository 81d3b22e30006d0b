//! The instructions of the server, and its prompt.

use memory_tool::MemoryPath;
use rmcp::model::{
    ErrorData, GetPromptRequestParams, GetPromptResult, JsonObject, Prompt, PromptArgument, PromptMessage, Role,
};
use serde_json::Value;

/// The instruction of the documentation that the Messages API adds to the system prompt, and the one that it recommends
/// against cluttered memories.
const INSTRUCTIONS: &str = "\
IMPORTANT: ALWAYS VIEW YOUR MEMORY DIRECTORY BEFORE DOING ANYTHING ELSE.
MEMORY PROTOCOL:
1. Use the `view` command of your `memory` tool to check for earlier progress.
2. ... (work on the task) ...
   - As you make progress, record status / progress / thoughts etc in your memory.
ASSUME INTERRUPTION: Your context window might be reset at any moment, so you risk losing any progress that is not \
recorded in your memory directory.

Note: when editing your memory folder, always try to keep its content up-to-date, coherent and organized. You can \
rename or delete files that are no longer relevant. Do not create new files unless necessary.";

/// The instructions for a memory that refuses every change.
const READ_ONLY_INSTRUCTIONS: &str = "\
IMPORTANT: ALWAYS VIEW YOUR MEMORY DIRECTORY BEFORE DOING ANYTHING ELSE.
Use the `view` command of your `memory` tool to check for earlier progress. The memory is read-only.";

const TIDY: &str = "tidy_memory";
const DIRECTORY: &str = "directory";

/// The instructions of the server.
pub(super) fn instructions(is_read_only: bool) -> &'static str {
    if is_read_only { READ_ONLY_INSTRUCTIONS } else { INSTRUCTIONS }
}

/// The prompts that the server offers.
pub(super) fn list() -> Vec<Prompt> {
    let directory = PromptArgument::new(DIRECTORY)
        .with_title("Directory")
        .with_description("The directory to tidy, such as /memories/projects. Without it, the whole memory.")
        .with_required(false);
    let description = "Reviews every file of the memory, and merges, corrects, renames or deletes files";
    vec![Prompt::new(TIDY, Some(description), Some(vec![directory])).with_title("Tidy the memory")]
}

/// The messages of a prompt.
pub(super) fn get(request: &GetPromptRequestParams) -> Result<GetPromptResult, ErrorData> {
    if request.name != TIDY {
        return Err(ErrorData::invalid_params(format!("Unknown prompt. The only prompt here is {TIDY}."), None));
    }
    let directory = directory(request.arguments.as_ref())?;
    let text = format!(
        "Review and tidy your memory in {directory}.\n\
         1. View {directory} and every file under it, before you change anything.\n\
         2. Merge files and passages that say the same. Correct or delete statements that are outdated or contradict \
         newer ones; if you cannot decide which one is right, ask me.\n\
         3. Rename files whose names do not say what they contain, and delete files that are no longer relevant.\n\
         4. Keep every fact that is still useful, in its own words, and add no new facts.\n\
         5. View {directory} again, and tell me what you changed and why."
    );
    Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]).with_description("Tidy the memory"))
}

fn directory(arguments: Option<&JsonObject>) -> Result<MemoryPath, ErrorData> {
    match arguments.and_then(|arguments| arguments.get(DIRECTORY)) {
        None | Some(Value::Null) => Ok(MemoryPath::root()),
        Some(Value::String(path)) if path.is_empty() => Ok(MemoryPath::root()),
        Some(Value::String(path)) => {
            MemoryPath::parse(path).map_err(|error| ErrorData::invalid_params(error.to_string(), None))
        }
        Some(_) => Err(ErrorData::invalid_params(format!("Argument `{DIRECTORY}` must be a string"), None)),
    }
}
