//! `memory-tool delete`: the command `delete` of the tool, for people.

use clap::{Args, ValueHint};
use serde_json::{Value, json};

use crate::failure::Failure;
pub(crate) use crate::tool_command::run;
use crate::tool_command::{SharedArguments, ToolCommand, full};

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

impl ToolCommand for DeleteArguments {
    fn shared(&self) -> &SharedArguments {
        &self.shared
    }

    fn deletes(&self) -> Option<&str> {
        (!self.yes).then_some(self.path.as_str())
    }

    fn input(&self) -> Result<Value, Failure> {
        Ok(json!({"command": "delete", "path": full(&self.path)}))
    }
}
