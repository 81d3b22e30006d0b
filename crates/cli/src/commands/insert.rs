//! `memory-tool insert`: the command `insert` of the tool, for people.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde_json::json;

use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::options::values::host_path;
use crate::tool_command::{self, SharedArguments, full};

#[derive(Args, Debug)]
pub(crate) struct InsertArguments {
    /// The file to edit
    #[arg(value_hint = ValueHint::Other)]
    pub(crate) path: String,

    /// Insert after line N; 0 inserts at the beginning
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) insert_line: i64,

    /// The text to insert [default: read from standard input]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "file")]
    pub(crate) insert_text: Option<String>,

    /// Read the text from this file, outside the memory
    #[arg(long, value_name = "FILE", value_parser = host_path())]
    pub(crate) file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) shared: SharedArguments,
}

/// Runs the command, and prints its reply.
pub(crate) fn run(arguments: &InsertArguments) -> Result<ExitStatus, Failure> {
    let InsertArguments { path, insert_line, insert_text, file, shared } = arguments;
    tool_command::run(shared, &shared.options(), None, || {
        let insert_text = tool_command::text(insert_text.as_ref(), file.as_ref())?;
        Ok(json!({"command": "insert", "path": full(path), "insert_line": insert_line, "insert_text": insert_text}))
    })
}
