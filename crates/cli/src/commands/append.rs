//! `memory-tool append`: adds lines to the end of a file.

use clap::{Args, ValueHint};
use memory_tool::store::Precondition;
use memory_tool::{MemoryPath, Node, StoreError};

use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::files::{self, Stop, from_input, perform, retried};
use crate::options::MemoryArgument;
use crate::options::values::memory_path;
use crate::tool_command::{explain_wait, read_standard_input};

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
    let path = &arguments.path;
    perform(&arguments.memory, false, async |memory| {
        let added = added(arguments).await?;
        let append = async || {
            let batch = files::batch(&arguments.memory, "append");
            let (batch, text) = match files::read(&memory, path, "append").await? {
                Node::Absent => (batch.require(path, Precondition::Absent), String::new()),
                Node::Directory(_) => return Err(StoreError::NotAFile { path: path.clone().into() }.into()),
                Node::File(file) => {
                    (batch.require(path, Precondition::Version(file.version)), files::text(path, file.content)?)
                }
            };
            let separator = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            Ok(memory.store().apply(batch.write(path, [&text, separator, &added].concat())).await?)
        };
        retried(append).await?;
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
