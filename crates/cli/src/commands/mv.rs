//! `memory-tool mv`: moves files and directories.

use clap::{Args, ValueHint};
use memory_tool::policies::MountedStore;
use memory_tool::store::{Batch, Change, Precondition};
use memory_tool::{Memory, MemoryPath, Node, Store as _, StoreError};

use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::files::{Stop, perform, retried};
use crate::memory::Access;
use crate::options::MemoryArgument;
use crate::options::values::memory_path;

#[derive(Args, Debug)]
pub(crate) struct MvArguments {
    /// The files and directories to move
    #[arg(required = true, value_name = "FROM", value_parser = memory_path, value_hint = ValueHint::Other)]
    pub(crate) from: Vec<MemoryPath>,

    /// The new path, or the directory to move them into
    #[arg(value_parser = Destination::parse, value_hint = ValueHint::Other)]
    pub(crate) to: Destination,

    /// Replace existing files
    #[arg(short, long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) memory: MemoryArgument,
}

/// The new path of `mv`.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    pub(crate) path: MemoryPath,
    /// Whether it ends with a slash.
    pub(crate) is_directory: bool,
}

impl Destination {
    fn parse(given: &str) -> Result<Self, String> {
        Ok(Self { path: memory_path(given)?, is_directory: given.ends_with('/') })
    }
}

/// Moves all paths in one step, or to another of the mounted memories, each in two.
pub(crate) fn run(arguments: &MvArguments) -> Result<ExitStatus, Failure> {
    perform(&arguments.memory, "mv", Access::Change, async |memory| {
        let mv = async || {
            let batch = moves(&memory, arguments).await?;
            match memory.store().apply(batch.clone()).await {
                Err(error) if MountedStore::is_rename_across(&error) => move_each(&memory, &batch).await,
                applied => Ok(applied?),
            }
        };
        if arguments.force {
            retried(mv).await?;
        } else {
            mv().await.map_err(advise_force)?;
        }
        Ok(ExitStatus::Success)
    })
}

async fn move_each(memory: &Memory, batch: &Batch) -> Result<(), Stop> {
    for change in batch.changes() {
        if let Change::Rename { from, to } = change {
            let [from, to] = [from, to].map(MemoryPath::try_from);
            let moved = memory.rename(&from.map_err(StoreError::from)?, &to.map_err(StoreError::from)?).await;
            moved.map_err(|error| match error {
                // No step would replace the one file and remove the other.
                error @ StoreError::AlreadyExists { .. } => Stop::Wrong(error.to_string()),
                error => error.into(),
            })?;
        }
    }
    Ok(())
}

async fn moves(memory: &Memory, arguments: &MvArguments) -> Result<Batch, Stop> {
    let to = &arguments.to.path;
    let is_directory = match memory.read(to).await {
        Ok(Node::Directory(_)) => true,
        Ok(Node::File(_)) if arguments.to.is_directory || arguments.from.len() > 1 => {
            return Err(StoreError::NotADirectory { path: to.clone().into() }.into());
        }
        Ok(Node::Absent) if arguments.from.len() > 1 && !arguments.to.is_directory => {
            return Err(Stop::Wrong(format!("{to} is not a directory; {to}/ creates it")));
        }
        _ => arguments.to.is_directory,
    };
    let mut batch = Batch::new();
    let mut new_paths = Vec::new();
    for from in &arguments.from {
        let name = from.file_name().ok_or_else(|| Stop::Wrong("cannot move /memories itself".to_owned()))?;
        let new = if is_directory { to.join(name).map_err(StoreError::from)? } else { to.clone() };
        if new == *from || new.is_under(from) {
            return Err(Stop::Wrong(format!("cannot move {from} to {new}, which is the same or in it")));
        }
        if new_paths.contains(&new) {
            return Err(Stop::Wrong(format!("cannot move two files to {new}")));
        }
        batch = if arguments.force { replace(memory, batch, from, &new).await? } else { batch.rename(from, &new) };
        new_paths.push(new);
    }
    Ok(batch)
}

/// Moves a file onto another file. A store renames only to a path that does not exist.
async fn replace(memory: &Memory, batch: Batch, from: &MemoryPath, to: &MemoryPath) -> Result<Batch, Stop> {
    let replaced = match memory.read(to).await? {
        Node::Absent => return Ok(batch.rename(from, to)),
        Node::Directory(_) => return Err(StoreError::NotAFile { path: to.clone().into() }.into()),
        Node::File(replaced) => replaced,
    };
    match memory.read(from).await? {
        Node::File(file) => Ok(batch
            .require(from, Precondition::Version(file.version))
            .require(to, Precondition::Version(replaced.version))
            .remove(from)
            .write(to, file.content)),
        Node::Directory(_) => Err(Stop::Wrong(format!("cannot replace the file {to} by a directory"))),
        Node::Absent => Err(StoreError::NotFound { path: from.clone().into() }.into()),
    }
}

fn advise_force(stop: Stop) -> Stop {
    match stop {
        Stop::Refused(error @ StoreError::AlreadyExists { .. }) => Stop::Wrong(format!("{error}; -f replaces a file")),
        stop => stop,
    }
}
