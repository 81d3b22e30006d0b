//! `memory-tool delete`: the command `delete` of the tool, for people.

use clap::{Args, ValueHint};
use serde_json::json;

use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::tool_command::{self, SharedArguments, full};

#[derive(Args, Debug)]
pub(crate) struct DeleteArguments {
    /// The file or directory to delete
    #[arg(value_hint = ValueHint::Other)]
    pub(crate) path: String,

    /// Delete a directory without a question on a terminal
    #[arg(long)]
    pub(crate) yes: bool,

    #[command(flatten)]
    pub(crate) shared: SharedArguments,
}

/// Runs the command, and prints its reply.
pub(crate) fn run(arguments: &DeleteArguments) -> Result<ExitStatus, Failure> {
    let DeleteArguments { path, yes, shared } = arguments;
    tool_command::run(shared, &shared.options(), (!yes).then_some(path.as_str()), || {
        Ok(json!({"command": "delete", "path": full(path)}))
    })
}
