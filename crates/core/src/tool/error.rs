//! [`Error`]: the errors of commands, which the model reads.

use std::fmt;

use serde_json::Value;

use crate::store::error::{BoxError, ErrorKind, StoreError};
use crate::store::path::MemoryPath;
use crate::store::path_rules::PathError;
use crate::store::quote::quote;
use crate::tool::command_name::CommandName;
use crate::tool::lines::{InsertLine, ViewRange};

/// An error of a command.
///
/// `Display` returns the exact text of the contract, which the model reads. It never contains host paths, bucket names,
/// keys or operating-system errors (`[W5]`). Those are in the [source chain](std::error::Error::source), for the
/// operator. To use another language, match on the variants, and call [`with_message`](Self::with_message).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The input is not a command (`[W1]`).
    #[error("Error: {0}")]
    Input(InputError),

    /// A path violates `[P1]`, `[P2]` or `[P3]`.
    #[error("Error: {0}")]
    Path(PathError),

    /// The path or a parent is a symbolic link (`[P4]`).
    #[error("Error: Path {path} would escape /memories directory via a symbolic link")]
    SymbolicLink {
        /// The requested path.
        path: MemoryPath,
    },

    /// The path is a special file that another program created (`[P4]`).
    #[error("Error: The path {path} is neither a file nor a directory and cannot be used")]
    NotARegularFile {
        /// The path.
        path: MemoryPath,
    },

    /// The path does not exist (`[V6]`, `[S2]`, `[I3]`, `[D2]`, `[R2]`). The wording depends on the command.
    #[error("{}", match command {
        CommandName::View => format!("The path {path} does not exist. Please provide a valid path."),
        CommandName::StrReplace => format!("Error: The path {path} does not exist. Please provide a valid path."),
        _ => format!("Error: The path {path} does not exist"),
    })]
    NotFound {
        /// The command.
        command: CommandName,
        /// The requested path.
        path: MemoryPath,
    },

    /// The path of `create` exists (`[C2]`).
    #[error("Error: File {path} already exists")]
    AlreadyExists {
        /// The path.
        path: MemoryPath,
    },

    /// The new path of `rename` exists (`[R2]`).
    #[error("Error: The destination {path} already exists")]
    DestinationExists {
        /// The new path.
        path: MemoryPath,
    },

    /// A parent of the path is a file (`[C3]`, `[R3]`).
    #[error(
        "Error: Cannot {command}{} {path}: its parent {parent} is a file, not a directory",
        if *command == CommandName::Rename { " to" } else { "" }
    )]
    ParentIsFile {
        /// The command.
        command: CommandName,
        /// The path to create.
        path: MemoryPath,
        /// The parent.
        parent: MemoryPath,
    },

    /// The new path of `rename` is inside the old path (`[R3]`).
    #[error("Error: Cannot rename {old_path} to {new_path}: the destination is inside the source")]
    RenameIntoItself {
        /// The old path.
        old_path: MemoryPath,
        /// The new path.
        new_path: MemoryPath,
    },

    /// `/memories` itself cannot be deleted or renamed (`[P6]`).
    #[error("Error: Cannot {command} the /memories directory itself")]
    RootIsFixed {
        /// The command.
        command: CommandName,
    },

    /// The range of `view` is invalid for the file (`[V4]`).
    #[error(
        "Error: Invalid `view_range` parameter: {view_range}. It should be within the range of lines of the file: \
         [1, {total_lines}]"
    )]
    InvalidViewRange {
        /// The invalid range.
        view_range: ViewRange,
        /// The number of lines of the file.
        total_lines: usize,
    },

    /// The file has too many lines for `view` (`[V5]`).
    #[error("File {path} exceeds maximum line limit of 999,999 lines.")]
    TooManyLines {
        /// The file.
        path: MemoryPath,
    },

    /// The file is neither text nor an image that a reply can contain (`[V9]`, `[V10]`). Another program created it.
    #[error(
        "Error: The file {path} {reason}, so it cannot be {}. You can delete or rename it.",
        if *command == CommandName::View { "viewed" } else { "edited" }
    )]
    NotText {
        /// The command.
        command: CommandName,
        /// The file.
        path: MemoryPath,
        /// The reason.
        reason: NotTextReason,
    },

    /// A field contains U+0000 (`[C4]`).
    #[error(
        "Error: Field `{field}` of the command {command} contains the character U+0000 (NUL), which is not allowed. \
         Leave it out."
    )]
    NulCharacter {
        /// The command.
        command: CommandName,
        /// The field.
        field: &'static str,
    },

    /// `old_str` is empty (`[S5]`).
    #[error("Error: Parameter `old_str` must not be empty. Use `insert` to add text to {path}.")]
    EmptyOldStr {
        /// The file.
        path: MemoryPath,
    },

    /// The file does not contain `old_str` (`[S3]`).
    #[error("No replacement was performed, old_str `{old_str}` did not appear verbatim in {path}.")]
    NoMatch {
        /// The file.
        path: MemoryPath,
        /// The string to replace.
        old_str: String,
    },

    /// The file contains `old_str` more than once (`[S4]`).
    #[error(
        "No replacement was performed. Multiple occurrences of old_str `{old_str}` in lines: {}. \
         Please ensure it is unique",
        CommaSeparated(lines)
    )]
    MultipleMatches {
        /// The string to replace.
        old_str: String,
        /// The 1-based lines on which the occurrences start.
        lines: Vec<usize>,
    },

    /// `insert_line` is outside the file (`[I2]`).
    #[error(
        "Error: Invalid `insert_line` parameter: {insert_line}. It should be within the range of lines of the file: \
         [0, {total_lines}]"
    )]
    InvalidInsertLine {
        /// The invalid line.
        insert_line: InsertLine,
        /// The number of lines of the file.
        total_lines: usize,
    },

    /// The path kept changing until the command gave up without any change (`[X3]`).
    #[error("Error: {path} kept changing while this command ran, so nothing was modified. Try again.")]
    Conflict {
        /// The requested path.
        path: MemoryPath,
    },

    /// The storage failed. The cause is only in the source chain (`[W5]`).
    #[error("Error: {}", match kind {
        ErrorKind::AccessDenied => "The memory storage refused access. Nothing was changed.",
        ErrorKind::Busy => "The memory storage is busy. Nothing was changed. Try again.",
        ErrorKind::Damaged => "The memory storage holds damaged data here. Nothing was changed.",
        ErrorKind::Full => "The memory storage is full. Nothing was changed.",
        ErrorKind::UnsupportedName => "The memory storage does not support this file name. Nothing was changed.",
        ErrorKind::OutcomeUnknown =>
            "The memory storage failed before it could confirm the change. View the path to check whether the change \
             was made.",
        _ => "The memory storage failed. Nothing was changed.",
    })]
    Storage {
        /// The kind of failure.
        kind: ErrorKind,
        /// The error of the store.
        #[source]
        source: StoreError,
    },

    /// A policy refused the command.
    #[error("Error: {reason}")]
    Refused {
        /// The path to read or change.
        path: MemoryPath,
        /// A short name of the policy, such as `limits` or `read-only`. It is not part of the message.
        policy: &'static str,
        /// The reason, for the model.
        reason: String,
    },

    /// An error of another implementation of [`MemoryTool`](crate::MemoryTool).
    #[error("{message}")]
    Other {
        /// The message for the model.
        message: String,
        /// The kind.
        kind: ErrorKind,
        /// The cause, for the operator.
        #[source]
        source: Option<BoxError>,
    },
}

impl Error {
    /// Creates an error with a message for the model.
    pub fn other(message: impl Into<String>) -> Self {
        Self::Other { message: message.into(), kind: ErrorKind::Other, source: None }
    }

    /// Creates an error with a message for the model and a cause for the operator.
    pub fn other_with_source(message: impl Into<String>, source: impl Into<BoxError>) -> Self {
        Self::Other { message: message.into(), kind: ErrorKind::Other, source: Some(source.into()) }
    }

    /// Replaces the message for the model, for example by a translation. The error keeps its kind and, if the storage
    /// failed, its cause.
    #[must_use]
    pub fn with_message(self, message: impl Into<String>) -> Self {
        let (message, kind) = (message.into(), self.kind());
        let source = match self {
            Self::Storage { source, .. } => Some(source.into()),
            Self::Other { source, .. } => source,
            _ => None,
        };
        Self::Other { message, kind, source }
    }

    /// The kind of error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::AlreadyExists { .. } | Self::DestinationExists { .. } => ErrorKind::AlreadyExists,
            Self::Conflict { .. } => ErrorKind::Conflict,
            Self::Refused { .. } => ErrorKind::Refused,
            Self::Storage { kind, .. } | Self::Other { kind, .. } => *kind,
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
            | Self::NulCharacter { .. }
            | Self::EmptyOldStr { .. }
            | Self::NoMatch { .. }
            | Self::MultipleMatches { .. }
            | Self::InvalidInsertLine { .. } => ErrorKind::Invalid,
        }
    }

    /// The name for programs, logs and metrics, which stays the same when messages change: `no_match`, for example. It
    /// contains no part of a path or of a file.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Input(_) => "invalid_input",
            Self::Path(_) => "invalid_path",
            Self::SymbolicLink { .. } => "symbolic_link",
            Self::NotARegularFile { .. } => "not_a_regular_file",
            Self::DestinationExists { .. } => "destination_exists",
            Self::ParentIsFile { .. } => "parent_is_file",
            Self::RenameIntoItself { .. } => "rename_into_itself",
            Self::RootIsFixed { .. } => "root_is_fixed",
            Self::InvalidViewRange { .. } => "invalid_view_range",
            Self::TooManyLines { .. } => "too_many_lines",
            Self::NotText { .. } => "not_text",
            Self::NulCharacter { .. } => "nul_character",
            Self::EmptyOldStr { .. } => "empty_old_str",
            Self::NoMatch { .. } => "no_match",
            Self::MultipleMatches { .. } => "multiple_matches",
            Self::InvalidInsertLine { .. } => "invalid_insert_line",
            Self::NotFound { .. }
            | Self::AlreadyExists { .. }
            | Self::Conflict { .. }
            | Self::Refused { .. }
            | Self::Storage { .. }
            | Self::Other { .. } => self.kind().name(),
        }
    }

    /// The policy that refused the command.
    pub fn policy(&self) -> Option<&'static str> {
        match self {
            Self::Refused { policy, .. } => Some(policy),
            _ => None,
        }
    }

    /// Whether the same command may succeed later. This includes a conflict, because a command reads again. It excludes
    /// [`ErrorKind::OutcomeUnknown`]: first check whether the change was made.
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind(), ErrorKind::Conflict | ErrorKind::Busy)
    }
}

// `#[from]` would also make the inner error the source, and the source chain would contain the same message twice.
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

/// The reason why a file is not text (`[V9]`, `[V10]`).
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NotTextReason {
    /// The file is not UTF-8.
    #[error("is not UTF-8 text")]
    NotUtf8,
    /// The file contains U+0000.
    #[error("contains the character U+0000 (NUL)")]
    Nul,
    /// The file has the name of an image, and is neither UTF-8 text nor a complete image.
    #[error("is neither UTF-8 text nor a complete PNG or JPEG image")]
    NotAnImage,
    /// The API does not accept an image with these sides.
    #[error("is an image of {width} × {height} pixels, and each side must have 1 to 8,000")]
    ImageSize {
        /// The width in pixels.
        width: u32,
        /// The height in pixels.
        height: u32,
    },
    /// The API does not accept an image of this length.
    #[error("is an image of {characters} characters in base64, over the limit of 5,242,880")]
    LargeImage {
        /// The length in base64.
        characters: usize,
    },
}

/// Displays numbers separated by commas, without a temporary string: there can be millions.
struct CommaSeparated<'a>(&'a [usize]);

impl fmt::Display for CommaSeparated<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, number) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            write!(f, "{number}")?;
        }
        Ok(())
    }
}

/// An invalid input (`[W1]`). The message is safe to show to the model.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// The input is not valid JSON in UTF-8, or is nested too deeply.
    #[error("The input cannot be read as JSON: {reason}")]
    NotJson {
        /// The error of the parser, with the position.
        reason: String,
    },
    /// The input exceeds the size limit of the receiver.
    #[error("The input is longer than {limit} bytes")]
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// The input is not a JSON object.
    #[error("The input must be a JSON object, got {found}")]
    NotAnObject {
        /// The actual type.
        found: &'static str,
    },
    /// The `tool_use` block is for another tool.
    #[error("Unknown tool: {}. The only tool here is memory.", quote(name))]
    UnknownTool {
        /// The name of the other tool.
        name: String,
    },
    /// The command is unknown.
    #[error(
        "Unknown command: {}. The commands are view, create, str_replace, insert, delete and rename.",
        quote(command)
    )]
    UnknownCommand {
        /// The unknown command.
        command: String,
    },
    /// A field is missing.
    #[error("Missing field `{field}`{}", of_command(*command))]
    MissingField {
        /// The command, if it is known.
        command: Option<CommandName>,
        /// The field.
        field: &'static str,
    },
    /// A field has the wrong type.
    #[error("Field `{field}`{} must be {expected}, got {found}: {}", of_command(*command), quote(value))]
    WrongType {
        /// The command, if it is known.
        command: Option<CommandName>,
        /// The field.
        field: &'static str,
        /// The expected type.
        expected: &'static str,
        /// The actual type.
        found: &'static str,
        /// The value as JSON.
        value: String,
    },
}

impl InputError {
    /// The value of a field that must be a string. Null is the same as a missing field.
    pub(crate) fn string_of(
        command: Option<CommandName>,
        field: &'static str,
        value: Option<Value>,
    ) -> Result<String, Self> {
        match value {
            Some(Value::String(text)) => Ok(text),
            None | Some(Value::Null) => Err(Self::MissingField { command, field }),
            Some(other) => Err(Self::wrong_type(command, field, "a string", &other)),
        }
    }

    pub(crate) fn wrong_type(
        command: Option<CommandName>,
        field: &'static str,
        expected: &'static str,
        value: &Value,
    ) -> Self {
        Self::WrongType { command, field, expected, found: type_name(value), value: value.to_string() }
    }
}

fn of_command(command: Option<CommandName>) -> String {
    command.map(|command| format!(" of the command {command}")).unwrap_or_default()
}

pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a number with a fraction",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
