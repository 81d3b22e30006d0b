//! The instructions of the server, and its prompts.

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
const TAKE_BACK: &str = "take_back_changes";
const CHANGES: &str = "changes";

/// The instructions of the server.
pub(super) fn instructions(is_read_only: bool) -> &'static str {
    if is_read_only { READ_ONLY_INSTRUCTIONS } else { INSTRUCTIONS }
}

/// The prompts that the server offers.
pub(super) fn list(with_history: bool) -> Vec<Prompt> {
    let argument = |name, title, description| {
        vec![PromptArgument::new(name).with_title(title).with_description(description).with_required(false)]
    };
    let description = "Reviews every file of the memory, and merges, corrects, renames or deletes files";
    let directory = "The directory to tidy, such as /memories/projects. Without it, the whole memory.";
    let tidy = Prompt::new(TIDY, Some(description), Some(argument(DIRECTORY, "Directory", directory)));
    let description = "Finds changes of the memory, and writes the earlier texts back";
    let changes = "The changes, in words, such as: the deletion of my notes yesterday. Without it, the last one.";
    let take_back = Prompt::new(TAKE_BACK, Some(description), Some(argument(CHANGES, "Changes", changes)));
    let take_back = with_history.then(|| take_back.with_title("Take back changes of the memory"));
    [tidy.with_title("Tidy the memory")].into_iter().chain(take_back).collect()
}

/// The messages of a prompt.
pub(super) fn get(request: &GetPromptRequestParams, changes_wait: bool) -> Result<GetPromptResult, ErrorData> {
    let arguments = request.arguments.as_ref();
    let (text, description) = match request.name.as_str() {
        TIDY => (tidy(&directory(arguments)?, changes_wait), "Tidy the memory"),
        TAKE_BACK => {
            let changes = text_of(arguments, CHANGES)?.unwrap_or("the last change");
            (take_back(changes), "Take back changes of the memory")
        }
        _ => {
            let message = format!("Unknown prompt. The prompts here are {TIDY} and {TAKE_BACK}.");
            return Err(ErrorData::invalid_params(message, None));
        }
    };
    Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]).with_description(description))
}

/// The prompt for an agent that tidies a directory.
pub(super) fn tidy(directory: &MemoryPath, changes_wait: bool) -> String {
    let if_unsure = if changes_wait { "keep both and say so" } else { "ask me" };
    let end = if changes_wait { " I look at your changes before they count." } else { "" };
    format!(
        "Review and tidy your memory in {directory}.\n\
         1. View {directory} and every file under it, before you change anything.\n\
         2. Keep one topic in each file, and rename files whose names do not say what they contain.\n\
         3. Merge files and passages that say the same.\n\
         4. Correct or delete statements that are outdated or contradict newer ones; if you cannot decide which one is \
         right, {if_unsure}. Delete files that are no longer relevant.\n\
         5. Keep every fact that is still useful, with its date and in its own words, and add no new facts.\n\
         6. Correct links to files that you renamed, merged or deleted. Keep one file as the index, with a line for \
         each other file.\n\
         7. View {directory} again, and tell me what you changed and why.{end}"
    )
}

fn take_back(changes: &str) -> String {
    format!(
        "Take back changes of your memory: {changes}.\n\
         1. List the changes with `memory_history`. With `entry`, look at the lines of each change that I may mean.\n\
         2. Tell me which entries you found, and which texts you would write back. Wait for my answer.\n\
         3. Write the earlier texts back with the commands of your memory. A line with `-` was there before the \
         change, and a line with `+` came with it. Keep later changes of other lines.\n\
         4. View the files, and tell me what you wrote back."
    )
}

fn directory(arguments: Option<&JsonObject>) -> Result<MemoryPath, ErrorData> {
    let path = text_of(arguments, DIRECTORY)?.map_or_else(|| Ok(MemoryPath::root()), MemoryPath::parse);
    path.map_err(|error| ErrorData::invalid_params(error.to_string(), None))
}

/// An argument that is not left out.
fn text_of<'a>(arguments: Option<&'a JsonObject>, name: &str) -> Result<Option<&'a str>, ErrorData> {
    match arguments.and_then(|arguments| arguments.get(name)) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
        Some(_) => Err(ErrorData::invalid_params(format!("Argument `{name}` must be a string"), None)),
    }
}
