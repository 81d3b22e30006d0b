//! `memory-tool create`: the command `create` of the tool, for people.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde_json::json;

use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::options::values::host_path;
use crate::options::{ExistingArgument, OverwritesArgument};
use crate::tool_command::{self, SharedArguments, full};

#[derive(Args, Debug)]
pub(crate) struct CreateArguments {
    /// The file to create, under /memories
    #[arg(value_hint = ValueHint::Other)]
    pub(crate) path: String,

    /// The text of the file [default: read from standard input]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "file")]
    pub(crate) text: Option<String>,

    /// Read the text from this file, outside the memory
    #[arg(long, value_name = "FILE", value_parser = host_path())]
    pub(crate) file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) overwrites: OverwritesArgument,

    #[command(flatten)]
    pub(crate) existing: ExistingArgument,

    #[command(flatten)]
    pub(crate) shared: SharedArguments,
}

/// Runs the command, and prints its reply.
pub(crate) fn run(arguments: &CreateArguments) -> Result<ExitStatus, Failure> {
    let CreateArguments { path, text, file, overwrites, existing, shared } = arguments;
    let mut options = shared.options();
    options.must_exist = existing.must_exist;
    options.create_overwrites = overwrites.create_overwrites;
    tool_command::run(shared, &options, None, || {
        let file_text = tool_command::text(text.as_ref(), file.as_ref())?;
        Ok(json!({"command": "create", "path": full(path), "file_text": file_text}))
    })
}
