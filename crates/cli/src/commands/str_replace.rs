//! `memory-tool str_replace`: the command `str_replace` of the tool, for people.

use clap::{Args, ValueHint};
use serde_json::{Value, json};

use crate::failure::Failure;
pub(crate) use crate::tool_command::run;
use crate::tool_command::{SharedArguments, ToolCommand, full};

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

impl ToolCommand for StrReplaceArguments {
    fn shared(&self) -> &SharedArguments {
        &self.shared
    }

    fn input(&self) -> Result<Value, Failure> {
        let Self { path, old_str, new_str, .. } = self;
        Ok(json!({"command": "str_replace", "path": full(path), "old_str": old_str, "new_str": new_str}))
    }
}
