//! `memory-tool cat`: prints files.

use clap::{Args, ValueHint};
use memory_tool::history::HistoryError;
use memory_tool::{Memory, MemoryPath};

use crate::exit_status::ExitStatus;
use crate::failure::{Context as _, Failure};
use crate::files::{Stop, perform};
use crate::history;
use crate::memory::Access;
use crate::options::MemoryArgument;
use crate::options::values::{Point, memory_path};
use crate::terminal::output::{ReaderState, write_content};

#[derive(Args, Debug)]
pub(crate) struct CatArguments {
    /// The files to print
    #[arg(required = true, value_name = "PATH", value_parser = memory_path, value_hint = ValueHint::Other)]
    pub(crate) paths: Vec<MemoryPath>,

    /// Print the state after this entry, at this time, or this long ago
    #[arg(long, value_name = "ENTRY|TIME|AGE")]
    pub(crate) at: Option<Point>,

    #[command(flatten)]
    pub(crate) memory: MemoryArgument,
}

/// Prints the bytes of each file. A file that cannot be read does not keep the others from being printed.
pub(crate) fn run(arguments: &CatArguments) -> Result<ExitStatus, Failure> {
    perform(&arguments.memory, "cat", Access::Read, async |memory| {
        let mut status = ExitStatus::Success;
        for path in &arguments.paths {
            let content = match content(&memory, path, arguments).await {
                Ok(content) => content,
                Err(stop) => {
                    status = stop.report()?;
                    continue;
                }
            };
            if write_content(&content)? == ReaderState::Gone {
                break;
            }
        }
        Ok(status)
    })
}

async fn content(memory: &Memory, path: &MemoryPath, arguments: &CatArguments) -> Result<Vec<u8>, Stop> {
    if let Some(point) = arguments.at {
        let history = history::required(memory).await?;
        let number = history::number(point, &history).await.context(history::READING)?;
        return history.read(&path.clone().into(), number).await.map_err(|error| match error {
            HistoryError::Store(error) => Stop::Refused(error),
            error => Stop::Wrong(error.to_string()),
        });
    }
    Ok(memory.read_bytes(path).await?)
}
