//! The six commands of the tool for people. Each becomes the JSON that a model would send, so both behave the same.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as _;
use std::fs;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use clap::Args;
use memory_tool::api::ToolResult;
use memory_tool::command::{DirectoryView, Reply};
use memory_tool::{Engine, Error, Memory, MemoryOptions, MemoryPath, MemoryTool as _};
use serde_json::{Value, json};

use crate::exit_status::ExitStatus;
use crate::failure::{self, Context as _, Failure};
use crate::memory::{advise_read_only, open};
use crate::options::MemoryArgument;
use crate::options::values::{intended, memory_path};
use crate::terminal::escapes::{for_terminal, on_one_line};
use crate::terminal::input::{can_ask, confirms, explain_wait, read_standard_input, utf8};
use crate::terminal::interruption::start_runtime;
use crate::terminal::output::{count, to_json, write_line};

/// The arguments of all six commands.
#[derive(Args, Debug)]
pub(crate) struct SharedArguments {
    /// Print the reply or the error as JSON
    ///
    /// It is a `tool_result` block.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) memory: MemoryArgument,
}

impl SharedArguments {
    /// The options of the memory. Only `create` creates a store.
    pub(crate) fn options(&self) -> MemoryOptions {
        let mut options = self.memory.options();
        options.must_exist = true;
        options
    }
}

/// Runs a command and writes its reply. A person has to confirm before the directory `deletes` is deleted. `input` is
/// the command as a model would send it (`[W1]`).
pub(crate) fn run(
    SharedArguments { json, memory }: &SharedArguments,
    options: &MemoryOptions,
    deletes: Option<&str>,
    input: impl FnOnce() -> Result<Value, Failure>,
) -> Result<ExitStatus, Failure> {
    let runtime = start_runtime()?;
    let memory = runtime.block_on(open(&memory.store.url, options)).map_err(advise_read_only)?;
    if let Some(path) = deletes
        && !runtime.block_on(confirms_removal(&memory, path))?
    {
        failure::eprint_line("memory-tool: nothing was deleted");
        return Ok(ExitStatus::Problem);
    }
    let input = input()?;
    let outcome = runtime.block_on(memory.tool().call(input.clone()));
    write_outcome(&outcome, *json, &input)?;
    if let Ok(Reply::Directory(shown)) = &outcome
        && shown.cut.is_some()
    {
        runtime.block_on(report_rest(&memory, shown))?;
    }
    Ok(ExitStatus::of(outcome.is_ok()))
}

/// The path as the tool knows it. The tool reports the errors of a path.
pub(crate) fn full(given: &str) -> String {
    memory_path(given).map_or_else(|_| given.to_owned(), |path| path.to_string())
}

/// Reports what a listing that is cut leaves out.
async fn report_rest(memory: &Memory, shown: &DirectoryView) -> Result<(), Failure> {
    let whole = Engine::builder(memory.store()).max_view_characters(None).build();
    let whole = whole.call(json!({"command": "view", "path": shown.path.as_str()})).await;
    let Ok(Reply::Directory(whole)) = whole else { return Ok(()) };
    let shown: BTreeSet<_> = shown.items.iter().map(|item| &item.path).collect();
    let mut left_out = BTreeMap::<_, u64>::new();
    for item in whole.items.iter().filter(|item| !shown.contains(&item.path)) {
        *left_out.entry(item.path.parent().unwrap_or_else(MemoryPath::root)).or_default() += 1;
    }
    for (directory, items) in left_out {
        let line = format!("memory-tool: not shown: {} of {directory}", count(items, "item"));
        failure::eprint_line(&on_one_line(&line));
    }
    Ok(())
}

/// Asks before a directory is deleted, if a person can answer.
async fn confirms_removal(memory: &Memory, path: &str) -> Result<bool, Failure> {
    // The tool reports the errors of this path.
    let (true, Ok(path)) = (can_ask(), memory_path(path)) else { return Ok(true) };
    match memory.list(&path).await {
        Ok(files) if !files.is_empty() && !path.is_root() => {
            confirms(&format!("delete {path}/ with {}", count(files.len() as u64, "file"))).await
        }
        _ => Ok(true),
    }
}

/// The given text, or the content of the file, or standard input.
pub(crate) fn text(given: Option<&String>, file: Option<&PathBuf>) -> Result<String, Failure> {
    match (given, file) {
        (Some(text), _) => Ok(text.clone()),
        (None, Some(path)) => fs::read(path).and_then(utf8).context(format!("cannot read {}", path.display())),
        (None, None) => {
            explain_wait("the text");
            read_standard_input().context("cannot read standard input")
        }
    }
}

/// Writes the reply. An error and its causes go to standard error, on one line each, because they repeat arguments.
fn write_outcome(outcome: &Result<Reply, Error>, json: bool, input: &Value) -> Result<(), Failure> {
    match outcome {
        _ if json => write_reply(to_json(&io::stdout(), &ToolResult::new(None, outcome))?)?,
        Ok(reply) => write_reply(text_for(io::stdout().is_terminal(), reply.to_string()).into_bytes())?,
        // With causes, the error is printed below.
        Err(error) if error.source().is_none() => failure::eprint_line(&on_one_line(&error.to_string())),
        Err(_) => {}
    }
    if let Err(error) = outcome {
        failure::eprint_causes(error);
        let paths = ["path", "old_path", "new_path"].into_iter().filter_map(|field| input[field].as_str());
        for path in paths.filter_map(intended) {
            failure::eprint_line(&format!("memory-tool: did you mean {path}?"));
        }
    }
    Ok(())
}

/// Escapes characters that control a terminal or are invisible, if the text goes to one: the memory may be hostile.
fn text_for(to_terminal: bool, text: String) -> String {
    if to_terminal { for_terminal(&text) } else { text }
}

fn write_reply(reply: Vec<u8>) -> Result<(), Failure> {
    // A closed output is not an error: the command was executed.
    write_line(&mut io::stdout().lock(), reply).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_for_a_terminal_is_escaped() {
        let title = "a\tb\n\u{1b}]0;title\u{7}\u{9b}2Jé\u{7f}\u{202e}\u{200b}";
        let escaped = "a\tb\n\\u{1b}]0;title\\u{7}\\u{9b}2Jé\\u{7f}\\u{202e}\\u{200b}";
        assert_eq!(text_for(true, title.to_owned()), escaped);
        assert_eq!(text_for(false, title.to_owned()), title);
    }
}
