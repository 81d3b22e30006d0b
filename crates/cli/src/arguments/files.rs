//! The arguments of the commands for people: `ls`, `cat`, `edit`, `append`, `mv` and `rm`.

use clap::{Args, ValueHint};
use memory_tool::MemoryPath;

use crate::arguments::MemoryArgument;
use crate::arguments::values::{Point, memory_path};

/// The arguments of `ls`.
#[derive(Args, Debug)]
pub(crate) struct LsArguments {
    /// The files and directories to list [default: /memories]
    #[arg(value_name = "PATH", value_parser = memory_path, value_hint = ValueHint::Other)]
    pub(crate) paths: Vec<MemoryPath>,

    /// Print sizes in bytes and the times of the last writes
    #[arg(short, long)]
    pub(crate) long: bool,

    /// List directories at all levels
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,

    /// List the newest files first
    #[arg(short, long)]
    pub(crate) time: bool,

    /// Include hidden names, which start with a dot
    #[arg(short, long)]
    pub(crate) all: bool,

    /// Print JSON, one value per line
    ///
    /// Its fields are path, type, size and modified, the time of the last write or null.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) memory: MemoryArgument,
}

/// The arguments of `cat`.
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

/// The arguments of `edit`.
#[derive(Args, Debug)]
pub(crate) struct EditArguments {
    /// The file to edit, which is created if it does not exist
    #[arg(value_parser = memory_path, value_hint = ValueHint::Other)]
    pub(crate) path: MemoryPath,

    #[command(flatten)]
    pub(crate) memory: MemoryArgument,
}

/// The arguments of `append`.
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

/// The arguments of `mv`.
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

/// The arguments of `rm`.
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
