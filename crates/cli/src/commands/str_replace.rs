//! `memory-tool str_replace`: the command `str_replace` of the tool, for people.

use clap::{Args, ValueHint};
use serde_json::json;

use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::tool_command::{self, SharedArguments, full};

#[derive(Args, Debug)]
pub(crate) struct StrReplaceArguments {
    /// The file to edit
    #[arg(value_hint = ValueHint::Other)]
    pub(crate) path: String,

    /// The text to replace, taken literally
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) old_str: String,

    /// The replacement, taken literally [default: delete the text]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) new_str: Option<String>,

    #[command(flatten)]
    pub(crate) shared: SharedArguments,
}

/// Runs the command, and prints its reply.
pub(crate) fn run(arguments: &StrReplaceArguments) -> Result<ExitStatus, Failure> {
    let StrReplaceArguments { path, old_str, new_str, shared } = arguments;
    tool_command::run(shared, &shared.options(), None, || {
        Ok(json!({"command": "str_replace", "path": full(path), "old_str": old_str, "new_str": new_str}))
    })
}
