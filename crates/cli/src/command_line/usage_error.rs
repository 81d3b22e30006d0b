//! [`prepare`]: errors about arguments, which repeat what was given.

use std::error::Error as _;
use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};
use memory_tool::redact_credentials;
use memory_tool::store::is_unprintable;

use crate::options::{STORE_OPTION, STORE_VARIABLE};
use crate::terminal::escapes::on_one_line;

/// The options that people give without their names, such as `verify ./memory`.
const NAMELESS: [&str; 3] = ["store", "output", "directory"];

/// The commands that other tools call by these names.
const NAMES_ELSEWHERE: [(&str, &str); 16] = [
    ("backup", "export"),
    ("blame", "log"),
    ("check", "verify"),
    ("dump", "export"),
    ("erase", "redact"),
    ("find", "search"),
    ("fsck", "verify"),
    ("grep", "search"),
    ("history", "log"),
    ("list", "ls"),
    ("move", "mv"),
    ("read", "cat"),
    ("remove", "rm"),
    ("revert", "undo"),
    ("rollback", "undo"),
    ("write", "create"),
];

/// Completes an error of clap. Arguments are repeated without credentials, and with escapes, because the name of a
/// tenant could forge lines of a log.
pub(super) fn prepare(error: Error, command: &mut Command, words: &[OsString]) -> Error {
    let mut error = with_safe_cause(with_safe_values(error)).format(command);
    if let Some(tip) = tip(&error, command, words) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    }
    error
}

fn with_safe_values(mut error: Error) -> Error {
    let safe: Vec<_> = error.context().filter_map(|(kind, value)| Some((kind, safe_value(kind, value)?))).collect();
    for (kind, value) in safe {
        error.insert(kind, value);
    }
    error
}

fn safe_value(kind: ContextKind, value: &ContextValue) -> Option<ContextValue> {
    match value {
        ContextValue::String(text) => Some(ContextValue::String(redact_credentials(text))),
        ContextValue::Strings(texts) => {
            Some(ContextValue::Strings(texts.iter().map(|text| redact_credentials(text)).collect()))
        }
        // The tip how to pass an argument as a value repeats it.
        ContextValue::StyledStrs(tips) if kind == ContextKind::Suggested => {
            let tips = tips.iter().map(|tip| redact_credentials(&tip.to_string()));
            Some(ContextValue::StyledStrs(tips.map(StyledStr::from).collect()))
        }
        _ => None,
    }
}

/// Replaces an error whose cause repeats unprintable characters, for example the list of the possible values.
fn with_safe_cause(error: Error) -> Error {
    let Some(cause) = error.source().map(ToString::to_string).filter(|cause| cause.contains(is_unprintable)) else {
        return error;
    };
    let text = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let (value, argument) = (text(ContextKind::InvalidValue), text(ContextKind::InvalidArg));
    Error::raw(error.kind(), format!("invalid value '{value}' for '{argument}': {}\n", on_one_line(&cause)))
}

/// A tip for a command with another name, for a missing store, or for the value of an option without its name.
fn tip(error: &Error, command: &Command, words: &[OsString]) -> Option<String> {
    if let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidSubcommand) {
        let (_, meant) = NAMES_ELSEWHERE.iter().find(|(name, _)| name == given)?;
        return Some(format!("did you mean `{} {meant}`?", command.get_name()));
    }
    match error.get(ContextKind::InvalidArg)? {
        ContextValue::Strings(missing) if missing.iter().any(|argument| argument == STORE_OPTION) => {
            Some(format!("the environment variable {STORE_VARIABLE} sets a default"))
        }
        ContextValue::String(given) if error.kind() == ErrorKind::UnknownArgument && !given.starts_with('-') => {
            let name = words.iter().skip(1).find_map(|word| word.to_str().filter(|word| !word.starts_with('-')))?;
            let subcommand = command.find_subcommand(name)?;
            let long_of = |id: &&str| subcommand.get_arguments().find(|argument| argument.get_id() == *id)?.get_long();
            let option = NAMELESS.iter().filter_map(long_of).find(|option| !is_given(option, words))?;
            Some(format!("did you mean --{option} {given}?"))
        }
        _ => None,
    }
}

fn is_given(option: &str, words: &[OsString]) -> bool {
    let is_option = |word: &str| word.strip_prefix("--").is_some_and(|word| word.split('=').next() == Some(option));
    words.iter().filter_map(|word| word.to_str()).any(is_option)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::command;

    #[test]
    fn names_of_other_tools_mean_commands_and_are_none() {
        let command = command();
        for (name, meant) in NAMES_ELSEWHERE {
            let found = [name, meant].map(|name| command.find_subcommand(name).is_some());
            assert_eq!(found, [false, true], "{name}");
        }
    }
}
