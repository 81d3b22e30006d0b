//! `memory-tool rename`: the command `rename` of the tool, for people.

use clap::{Args, ValueHint};
use serde_json::{Value, json};

use crate::failure::Failure;
pub(crate) use crate::tool_command::run;
use crate::tool_command::{SharedArguments, ToolCommand, full};

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

impl ToolCommand for RenameArguments {
    fn shared(&self) -> &SharedArguments {
        &self.shared
    }

    fn input(&self) -> Result<Value, Failure> {
        Ok(json!({"command": "rename", "old_path": full(&self.old_path), "new_path": full(&self.new_path)}))
    }
}
