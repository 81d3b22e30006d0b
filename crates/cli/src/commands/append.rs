//! `memory-tool append`: adds lines to the end of a file.

use clap::{Args, ValueHint};
use memory_tool::{MemoryPath, StoreError};

use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::files::{Stop, perform};
use crate::memory::Access;
use crate::options::MemoryArgument;
use crate::options::values::memory_path;
use crate::terminal::input::{explain_wait, from_input, read_standard_input};

#[derive(Args, Debug)]
pub(crate) struct AppendArguments {
    /// The file, which is created if it does not exist
    #[arg(value_parser = memory_path, value_hint = ValueHint::Other)]
    pub(crate) path: MemoryPath,

    /// The words of the text [default: read from standard input]
    #[arg(value_name = "TEXT")]
    pub(crate) text: Vec<String>,

    #[command(flatten)]
    pub(crate) memory: MemoryArgument,
}

/// Appends the text. Concurrent changes of the file are kept.
pub(crate) fn run(arguments: &AppendArguments) -> Result<ExitStatus, Failure> {
    perform(&arguments.memory, "append", Access::Change, async |memory| {
        let added = added(arguments).await?;
        let append = |found: Option<Vec<u8>>| {
            let text = String::from_utf8(found.unwrap_or_default());
            let text = text.map_err(|_| StoreError::NotText { path: arguments.path.clone().into() })?;
            let separator = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            Ok([&text, separator, &added].concat().into())
        };
        memory.update(&arguments.path, append).await?;
        Ok(ExitStatus::Success)
    })
}

/// The lines to append.
async fn added(arguments: &AppendArguments) -> Result<String, Stop> {
    let mut added = if arguments.text.is_empty() {
        explain_wait("the text");
        from_input(read_standard_input).await?
    } else {
        arguments.text.join(" ") + "\n"
    };
    if added.contains('\0') {
        return Err(Stop::Wrong("the text contains U+0000".to_owned()));
    }
    if !added.is_empty() && !added.ends_with('\n') {
        added.push('\n');
    }
    Ok(added)
}
