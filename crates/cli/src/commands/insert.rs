//! `memory-tool insert`: the command `insert` of the tool, for people.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::options::values::host_path;
pub(crate) use crate::tool_command::run;
use crate::tool_command::{SharedArguments, ToolCommand, full, text};

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

impl ToolCommand for InsertArguments {
    fn shared(&self) -> &SharedArguments {
        &self.shared
    }

    fn input(&self) -> Result<Value, Failure> {
        let insert_text = text(self.insert_text.as_ref(), self.file.as_ref())?;
        let (path, insert_line) = (full(&self.path), self.insert_line);
        Ok(json!({"command": "insert", "path": path, "insert_line": insert_line, "insert_text": insert_text}))
    }
}
