//! [`Error`]: what the model reads. Its source chain is what the operator reads.

use std::fmt;

use crate::command_name::CommandName;
use crate::lines::{InsertLine, ViewRange};
use crate::path::{MemoryPath, PathError};
use crate::quote::quote;
use crate::store_error::{BoxError, ErrorKind, FailureKind, StoreError};

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
    #[error("Error: Cannot rename {old_path} to {new_path}: the destination is inside the source")]
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
        "Error: The file {path} is not UTF-8 text, so it cannot be {}. You can delete or rename it.",
        if *command == CommandName::View { "viewed" } else { "edited" }
    )]
    NotText {
        /// The command that needs text.
        command: CommandName,
        /// The file.
        path: MemoryPath,
    },

    /// `old_str` is empty (`[S5]`).
    #[error("Error: Parameter `old_str` must not be empty. Use `insert` to add text to {path}.")]
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
        insert_line: InsertLine,
        /// The number of lines of the file.
        total_lines: usize,
    },

    /// Others kept changing the path for so long that the command gave up; it changed nothing (`[X3]`).
    #[error("Error: {path} kept changing while this command ran, so nothing was modified. Try again.")]
    Conflict {
        /// The path that was asked for.
        path: MemoryPath,
    },

    /// The storage behind the tool failed. The source chain says how, for the operator alone (`[W5]`).
    #[error("Error: {}", match kind {
        FailureKind::AccessDenied => "The memory storage refused access. Nothing was changed.",
        FailureKind::Busy => "The memory storage is busy. Nothing was changed. Try again.",
        FailureKind::Damaged => "The memory storage holds damaged data here. Nothing was changed.",
        FailureKind::Full => "The memory storage is full. Nothing was changed.",
        FailureKind::UnsupportedName => "The memory storage does not support this file name. Nothing was changed.",
        FailureKind::OutcomeUnknown =>
            "The memory storage failed before it could confirm the change. View the path to check whether the change was made.",
        FailureKind::Other => "The memory storage failed. Nothing was changed.",
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
        /// Which policy refused, in a word or two, such as `limits` or `read-only`. The model does not read it.
        policy: &'static str,
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

    /// The kind of error, for a program that decides by it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::AlreadyExists { .. } | Self::DestinationExists { .. } => ErrorKind::AlreadyExists,
            Self::Conflict { .. } => ErrorKind::Conflict,
            Self::Refused { .. } => ErrorKind::Refused,
            Self::Storage { kind, .. } => ErrorKind::Storage(*kind),
            Self::Other { .. } => ErrorKind::Other,
            Self::Input(_)
            | Self::Path(_)
            | Self::SymbolicLink { .. }
            | Self::NotARegularFile { .. }
            | Self::ParentIsFile { .. }
            | Self::RenameIntoItself { .. }
            | Self::RootIsFixed { .. }
            | Self::InvalidViewRange { .. }
            | Self::TooManyLines { .. }
            | Self::NotText { .. }
            | Self::EmptyOldStr { .. }
            | Self::NoMatch { .. }
            | Self::MultipleMatches { .. }
            | Self::InvalidInsertLine { .. } => ErrorKind::Invalid,
        }
    }

    /// Whether the same command may succeed later, with nothing else done.
    pub fn is_retryable(&self) -> bool {
        self.kind().is_retryable()
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
    #[error("Unknown tool: {}. The only tool here is memory.", quote(name))]
    UnknownTool {
        /// The name in the block.
        name: String,
    },
    /// `command` is none of the six.
    #[error(
        "Unknown command: {}. The commands are view, create, str_replace, insert, delete and rename.",
        quote(command)
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
