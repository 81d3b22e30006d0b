//! `memory-tool rename`: the command `rename` of the tool, for people.

use clap::{Args, ValueHint};
use serde_json::json;

use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::tool_command::{self, SharedArguments, full};

#[derive(Args, Debug)]
pub(crate) struct RenameArguments {
    /// The file or directory to rename
    #[arg(value_hint = ValueHint::Other)]
    pub(crate) old_path: String,

    /// The new path, which must not exist
    #[arg(value_hint = ValueHint::Other)]
    pub(crate) new_path: String,

    #[command(flatten)]
    pub(crate) shared: SharedArguments,
}

/// Runs the command, and prints its reply.
pub(crate) fn run(arguments: &RenameArguments) -> Result<ExitStatus, Failure> {
    let RenameArguments { old_path, new_path, shared } = arguments;
    tool_command::run(shared, &shared.options(), None, || {
        Ok(json!({"command": "rename", "old_path": full(old_path), "new_path": full(new_path)}))
    })
}
