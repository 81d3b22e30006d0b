//! `memory-tool view`: the command `view` of the tool, for people.

use clap::{Args, ValueHint};
use serde_json::json;

use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::options::ViewCapArgument;
use crate::tool_command::{self, SharedArguments, full};

#[derive(Args, Debug)]
pub(crate) struct ViewArguments {
    /// The file or directory to print
    #[arg(default_value = "/memories", value_hint = ValueHint::Other)]
    pub(crate) path: String,

    /// Print only these lines
    ///
    /// Lines of a file or a listing count from 1. A LAST of -1 means the last line.
    #[arg(long, num_args = 2, value_names = ["FIRST", "LAST"], allow_negative_numbers = true)]
    pub(crate) view_range: Option<Vec<i64>>,

    #[command(flatten)]
    pub(crate) cap: ViewCapArgument,

    #[command(flatten)]
    pub(crate) shared: SharedArguments,
}

/// Runs the command, and prints its reply.
pub(crate) fn run(arguments: &ViewArguments) -> Result<ExitStatus, Failure> {
    let mut options = arguments.shared.options();
    options.read_only = true;
    options.max_view_characters = Some(arguments.cap.max_view_chars.0);
    tool_command::run(&arguments.shared, &options, None, || {
        Ok(json!({"command": "view", "path": full(&arguments.path), "view_range": arguments.view_range}))
    })
}
