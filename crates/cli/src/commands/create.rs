//! `memory-tool create`: the command `create` of the tool, for people.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use memory_tool::MemoryOptions;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::options::values::host_path;
use crate::options::{ExistingArgument, OverwritesArgument};
pub(crate) use crate::tool_command::run;
use crate::tool_command::{SharedArguments, ToolCommand, full, text};

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

impl ToolCommand for CreateArguments {
    fn shared(&self) -> &SharedArguments {
        &self.shared
    }

    fn set(&self, options: &mut MemoryOptions) {
        options.must_exist = self.existing.must_exist;
        options.create_overwrites = self.overwrites.create_overwrites;
    }

    fn input(&self) -> Result<Value, Failure> {
        let file_text = text(self.text.as_ref(), self.file.as_ref())?;
        Ok(json!({"command": "create", "path": full(&self.path), "file_text": file_text}))
    }
}
