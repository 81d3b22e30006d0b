//! The six commands for people. Each is converted to the JSON that a model would send, so both behave the same.

use std::error::Error as _;
use std::fs;
use std::io::{self, IsTerminal as _, Read as _};
use std::path::PathBuf;

use memory_tool::{Error, OpenMode, Reply, ToolResult};
use serde_json::{Value, json};

use crate::arguments::{CommandArguments, OverwritesArgument, SharedArguments, ViewCapArgument};
use crate::failure::{self, Failure};
use crate::output::{to_json, write_line};
use crate::run::{open_memory, start_runtime};

/// Whether the tool executed the command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    Success,
    Error,
}

/// Runs the command and writes its reply.
pub(crate) fn run(command: CommandArguments) -> Result<Outcome, Failure> {
    let runtime = start_runtime()?;
    let shared = shared(&command);
    let json = shared.json;
    let (overwrites, cap) = match &command {
        CommandArguments::View(view) => (OverwritesArgument::default(), view.cap),
        CommandArguments::Create(create) => (create.overwrites, ViewCapArgument::default()),
        _ => Default::default(),
    };
    let memory = runtime.block_on(open_memory(mode(&command), &shared.memory, overwrites, cap))?;
    let outcome = runtime.block_on(memory.tool().call(input(command)?));
    write_outcome(&outcome, json)?;
    Ok(if outcome.is_ok() { Outcome::Success } else { Outcome::Error })
}

/// Only `create` creates a store that does not exist.
fn mode(command: &CommandArguments) -> OpenMode {
    match command {
        CommandArguments::View(_) => OpenMode::ReadOnly,
        CommandArguments::Create(_) => OpenMode::Create,
        _ => OpenMode::Existing,
    }
}

fn shared(command: &CommandArguments) -> &SharedArguments {
    match command {
        CommandArguments::View(arguments) => &arguments.shared,
        CommandArguments::Create(arguments) => &arguments.shared,
        CommandArguments::StrReplace(arguments) => &arguments.shared,
        CommandArguments::Insert(arguments) => &arguments.shared,
        CommandArguments::Delete(arguments) => &arguments.shared,
        CommandArguments::Rename(arguments) => &arguments.shared,
    }
}

/// The command as a model would send it (`[W1]`).
fn input(command: CommandArguments) -> Result<Value, Failure> {
    Ok(match command {
        CommandArguments::View(view) => {
            json!({"command": "view", "path": view.path, "view_range": view.view_range})
        }
        CommandArguments::Create(create) => {
            let file_text = text(create.text, create.file)?;
            json!({"command": "create", "path": create.path, "file_text": file_text})
        }
        CommandArguments::StrReplace(replace) => {
            json!({
                "command": "str_replace",
                "path": replace.path,
                "old_str": replace.old_str,
                "new_str": replace.new_str,
            })
        }
        CommandArguments::Insert(insert) => {
            let insert_text = text(insert.insert_text, insert.file)?;
            json!({
                "command": "insert",
                "path": insert.path,
                "insert_line": insert.insert_line,
                "insert_text": insert_text,
            })
        }
        CommandArguments::Delete(delete) => json!({"command": "delete", "path": delete.path}),
        CommandArguments::Rename(rename) => {
            json!({"command": "rename", "old_path": rename.old_path, "new_path": rename.new_path})
        }
    })
}

/// The given text, or the content of the file, or standard input.
fn text(given: Option<String>, file: Option<PathBuf>) -> Result<String, Failure> {
    match (given, file) {
        (Some(text), _) => Ok(text),
        (None, Some(path)) => read_file(path),
        (None, None) => read_standard_input().map_err(Failure::Input),
    }
}

fn read_file(path: PathBuf) -> Result<String, Failure> {
    let text = fs::read(&path).and_then(utf8);
    text.map_err(|source| Failure::File { path, source })
}

fn read_standard_input() -> io::Result<String> {
    let mut content = Vec::new();
    io::stdin().lock().read_to_end(&mut content)?;
    utf8(content)
}

fn utf8(content: Vec<u8>) -> io::Result<String> {
    String::from_utf8(content).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        io::Error::new(io::ErrorKind::InvalidData, format!("invalid UTF-8 at byte {offset}"))
    })
}

/// Writes the reply, and the causes of an error to standard error.
fn write_outcome(outcome: &Result<Reply, Error>, json: bool) -> Result<(), Failure> {
    let to_terminal = io::stdout().is_terminal();
    match outcome {
        _ if json => write_reply(json_for(to_terminal, to_json(&ToolResult::new(None, outcome))?))?,
        Ok(reply) => write_reply(text_for(to_terminal, reply.to_string()).into_bytes())?,
        // With causes, the error is printed below.
        Err(error) if error.source().is_none() => {
            failure::eprint_line(&text_for(io::stderr().is_terminal(), error.to_string()));
        }
        Err(_) => {}
    }
    if let Err(error) = outcome {
        failure::eprint_causes(error);
    }
    Ok(())
}

/// Escapes characters that control a terminal, if the text goes to one: the memory may be hostile.
fn text_for(to_terminal: bool, text: String) -> String {
    if to_terminal { failure::without_controls(&text) } else { text }
}

/// The same for JSON, by escapes of JSON. Most control characters are escaped already; the others have four hexadecimal
/// digits.
fn json_for(to_terminal: bool, json: Vec<u8>) -> Vec<u8> {
    if !to_terminal {
        return json;
    }
    let mut escaped = String::with_capacity(json.len());
    for character in String::from_utf8_lossy(&json).chars() {
        if failure::controls_terminal(character) {
            escaped += &format!("\\u{:04x}", u32::from(character));
        } else {
            escaped.push(character);
        }
    }
    escaped.into_bytes()
}

fn write_reply(reply: Vec<u8>) -> Result<(), Failure> {
    // A closed output is not an error: the command was executed.
    write_line(&mut io::stdout().lock(), reply).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TITLE: &str = "a\tb\n\u{1b}]0;title\u{7}\u{9b}2Jé\u{7f}\u{202e}";

    #[test]
    fn text_for_a_terminal_is_escaped() {
        assert_eq!(text_for(true, TITLE.to_owned()), "a\tb\n\\u{1b}]0;title\\u{7}\\u{9b}2Jé\\u{7f}\\u{202e}");
        assert_eq!(text_for(false, TITLE.to_owned()), TITLE);
    }

    #[test]
    fn json_for_a_terminal_is_escaped_and_keeps_its_value() {
        let json = to_json(&json!({"content": TITLE})).unwrap();
        assert_eq!(json_for(false, json.clone()), json);
        let escaped = String::from_utf8(json_for(true, json)).unwrap();
        assert!(!escaped.contains(failure::controls_terminal), "{escaped}");
        assert_eq!(serde_json::from_str::<Value>(&escaped).unwrap()["content"], TITLE);
    }
}
