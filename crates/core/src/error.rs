//! The two voices of an error: [`Error`] is what the model reads, its source chain is what the operator reads.

use std::fmt;

use crate::capacity::CapacityMeasure;
use crate::command::{CommandName, ViewRange};
use crate::echo::echo;
use crate::path::{MemoryPath, PathError};
use crate::store::InvalidBatch;

/// Why a command had no effect, in the words that the model reads.
///
/// `Display` gives the contract's exact text. It never holds a path of the host, a bucket, a key or an operating system's
/// words (`[W5]`); those are in the [source chain](std::error::Error::source) for the operator. A program that wants other
/// wording, or another language, matches on the variants.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The input is not a command (`[W1]`).
    #[error("Error: {0}")]
    Input(InputError),

    /// A path breaks a rule of `[P1]`, `[P2]` or `[P3]`.
    #[error("Error: {0}")]
    Path(PathError),

    /// A path is or lies behind a symbolic link (`[P4]`).
    #[error("Error: Path {path} would escape /memories directory via a symbolic link")]
    SymbolicLink {
        /// The path that was asked for.
        path: MemoryPath,
    },

    /// Something that is neither a file nor a directory is there, put there by another program (`[P4]`).
    #[error("Error: The path {path} is neither a file nor a directory and cannot be used")]
    NotARegularFile {
        /// The path of the thing.
        path: MemoryPath,
    },

    /// Nothing is there (`[V6]`, `[S2]`, `[I3]`, `[D2]`, `[R2]`). The wording differs from command to command.
    #[error("{}", match command {
        CommandName::View => format!("The path {path} does not exist. Please provide a valid path."),
        CommandName::StrReplace => format!("Error: The path {path} does not exist. Please provide a valid path."),
        _ => format!("Error: The path {path} does not exist"),
    })]
    NotFound {
        /// The command that looked for it.
        command: CommandName,
        /// The path that was asked for.
        path: MemoryPath,
    },

    /// `create` found a file or directory (`[C2]`).
    #[error("Error: File {path} already exists")]
    AlreadyExists {
        /// The path that was to be created.
        path: MemoryPath,
    },

    /// `rename` found a file or directory at the new path (`[R2]`).
    #[error("Error: The destination {path} already exists")]
    DestinationExists {
        /// The new path.
        path: MemoryPath,
    },

    /// A file stands where a directory is needed (`[C3]`, `[R3]`).
    #[error(
        "Error: Cannot {command}{} {path}: its parent {parent} is a file, not a directory",
        if *command == CommandName::Rename { " to" } else { "" }
    )]
    ParentIsFile {
        /// The command that needs the directory.
        command: CommandName,
        /// The path that was to be made.
        path: MemoryPath,
        /// The file among its parents.
        parent: MemoryPath,
    },

    /// `rename` into the directory's own subtree (`[R3]`).
    #[error("Error: Cannot rename {old_path} to {new_path}: the destination lies beneath the source")]
    RenameIntoItself {
        /// What was to be renamed.
        old_path: MemoryPath,
        /// A path beneath it.
        new_path: MemoryPath,
    },

    /// `/memories` itself can be neither deleted nor renamed (`[P6]`).
    #[error("Error: Cannot {command} the /memories directory itself")]
    RootIsFixed {
        /// The command that was asked for.
        command: CommandName,
    },

    /// The range of `view` does not fit the file (`[V4]`).
    #[error(
        "Error: Invalid `view_range` parameter: {view_range}. It should be within the range of lines of the file: [1, {total_lines}]"
    )]
    InvalidViewRange {
        /// The range as it was given.
        view_range: ViewRange,
        /// The number of lines of the file.
        total_lines: usize,
    },

    /// The file has more lines than `view` can number (`[V5]`).
    #[error("File {path} exceeds maximum line limit of 999,999 lines.")]
    TooManyLines {
        /// The file.
        path: MemoryPath,
    },

    /// The file, put there by another program, is not UTF-8 text (`[V10]`).
    #[error(
        "Error: The file {path} is not UTF-8 text, so it cannot be {}. It can be deleted or renamed",
        if *command == CommandName::View { "shown" } else { "edited" }
    )]
    NotText {
        /// The command that needs text.
        command: CommandName,
        /// The file.
        path: MemoryPath,
    },

    /// `old_str` is empty (`[S5]`).
    #[error("Error: Parameter `old_str` must not be empty. Use `insert` to add text to {path}")]
    EmptyOldStr {
        /// The file.
        path: MemoryPath,
    },

    /// `old_str` is not in the file (`[S3]`).
    #[error("No replacement was performed, old_str `{old_str}` did not appear verbatim in {path}.")]
    NoMatch {
        /// The file.
        path: MemoryPath,
        /// The text that was looked for.
        old_str: String,
    },

    /// `old_str` is in the file more than once (`[S4]`).
    #[error(
        "No replacement was performed. Multiple occurrences of old_str `{old_str}` in lines: {}. Please ensure it is unique",
        Joined(lines)
    )]
    MultipleMatches {
        /// The text that was looked for.
        old_str: String,
        /// The 1-based lines on which the occurrences start.
        lines: Vec<usize>,
    },

    /// `insert_line` is outside the file (`[I2]`).
    #[error(
        "Error: Invalid `insert_line` parameter: {insert_line}. It should be within the range of lines of the file: [0, {total_lines}]"
    )]
    InvalidInsertLine {
        /// The line as it was given.
        insert_line: i128,
        /// The number of lines of the file.
        total_lines: usize,
    },

    /// Others kept changing the path for so long that the command gave up; it changed nothing (`[X3]`).
    #[error(
        "Error: {path} was changed by others again and again during the command. Nothing was changed by it. Please try again"
    )]
    Conflict {
        /// The path that was asked for.
        path: MemoryPath,
    },

    /// The storage behind the tool failed. The source chain says how, for the operator alone (`[W5]`).
    #[error("Error: {}", match kind {
        FailureKind::AccessDenied => "The memory storage refused access. Nothing was changed",
        FailureKind::Busy => "The memory storage is busy. Nothing was changed. Please try again",
        FailureKind::Damaged => "The memory storage holds damaged data here. Nothing was changed",
        FailureKind::Full => "The memory storage is full. Nothing was changed",
        FailureKind::UnsupportedName => "The memory storage cannot hold a file of that name. Nothing was changed",
        FailureKind::OutcomeUnknown =>
            "The memory storage failed before it could confirm the change. View the path to see whether it was made",
        FailureKind::Other => "The memory storage failed. Nothing was changed",
    })]
    Storage {
        /// What kind of failure it was.
        kind: FailureKind,
        /// What the store reported.
        #[source]
        source: StoreError,
    },

    /// A policy of the store does not allow the command.
    #[error("Error: {reason}")]
    Refused {
        /// What was to be read or changed.
        path: MemoryPath,
        /// Why not, for the model.
        reason: String,
    },

    /// An error of a tool that does not use the engine, in its own words. They are shown to the model.
    #[error("{message}")]
    Other {
        /// The text for the model.
        message: String,
        /// The cause, for the operator.
        #[source]
        source: Option<BoxError>,
    },
}

impl Error {
    /// An error in the tool's own words, shown to the model as they are.
    pub fn other(message: impl Into<String>) -> Self {
        Self::Other { message: message.into(), source: None }
    }

    /// An error in the tool's own words, with a cause for the operator that the model does not read.
    pub fn other_with_source(message: impl Into<String>, source: impl Into<BoxError>) -> Self {
        Self::Other { message: message.into(), source: Some(source.into()) }
    }
}

// Not by `#[from]`, which would make the inner error the source too: the text would show twice in a chain of causes.
impl From<InputError> for Error {
    fn from(error: InputError) -> Self {
        Self::Input(error)
    }
}

impl From<PathError> for Error {
    fn from(error: PathError) -> Self {
        Self::Path(error)
    }
}

/// Numbers with commas between them. Of a character in a large file there may be millions.
struct Joined<'a>(&'a [usize]);

impl fmt::Display for Joined<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, number) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            write!(f, "{number}")?;
        }
        Ok(())
    }
}

/// Why an input is not a command (`[W1]`). Its `Display` is safe to show to the model.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// The input is not JSON in UTF-8, or nested too deeply to be read.
    #[error("The input cannot be read as JSON: {reason}")]
    NotJson {
        /// What is wrong, and where.
        reason: String,
    },
    /// The input is longer than whoever received it accepts.
    #[error("The input is longer than {limit} bytes")]
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// The input is JSON, but not an object.
    #[error("The input must be a JSON object, got {found}")]
    NotAnObject {
        /// The type that was found.
        found: &'static str,
    },
    /// A `tool_use` block for another tool.
    #[error("Unknown tool: {}. This is the tool memory", echo(name))]
    UnknownTool {
        /// The name in the block.
        name: String,
    },
    /// `command` is none of the six.
    #[error(
        "Unknown command: {}. The commands are view, create, str_replace, insert, delete and rename",
        echo(command)
    )]
    UnknownCommand {
        /// The command as it was given.
        command: String,
    },
    /// A field is missing.
    #[error("Missing field `{field}`{}", of_command(*command))]
    MissingField {
        /// The command that needs the field, where it is known.
        command: Option<CommandName>,
        /// The field.
        field: &'static str,
    },
    /// A field has the wrong type.
    #[error("Field `{field}`{} must be {expected}, got {found}", of_command(*command))]
    WrongType {
        /// The command that has the field, where it is known.
        command: Option<CommandName>,
        /// The field.
        field: &'static str,
        /// The type that it must have.
        expected: &'static str,
        /// The type that was found.
        found: &'static str,
    },
}

fn of_command(command: Option<CommandName>) -> String {
    command.map(|command| format!(" of the command {command}")).unwrap_or_default()
}

/// A cause from outside this crate.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// Why a store did not do what it was asked. For the engine and the operator: the model reads the reason of a refusal alone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A path that was to be free is not, or a directory is where a file was to be written.
    #[error("{path} already exists")]
    AlreadyExists {
        /// The occupied path.
        path: MemoryPath,
    },
    /// Nothing is at the path to be removed or renamed.
    #[error("{path} does not exist")]
    NotFound {
        /// The path.
        path: MemoryPath,
    },
    /// The file is not at the version that the batch requires, or is gone.
    #[error("{path} is not at the required version")]
    VersionMismatch {
        /// The path.
        path: MemoryPath,
    },
    /// A file stands where a directory is needed.
    #[error("{path} is a file, not a directory")]
    NotADirectory {
        /// The file.
        path: MemoryPath,
    },
    /// A symbolic link stands at or above the path (`[P4]`).
    #[error("{path} is a symbolic link")]
    SymbolicLink {
        /// The link.
        path: MemoryPath,
    },
    /// A device, socket, pipe or the like stands at or above the path (`[P4]`).
    #[error("{path} is neither a file nor a directory")]
    NotARegularFile {
        /// The thing.
        path: MemoryPath,
    },
    /// More would be at or beneath the path than the batch allows (`[X4]`). The text is safe to show to the model.
    #[error("{path} would have {asked} {measure}. It may have up to {limit}, of which {left} are left")]
    OverCapacity {
        /// The directory.
        path: MemoryPath,
        /// Of what there would be too much.
        measure: CapacityMeasure,
        /// How much there may be.
        limit: u64,
        /// How much there would be after the batch.
        asked: u64,
        /// How much may be added to what there is; nothing where that is over the limit already. For a file or path that is new,
        /// the whole limit.
        left: u64,
    },
    /// A policy of the store does not allow it: a limit, a right, what a text may hold.
    #[error("{path}: {reason}")]
    Refused {
        /// What was to be read or changed.
        path: MemoryPath,
        /// Why not, in a sentence without a full stop that says what would be allowed. It is shown to the model.
        reason: String,
    },
    /// A rename would give a file an illegal path.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The program put an impossible batch together.
    #[error(transparent)]
    InvalidBatch(#[from] InvalidBatch),
    /// The backend failed.
    #[error("{operation} failed")]
    Failure {
        /// What kind of failure it was.
        kind: FailureKind,
        /// What the store was doing, such as `reading a file`.
        operation: &'static str,
        /// The cause.
        #[source]
        source: BoxError,
    },
}

impl StoreError {
    /// A failure of the backend while it was doing `operation`.
    pub fn failure(kind: FailureKind, operation: &'static str, source: impl Into<BoxError>) -> Self {
        Self::Failure { kind, operation, source: source.into() }
    }
}

/// What kind of failure of the backend it was, as far as that matters to who reads the reply.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum FailureKind {
    /// The process may not do this: permissions, credentials, a read-only medium.
    AccessDenied,
    /// Somebody else held the store for too long. Trying again may help.
    Busy,
    /// Stored data is not what the store wrote.
    Damaged,
    /// No space or quota is left.
    Full,
    /// The change may or may not have been made.
    OutcomeUnknown,
    /// The backend cannot hold a file of that name.
    UnsupportedName,
    /// Anything else. Nothing was changed.
    Other,
}
