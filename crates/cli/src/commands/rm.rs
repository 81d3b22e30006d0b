//! `memory-tool rm`: removes files and directories.

use clap::{Args, ValueHint};
use memory_tool::store::Batch;
use memory_tool::{Memory, MemoryPath, Node, Store as _, StoreError};

use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::files::{Stop, eprint, perform};
use crate::memory::Access;
use crate::options::MemoryArgument;
use crate::options::values::memory_path;
use crate::terminal::input::{can_ask, confirms};
use crate::terminal::output::count;

#[derive(Args, Debug)]
pub(crate) struct RmArguments {
    /// The files and directories to remove
    #[arg(required = true, value_name = "PATH", value_parser = memory_path, value_hint = ValueHint::Other)]
    pub(crate) paths: Vec<MemoryPath>,

    /// Remove directories with everything in them
    #[arg(short, long)]
    pub(crate) recursive: bool,

    /// Ask nothing, and ignore paths that do not exist
    #[arg(short, long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) memory: MemoryArgument,
}

/// Removes all paths in one step.
pub(crate) fn run(arguments: &RmArguments) -> Result<ExitStatus, Failure> {
    perform(&arguments.memory, "rm", Access::Change, async |memory| {
        let asks = !arguments.force && can_ask();
        loop {
            let (paths, names) = removed(&memory, arguments).await?;
            if paths.is_empty() {
                return Ok(ExitStatus::Success);
            }
            if asks && !confirms(&format!("remove {names}")).await? {
                eprint("nothing was removed");
                return Ok(ExitStatus::Problem);
            }
            match memory.store().apply(paths.into_iter().fold(Batch::new(), Batch::remove)).await {
                // Somebody else removed it now, which `removed` ignores.
                Err(StoreError::NotFound { .. }) if arguments.force => {}
                outcome => return Ok(outcome.map(|()| ExitStatus::Success)?),
            }
        }
    })
}

/// The paths to remove, and their names for a question.
async fn removed<'a>(memory: &Memory, arguments: &'a RmArguments) -> Result<(Vec<&'a MemoryPath>, String), Stop> {
    let mut given: Vec<_> = arguments.paths.iter().collect();
    given.sort_unstable();
    let (mut paths, mut names) = (Vec::<&MemoryPath>::new(), Vec::new());
    for path in given {
        if path.is_root() {
            return Err(Stop::Wrong("cannot remove /memories itself".to_owned()));
        }
        match memory.read(path).await {
            Ok(Node::Absent) if arguments.force => continue,
            Ok(Node::Absent) => return Err(StoreError::NotFound { path: path.clone().into() }.into()),
            Ok(Node::Directory(_)) if !arguments.recursive => {
                return Err(Stop::Wrong(format!("{path} is a directory; -r removes it with everything in it")));
            }
            // A directory sorts right before its contents.
            _ if paths.last().is_some_and(|last| path.overlaps(last)) => continue,
            Ok(Node::Directory(listing)) => {
                names.push(format!("{path}/ with {}", count(listing.files.len() as u64, "file")));
            }
            // For example damaged files, which can be removed.
            Ok(Node::File(_)) | Err(_) => names.push(path.to_string()),
        }
        paths.push(path);
    }
    Ok((paths, names.join(", ")))
}
